//! What the model is told about the past: this account's, and as little of it as needed.

use super::*;
use crate::command::{ClearSession, RunKind, SearchMemory};
use crate::tokens;

fn system(bench: &Bench) -> String {
    bench.model.requests().last().expect("a request").system.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_fact_never_reaches_another_account() {
    let bench = bench([]);
    bench.chat("alice", "My name is Alice and I live in Paris.").await;
    bench.chat("alice", "What is my name?").await;
    assert!(system(&bench).contains("- name: Alice\n") && system(&bench).contains("- location: Paris\n"));
    bench.chat("bob", "What is my name? Where do I live? Alice? Paris?").await;
    assert_eq!(system(&bench), "");
    let told_bob: Vec<String> = prompt(bench.model.requests().last().unwrap());
    assert_eq!(told_bob.len(), 1);
    // The same account on another channel is another owner, too.
    let elsewhere = StartRun {
        client_tools: Vec::new(),
        origin: ConversationOrigin { channel: "telegram".into(), ..origin("alice") },
        content: "What is my name?".into(),
        client_id: "x".into(),
        model: None,
        folder: crate::command::FolderChoice::Configured,
        kind: RunKind::Chat { agent: None },
    };
    let run = bench.ask(&caller(1), elsewhere).await.unwrap();
    rest(bench.follow(run).await).await;
    assert_eq!(system(&bench), "");
    let found = async |account: &str| {
        let (channel, query) = ("web".to_owned(), "name paris".to_owned());
        let page = PageRequest::new(None, None);
        let search = SearchMemory { channel, account: account.to_owned(), query, page };
        let facts = bench.ask(&caller(1), search).await.unwrap();
        facts.items.len()
    };
    assert_eq!((found("alice").await, found("bob").await), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn facts_outlive_the_session_and_other_peers_share_them() {
    let bench = bench([]);
    bench.chat("alice", "My name is Alice.").await;
    let purge = ClearSession { session: SessionRef::Origin(origin("alice")), purge: true };
    bench.ask(&caller(1), purge).await.unwrap();
    let with_peer = StartRun {
        client_tools: Vec::new(),
        origin: ConversationOrigin { peer: Some("group".into()), ..origin("alice") },
        content: "hello".into(),
        client_id: "x".into(),
        model: None,
        folder: crate::command::FolderChoice::Configured,
        kind: RunKind::Chat { agent: None },
    };
    let run = bench.ask(&caller(1), with_peer).await.unwrap();
    rest(bench.follow(run).await).await;
    assert!(system(&bench).contains("- name: Alice\n"));
    assert_eq!(bench.last_prompt(), ["hello"], "turns are the session's own");
}

#[tokio::test(start_paused = true)]
async fn a_newer_fact_replaces_the_older_one() {
    let bench = bench([]);
    bench.chat("alice", "I live in Paris.").await;
    bench.chat("alice", "I moved to Oslo.").await;
    bench.chat("alice", "Where do I live?").await;
    let system = system(&bench);
    assert!(system.contains("- location: Oslo\n") && !system.contains("Paris"), "{system}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_turn_teaches_nothing() {
    let fails = vec![answering(), ScriptStep::Fail(crate::model::ModelError::Timeout("idle".into()))];
    let bench = bench([fails]);
    bench.chat("alice", "My name is Alice.").await;
    bench.chat("alice", "hello").await;
    assert_eq!(system(&bench), "");
}

#[tokio::test(start_paused = true)]
async fn fifty_turns_fit_under_the_cap_and_an_old_fact_is_still_known() {
    let long = "All work and no play makes a dull evening, so let us talk about the weather. ".repeat(30);
    let scripts = (0..51).map(|_| say(&[&long], 10, 10));
    let bench = bench_with(scripts, |setup| setup.soul = Some("You are a patient friend.\n".repeat(50).into()));
    bench.chat("alice", "My cat's name is Schnurrbert. Remember it.").await;
    for turn in 0..49 {
        let content = format!("My topic {turn} is number {turn}. {long}");
        bench.chat("alice", &content).await;
    }
    bench.chat("alice", "What is my cat's name?").await;
    let seen = bench.model.requests();
    let last = seen.last().unwrap();
    assert!(last.system.contains("Schnurrbert"), "recalled from fifty turns back: {}", last.system);
    for (turn, request) in seen.iter().enumerate() {
        let past = &request.messages[..request.messages.len() - 1];
        let context = tokens::estimate(&request.system) + tokens::estimate_messages(past);
        assert!(context < 5000, "turn {turn}: {context} tokens");
    }
    assert!(last.messages.len() > 3, "the last turns are there as well");
}

#[tokio::test(start_paused = true)]
async fn memory_can_be_turned_off() {
    let bench = bench_with([], |setup| {
        setup.memory = MemoryOptions { episodic_window: 0, semantic: false, context_tokens: 5000 };
    });
    bench.chat("alice", "My name is Alice.").await;
    bench.chat("alice", "What is my name?").await;
    assert_eq!((system(&bench).as_str(), bench.last_prompt()), ("", vec!["What is my name?".to_owned()]));
}
