use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::event::{InputAnswer, InputKind, InputRequest, ModelCallUsage, RunOutcome, TextChunks};
use crate::id::{CallId, InputId, SessionKey};
use crate::model::{ContentPart, MessageRole, TokenCount, ToolCall, ToolInput, ToolResult};
use crate::run_spec::{ChatBriefing, ClientToolSpec};
use crate::tool::ToolOutput;

mod entries;
mod message_entries;

fn call() -> ToolCall {
    ToolCall {
        id: CallId("call-1".into()),
        name: "read".into(),
        input: ToolInput::Json(Arc::new(json!({"path": "a"}))),
    }
}

/// Integers stay integers, whatever their size.
fn numbers() -> ToolInput {
    ToolInput::Json(Arc::new(
        json!({"big": u64::MAX, "exact": 9_007_199_254_740_993_u64, "low": i64::MIN, "real": 0.5}),
    ))
}

fn client_tool() -> ClientToolSpec {
    ClientToolSpec {
        name: "light".into(),
        description: "Switches the light.".into(),
        input_schema: Arc::new(json!({"type": "object"})),
    }
}

/// One of every kind, in the order of the fixture file.
fn every_event() -> Vec<Event> {
    let input = InputId(uuid::Uuid::from_u128(7));
    let asks = |kind, asked_by: Option<&str>| {
        Event::InputRequested(InputRequest {
            input,
            kind,
            expires_at: "2026-11-15T12:00:00Z".parse().unwrap(),
            asked_by: asked_by.map(Into::into),
        })
    };
    let question = |schema: Option<serde_json::Value>| InputKind::Question {
        call: CallId("call-1".into()),
        message: "Which colour?".into(),
        schema: schema.map(Arc::new),
    };
    let provides = |answer| Event::InputProvided { input, answer, by: "gateway:local".into() };
    vec![
        Event::RunStarted {
            session: SessionKey::conversation("default", "web", "a:b", "main"),
            agent: "default".into(),
            chat: None,
        },
        Event::RunStarted {
            session: SessionKey::conversation("default", "web", "a:b", "main"),
            agent: "default".into(),
            chat: Some(Arc::new(ChatBriefing::default())),
        },
        Event::RunStarted {
            session: SessionKey::conversation("default", "web", "a:b", "main"),
            agent: "default".into(),
            chat: Some(Arc::new(ChatBriefing {
                model: Some("main/m-2".into()),
                folder: Some(Arc::from(std::path::Path::new("/srv/wörk"))),
                folder_granted: true,
                guild: Some("g".into()),
                team: Some("t".into()),
                client_tools: vec![client_tool()],
            })),
        },
        Event::RunResumed,
        Event::AnswerText(["Hé", "", "llo"].into_iter().collect()),
        Event::ThoughtText(TextChunks::of_single("hm")),
        Event::ToolRequested(call()),
        Event::ToolRequested(ToolCall { input: ToolInput::Malformed("{\"path\":".into()), ..call() }),
        Event::ToolRequested(ToolCall { input: numbers(), ..call() }),
        Event::ToolRequested(ToolCall { input: ToolInput::Json(Arc::new(json!(null))), ..call() }),
        Event::ToolFinished { call: CallId("call-1".into()), output: ToolOutput::error("no such file") },
        asks(InputKind::Approval { call: call(), may_have_run: false }, None),
        asks(InputKind::Approval { call: call(), may_have_run: true }, Some("plugin echo")),
        asks(InputKind::ClientToolCall(call()), None),
        asks(question(None), Some("agent planner")),
        asks(question(Some(json!({"type": "string"}))), None),
        provides(InputAnswer::Approved),
        provides(InputAnswer::ApprovedForSession),
        provides(InputAnswer::Refused),
        provides(InputAnswer::ToolResult { content: "42".into(), is_error: true }),
        provides(InputAnswer::Answered(Arc::new(json!({"colour": "blue"})))),
        provides(InputAnswer::Expired),
        provides(InputAnswer::Withdrawn),
        Event::ModelUsage(ModelCallUsage {
            tokens: TokenCount { input: 150, output: 42 },
            provider: "main".into(),
            model: "m".into(),
            estimated: true,
        }),
        Event::RunFailed { message: "provider error: connection refused".into() },
        Event::RunEnded { outcome: RunOutcome::Completed },
        Event::RunEnded { outcome: RunOutcome::Failed },
        Event::RunEnded { outcome: RunOutcome::Cancelled },
        Event::RunEnded { outcome: RunOutcome::Interrupted },
    ]
}

/// Every entry is written as its line of the fixture, and read back as the same.
fn check_fixture(fixture: &str, entries: &[(Option<NodeId>, Event)]) {
    let written = entries.iter().map(|(node, event)| String::from_utf8(encode_entry(*node, event)).unwrap());
    assert_eq!(fixture.lines().collect::<Vec<_>>(), written.collect::<Vec<_>>());
    let read: Vec<_> = fixture.lines().map(|line| decode_entry(RECORD_VERSION, line.as_bytes()).unwrap()).collect();
    assert_eq!(read, entries);
}

fn every_message() -> Vec<ModelMessage> {
    let result =
        ToolResult { call: CallId("call-1".into()), name: "read".into(), content: "x".into(), is_error: false };
    vec![
        ModelMessage::user("hi"),
        ModelMessage {
            role: MessageRole::Assistant,
            parts: vec![ContentPart::Text("let me look".into()), ContentPart::ToolCall(call())],
        },
        ModelMessage { role: MessageRole::User, parts: vec![ContentPart::ToolResult(result)] },
    ]
}

#[test]
fn messages_are_written_as_the_fixture_shows() {
    let fixture = include_str!("fixtures/v1.messages.json").trim_end();
    assert_eq!(fixture, String::from_utf8(encode_messages(&every_message())).unwrap());
    assert_eq!(decode_messages(RECORD_VERSION, fixture.as_bytes()).unwrap(), every_message());
}

#[test]
fn a_record_of_another_version_is_refused_by_name() {
    let error = decode_entry(RECORD_VERSION + 1, b"{}").unwrap_err();
    assert_eq!(error.to_string(), "record version 2 is not the one this program reads");
}

#[test]
fn pieces_that_do_not_fit_their_text_are_refused() {
    for kind in ["answer_text", "thought_text", "draft_text", "tool_arguments", "tool_progress"] {
        for (text, ends) in [("é", json!([1, 2])), ("ab", json!([1]))] {
            let bad = json!({"event": {kind: {
                "call": "call-1", "name": "read", "is_first": true, "text": text, "ends": ends
            }}});
            let read = decode_entry(RECORD_VERSION, bad.to_string().as_bytes());
            let Err(RecordError::Malformed { source, .. }) = read else { panic!("{bad}: {read:?}") };
            assert_eq!(source.to_string(), "pieces do not fit their text");
        }
    }
}

proptest! {
    #[test]
    fn pieces_survive_storage(pieces in proptest::collection::vec(".{0,8}", 1..20)) {
        let event = Event::AnswerText(pieces.iter().map(String::as_str).collect());
        let (node, read) = decode_entry(RECORD_VERSION, &encode_entry(None, &event)).unwrap();
        prop_assert_eq!((node, &read), (None, &event));
        let Event::AnswerText(read) = read else { unreachable!() };
        prop_assert_eq!(read.iter().map(str::to_owned).collect::<Vec<_>>(), pieces);
    }

    #[test]
    fn decoding_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(decode_entry(1, &bytes));
        drop(decode_entry(2, &bytes));
        drop(decode_entry(3, &bytes));
        drop(decode_messages(RECORD_VERSION, &bytes));
    }
}
