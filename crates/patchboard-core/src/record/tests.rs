use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::event::{ApprovalRequest, ModelCallUsage, RunOutcome, TextChunks};
use crate::id::{ApprovalId, CallId, SessionKey};
use crate::model::{ContentPart, MessageRole, TokenCount, ToolCall, ToolInput, ToolResult};
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

/// One of every kind, in the order of the fixture file.
fn every_event() -> Vec<Event> {
    let approval = ApprovalId(uuid::Uuid::from_u128(7));
    vec![
        Event::RunStarted {
            session: SessionKey::conversation("default", "web", "a:b", "main"),
            agent: "default".into(),
        },
        Event::AnswerText(["Hé", "", "llo"].into_iter().collect()),
        Event::ThoughtText(TextChunks::of_single("hm")),
        Event::ToolRequested(call()),
        Event::ToolRequested(ToolCall { input: ToolInput::Malformed("{\"path\":".into()), ..call() }),
        Event::ToolRequested(ToolCall { input: numbers(), ..call() }),
        Event::ToolRequested(ToolCall { input: ToolInput::Json(Arc::new(json!(null))), ..call() }),
        Event::ToolFinished { call: CallId("call-1".into()), output: ToolOutput::error("no such file") },
        Event::ApprovalRequested(ApprovalRequest {
            approval,
            call: call(),
            expires_at: "2026-11-15T12:00:00Z".parse().unwrap(),
            may_have_run: false,
        }),
        Event::ApprovalResolved { approval, approved: false, by: "expired".into() },
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

fn text((version, bytes): (u16, Vec<u8>), expected: u16) -> String {
    assert_eq!(version, expected);
    String::from_utf8(bytes).unwrap()
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
fn version_1_events_stay_readable_and_are_written_as_they_always_were() {
    let fixture = include_str!("fixtures/v1.events.jsonl");
    let written: Vec<String> = every_event().iter().map(|event| text(encode_entry(None, event), 1)).collect();
    assert_eq!(fixture.lines().collect::<Vec<_>>(), written);
    let read: Vec<_> = fixture.lines().map(|line| decode_entry(1, line.as_bytes()).unwrap()).collect();
    assert_eq!(read, every_event().into_iter().map(|event| (None, event)).collect::<Vec<_>>());
}

#[test]
fn that_a_call_may_have_run_survives_storage() {
    let mut expected = every_event().into_iter().find(|event| matches!(event, Event::ApprovalRequested(_))).unwrap();
    let Event::ApprovalRequested(request) = &mut expected else { unreachable!() };
    request.may_have_run = true;
    let (version, bytes) = encode_entry(None, &expected);
    assert_eq!(version, 1);
    assert_eq!(decode_entry(version, &bytes).unwrap(), (None, expected));
}

#[test]
fn version_1_messages_stay_readable_and_are_written_as_they_always_were() {
    let fixture = include_str!("fixtures/v1.messages.json").trim_end();
    assert_eq!(fixture, String::from_utf8(encode_messages(&every_message())).unwrap());
    assert_eq!(decode_messages(1, fixture.as_bytes()).unwrap(), every_message());
}

#[test]
fn a_record_of_a_newer_program_is_refused_by_name() {
    let error = decode_entry(5, b"{}").unwrap_err();
    assert_eq!(error.to_string(), "record version 5 is newer than this program; upgrade it to read this data");
}

#[test]
fn pieces_that_do_not_fit_their_text_are_refused() {
    for bad in [r#"{"kind":"text","text":"é","ends":[1,2]}"#, r#"{"kind":"text","text":"ab","ends":[1]}"#] {
        assert!(matches!(decode_entry(1, bad.as_bytes()), Err(RecordError::Malformed { version: 1, .. })), "{bad}");
        let wrapped = format!(r#"{{"event":{{"v1":{bad}}}}}"#);
        let read = decode_entry(2, wrapped.as_bytes());
        assert!(matches!(read, Err(RecordError::Malformed { version: 2, .. })), "{wrapped}");
    }
    for kind in ["draft", "arguments", "tool_said"] {
        let bad = json!({"event": {"v2": {kind: {
            "call": "call-1", "name": "read", "begins": true, "text": "é", "ends": [1, 2]
        }}}});
        let read = decode_entry(2, bad.to_string().as_bytes());
        let Err(RecordError::Malformed { version: 2, source }) = read else { panic!("{bad}: {read:?}") };
        assert_eq!(source.to_string(), "pieces do not fit their text");
    }
}

proptest! {
    #[test]
    fn pieces_survive_storage(pieces in proptest::collection::vec(".{0,8}", 1..20)) {
        let event = Event::AnswerText(pieces.iter().map(String::as_str).collect());
        let (version, bytes) = encode_entry(None, &event);
        let (node, read) = decode_entry(version, &bytes).unwrap();
        prop_assert_eq!((node, &read), (None, &event));
        let Event::AnswerText(read) = read else { unreachable!() };
        prop_assert_eq!(read.iter().map(str::to_owned).collect::<Vec<_>>(), pieces);
    }

    #[test]
    fn decoding_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(decode_entry(1, &bytes));
        drop(decode_entry(2, &bytes));
        drop(decode_entry(3, &bytes));
        drop(decode_messages(1, &bytes));
    }
}
