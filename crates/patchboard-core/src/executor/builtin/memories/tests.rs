use std::sync::Arc;

use serde_json::json;

use super::super::MAX_ANSWER_BYTES;
use super::*;
use crate::conversation::ConversationOrigin;
use crate::executor::builtin::tests::{ALICE, Fixture, KindsOfWords, scope};
use crate::memory::{MemoryOptions, context, extract};
use crate::store::WriteBatch;

/// The keys and values of an answer, and its first line.
fn shown(answer: &str) -> (String, Vec<(String, String)>) {
    let (head, listed) = answer.split_once('\n').unwrap();
    let listed: Vec<Value> = serde_json::from_str(listed).unwrap();
    let text = |memory: &Value, field: &str| memory[field].as_str().unwrap().to_owned();
    (head.to_owned(), listed.iter().map(|memory| (text(memory, "key"), text(memory, "value"))).collect())
}

fn pairs(listed: &[(&str, &str)]) -> Vec<(String, String)> {
    listed.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

async fn remember_all(fixture: &Fixture, memories: &[(&str, &str)]) {
    for (key, value) in memories {
        let answer = fixture.ok(ALICE, REMEMBER, json!({"key": key, "value": value})).await;
        assert_eq!(answer, format!("remembered `{key}`"));
        fixture.clock.advance_seconds(1);
    }
}

/// Stores a fact as the board does for a stated one.
async fn state(fixture: &Fixture, text: &str) {
    let scope = scope("alice", "1");
    for fact in extract::stated_facts(text) {
        let fact = NewFact {
            owner: scope.owner.clone(),
            subject: fact.subject.to_owned(),
            predicate: fact.predicate,
            object: fact.object,
            confidence: fact.confidence,
            session: scope.session.clone(),
            run: None,
            learned_at: jiff::Timestamp::UNIX_EPOCH,
            embedding: None,
        };
        let batch = WriteBatch::boundary(vec![StoreWrite::LearnFact(fact)]);
        fixture.store.commit(batch).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_remembered_is_recalled_in_every_conversation_of_the_account_and_of_no_other() {
    let fixture = Fixture::new();
    remember_all(&fixture, &[("deploy command", "make ship"), ("editor", "vi")]).await;
    for peer in ["1", "2"] {
        assert_eq!(fixture.ok(("alice", peer), RECALL, json!({"key": "deploy command"})).await, "make ship");
    }
    assert_eq!(fixture.ok(ALICE, RECALL, json!({"key": " deploy \n command "})).await, "make ship");
    let unknown = "nothing is remembered under `editor`; try `search_memories`";
    assert_eq!(fixture.refused(("bob", "1"), RECALL, json!({"key": "editor"})).await, unknown);
    for name in [LIST, SEARCH] {
        assert_eq!(fixture.ok(("bob", "1"), name, json!({})).await, "0 memories\n[]");
    }
    remember_all(&fixture, &[("editor", "ed")]).await;
    assert_eq!(fixture.ok(ALICE, RECALL, json!({"key": "editor"})).await, "ed", "replaced");
    assert_eq!(fixture.refused(ALICE, RECALL, json!({"key": "edit"})).await, unknown.replace("editor", "edit"));
    assert_eq!(fixture.refused(ALICE, RECALL, json!({"key": "Editor"})).await, unknown.replace("editor", "Editor"));
}

#[tokio::test]
async fn a_key_is_found_among_many_of_the_same_words_and_without_any_words() {
    let fixture = Fixture::new();
    for number in 0..1200 {
        fixture.ok(ALICE, REMEMBER, json!({"key": format!("note {number}"), "value": "note editor !!"})).await;
    }
    remember_all(&fixture, &[("!!", "no words"), ("note", "the note")]).await;
    for number in 1200..1800 {
        fixture.ok(ALICE, REMEMBER, json!({"key": format!("note {number}"), "value": "note editor !!"})).await;
    }
    assert_eq!(fixture.ok(ALICE, RECALL, json!({"key": "note"})).await, "the note");
    assert_eq!(fixture.ok(ALICE, RECALL, json!({"key": "!!"})).await, "no words");
    assert_eq!(fixture.ok(ALICE, RECALL, json!({"key": "note 0"})).await, "note editor !!");
    fixture.refused(ALICE, RECALL, json!({"key": "??"})).await;
}

#[tokio::test]
async fn memories_and_what_was_said_in_chats_are_one_memory() {
    let fixture = Fixture::new();
    state(&fixture, "My name is Ada. My favourite colour is blue.").await;
    assert_eq!(fixture.ok(ALICE, RECALL, json!({"key": "favourite colour"})).await, "blue");
    assert_eq!(fixture.ok(ALICE, RECALL, json!({"key": "Name"})).await, "Ada");

    // Neither replaces the other; what was remembered on purpose is what is recalled by its key.
    remember_all(&fixture, &[("name", "Countess Ada"), ("project", "engine <notes>")]).await;
    assert_eq!(fixture.ok(ALICE, RECALL, json!({"key": "name"})).await, "Countess Ada");
    state(&fixture, "My project is a secret.").await;
    assert_eq!(fixture.ok(ALICE, RECALL, json!({"key": "project"})).await, "engine <notes>");
    let (head, found) = shown(&fixture.ok(ALICE, SEARCH, json!({"query": "which colour?"})).await);
    assert_eq!((head.as_str(), found), ("1 memories", pairs(&[("favourite_colour", "blue")])));

    // A chat receives both.
    let query = newest_query(&scope("alice", "9"), 20);
    let facts = fixture.store.facts(query).await.unwrap().items;
    let system = context::assemble(&[], &facts, &[], 5000).system;
    for line in ["- name: Countess Ada", "- name: Ada", "- project: engine |notes|", "- project: a secret"] {
        assert!(system.contains(line), "{system}");
    }
    let origin = ConversationOrigin {
        channel: "web".to_owned(),
        account: "alice".to_owned(),
        peer: None,
        guild: None,
        team: None,
    };
    assert_eq!(origin.memory_owner(), scope("alice", "1").owner);
}

#[tokio::test]
async fn memories_are_searched_and_listed() {
    let fixture = Fixture::new();
    remember_all(&fixture, &[("drink", "green tea"), ("editor", "vi"), ("snack", "tea biscuits")]).await;
    let search = async |arguments: Value| shown(&fixture.ok(ALICE, SEARCH, arguments).await);
    let newest = pairs(&[("snack", "tea biscuits"), ("editor", "vi"), ("drink", "green tea")]);
    for arguments in [json!({}), json!({"query": null}), json!({"query": " "})] {
        assert_eq!(search(arguments).await, ("3 memories".to_owned(), newest.clone()));
    }
    assert_eq!(shown(&fixture.ok(ALICE, LIST, json!({})).await), ("3 memories".to_owned(), newest.clone()));
    let (head, listed) = shown(&fixture.ok(ALICE, LIST, json!({"limit": 2})).await);
    assert_eq!((head.as_str(), listed.as_slice()), ("2 memories; there are more", &newest[..2]));

    let (head, found) = search(json!({"query": "green tea"})).await;
    assert_eq!((head.as_str(), found), ("2 memories", pairs(&[("drink", "green tea"), ("snack", "tea biscuits")])));
    let (head, found) = search(json!({"query": "green tea", "limit": 1})).await;
    assert_eq!((head.as_str(), found), ("1 memories; there are more", pairs(&[("drink", "green tea")])));
    assert_eq!(search(json!({"query": "bicycle"})).await, ("0 memories".to_owned(), Vec::new()));
    let listed = fixture.ok(ALICE, LIST, json!({"limit": 1})).await;
    assert!(listed.contains(r#""learned_at": "2026-11-15T12:00:02Z""#), "{listed}");
}

#[tokio::test]
async fn memories_are_found_by_meaning_where_there_is_an_embedder() {
    let fixture = Fixture::with(MemoryOptions::default(), Some(Arc::new(KindsOfWords)));
    remember_all(&fixture, &[("morning", "an espresso"), ("evening", "walks the dog")]).await;
    let (_, found) = shown(&fixture.ok(ALICE, SEARCH, json!({"query": "favourite drink"})).await);
    assert_eq!(found, pairs(&[("morning", "an espresso")]));
    let (_, found) = shown(&fixture.ok(ALICE, SEARCH, json!({"query": "a pet?"})).await);
    assert_eq!(found, pairs(&[("evening", "walks the dog")]));
}

#[tokio::test]
async fn answers_are_bounded() {
    let fixture = Fixture::new();
    for number in 0..60 {
        let value = "\u{1}".repeat(MAX_VALUE_CHARACTERS);
        fixture.ok(ALICE, REMEMBER, json!({"key": number.to_string(), "value": value})).await;
    }
    let answer = fixture.ok(ALICE, LIST, json!({"limit": 500})).await;
    assert!(answer.len() <= MAX_ANSWER_BYTES + 100, "{}", answer.len());
    let (head, listed) = shown(&answer);
    assert_eq!((head.as_str(), listed.len()), ("4 memories; there are more", 4), "control characters take six bytes");
}

#[tokio::test]
async fn bad_arguments_are_refused() {
    let fixture = Fixture::new();
    for (name, arguments, expected) in [
        (REMEMBER, json!({"value": "v"}), "`key` must be a text"),
        (REMEMBER, json!({"key": 1, "value": "v"}), "`key` must be a text"),
        (REMEMBER, json!({"key": " ", "value": "v"}), "`key` must not be empty"),
        (REMEMBER, json!({"key": "k"}), "`value` must be a text"),
        (REMEMBER, json!({"key": "k", "value": ""}), "`value` must not be empty"),
        (REMEMBER, json!({"key": "k".repeat(101), "value": "v"}), "`key` is longer than 100 characters"),
        (REMEMBER, json!({"key": "k", "value": "v".repeat(2001)}), "`value` is longer than 2000 characters"),
        (RECALL, json!({}), "`key` must be a text"),
        (SEARCH, json!({"query": 1}), "`query` must be a text"),
        (SEARCH, json!({"query": "q".repeat(2001)}), "`query` is longer than 2000 characters"),
    ] {
        assert_eq!(fixture.refused(ALICE, name, arguments).await, expected);
    }
    assert_eq!(fixture.ok(ALICE, LIST, json!({})).await, "0 memories\n[]", "nothing was stored");
    let longest = json!({"key": "é".repeat(100), "value": "é".repeat(2000)});
    fixture.ok(ALICE, REMEMBER, longest).await;
    assert_eq!(fixture.ok(ALICE, RECALL, json!({"key": "é".repeat(100)})).await, "é".repeat(2000));
}
