use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::super::MAX_ANSWER_BYTES;
use super::*;
use crate::executor::builtin::tests::{ALICE, Fixture, session};
use crate::id::{CallId, RunId};
use crate::model::{ContentPart, ModelMessage, ToolCall, ToolInput, ToolResult};
use crate::store::{NewTurn, StoreWrite, WriteBatch};

async fn say(fixture: &Fixture, peer: &str, messages: Vec<ModelMessage>) {
    let run = RunId(Uuid::from_u128(1));
    let turn = NewTurn { session: session("alice", peer), run, at: Timestamp::UNIX_EPOCH, messages };
    fixture.store.commit(WriteBatch::boundary(vec![StoreWrite::AddTurn(turn)])).await.unwrap();
}

async fn recent(fixture: &Fixture, arguments: Value) -> Vec<(String, String)> {
    let answer = fixture.ok(ALICE, NAME, arguments).await;
    assert!(answer.len() <= MAX_ANSWER_BYTES + 100, "{}", answer.len());
    let listed: Vec<Value> = serde_json::from_str(&answer).unwrap();
    let text = |message: &Value, field: &str| message[field].as_str().unwrap().to_owned();
    listed.iter().map(|message| (text(message, "role"), text(message, "content"))).collect()
}

fn pairs(listed: &[(&str, &str)]) -> Vec<(String, String)> {
    listed.iter().map(|(role, content)| ((*role).to_owned(), (*content).to_owned())).collect()
}

#[tokio::test]
async fn the_last_messages_of_the_session_are_told_oldest_first() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ok(ALICE, NAME, json!({})).await, "[]");
    let call = ToolCall { id: CallId("call-1".into()), name: "read".into(), input: ToolInput::Malformed("{".into()) };
    let result = ToolResult { call: call.id.clone(), name: "read".into(), content: "file".into(), is_error: false };
    let first = vec![
        ModelMessage::user("one"),
        ModelMessage {
            role: MessageRole::Assistant,
            parts: vec![ContentPart::Text("let me see".into()), ContentPart::ToolCall(call.clone())],
        },
        ModelMessage { role: MessageRole::User, parts: vec![ContentPart::ToolResult(result)] },
        ModelMessage { role: MessageRole::Assistant, parts: vec![ContentPart::ToolCall(call)] },
        ModelMessage::assistant("two"),
    ];
    say(&fixture, "1", first).await;
    say(&fixture, "2", vec![ModelMessage::user("elsewhere")]).await;
    say(&fixture, "1", vec![ModelMessage::user("three"), ModelMessage::assistant("four")]).await;

    let all = pairs(&[
        ("user", "one"),
        ("assistant", "let me see"),
        ("assistant", "two"),
        ("user", "three"),
        ("assistant", "four"),
    ]);
    assert_eq!(recent(&fixture, json!({})).await, all);
    assert_eq!(recent(&fixture, json!({"limit": 3})).await, all[2..]);
    assert_eq!(recent(&fixture, json!({"limit": 1})).await, all[4..]);
    assert_eq!(fixture.ok(("bob", "1"), NAME, json!({})).await, "[]");
}

#[tokio::test]
async fn long_histories_are_bounded() {
    let fixture = Fixture::new();
    for number in 0..120 {
        say(&fixture, "1", vec![ModelMessage::user(format!("question {number}"))]).await;
    }
    let messages = recent(&fixture, json!({"limit": 1000})).await;
    assert_eq!(messages.len(), 100, "more than one page of turns, and no more than the cap");
    assert_eq!(messages.first().unwrap().1, "question 20");

    for _ in 0..30 {
        say(&fixture, "1", vec![ModelMessage::user("é".repeat(5000)), ModelMessage::assistant("short")]).await;
    }
    let messages = recent(&fixture, json!({"limit": 100})).await;
    let (_, cut) = messages.iter().find(|(role, _)| role == "user").unwrap();
    assert_eq!(*cut, format!("{}\n[cut: 4096 of 10000 bytes shown]", "é".repeat(2048)));
    assert_eq!(messages.len(), 23, "as many as an answer holds: {:?}", messages.first());
    assert_eq!(messages.last().unwrap().1, "short");
}
