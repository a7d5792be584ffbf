use std::collections::BTreeMap;

use super::*;

const INFO: ExecutionInfo<'_> = ExecutionInfo { worker: "w", milliseconds: 7 };

#[test]
fn every_refusal_has_the_words_its_callers_look_for() {
    for (why, fault, word) in [
        (CallRejection::Saturated, ToolFault::Saturated, "pool_saturated"),
        (CallRejection::TimedOut, ToolFault::QueueTimeout, "queue_timeout"),
        (CallRejection::WorkerBusy, ToolFault::WorkerBusy, "worker_busy"),
        (CallRejection::SessionWorkerUnavailable, ToolFault::Unavailable, "session_worker_unavailable"),
        (CallRejection::NoWorkers, ToolFault::Unavailable, "no_workers_available"),
    ] {
        let output = rejection_output(why, "py", || "no module".to_owned());
        assert_eq!(output.data.as_ref().and_then(|data| data.fault), Some(fault));
        assert!(output.content.starts_with(word) && output.content.contains("never ran"), "{output:?}");
    }
}

#[test]
fn a_status_says_whose_fault_it_was() {
    for (code, fault) in [
        (Code::DeadlineExceeded, ToolFault::TimedOut),
        (Code::InvalidArgument, ToolFault::Invalid),
        (Code::NotFound, ToolFault::NotFound),
        (Code::Unimplemented, ToolFault::NotFound),
        (Code::Unavailable, ToolFault::Unavailable),
        (Code::Cancelled, ToolFault::Unavailable),
        (Code::Internal, ToolFault::Internal),
        (Code::ResourceExhausted, ToolFault::Internal),
    ] {
        let told = |text: &str| status_output(&Status::new(code, text), CallerKind::Program);
        assert_eq!(told("said").data.as_ref().and_then(|data| data.fault), Some(fault), "{code:?}");
        assert_eq!(&*told("said").content, "said");
        assert!(!told("").content.is_empty());
    }
}

#[test]
fn models_are_told_failures_in_short() {
    for (message, expected) in [
        (r#"{"type":"KeyError","message":"'a'","traceback":"…"}"#, "KeyError: 'a'"),
        (r#"{"type":"KeyError"}"#, "KeyError"),
        (r#"{"other":1}"#, r#"{"other":1}"#),
        ("plain words", "plain words"),
        ("[1]", "[1]"),
    ] {
        assert_eq!(short_error(message), expected);
    }
    assert!(short_error(&"x".repeat(10_000)).len() < 5000);
}

#[test]
fn an_answer_is_what_the_worker_wrote() {
    let check = |response: ExecuteToolResponse, json: Option<&str>, binary: Option<&[u8]>, content: &str| {
        let output = tool_output(response, CallerKind::Model, INFO);
        let data = output.data.as_ref().unwrap();
        assert_eq!((data.json.as_deref(), data.binary.as_deref()), (json.map(str::as_bytes), binary));
        assert_eq!((&*output.content, &*data.metadata["execution_time"]), (content, "7"));
    };
    let json = |text: &str| Some(value::encode_json(text));
    let success = || ExecuteToolResponse { success: true, ..Default::default() };
    check(ExecuteToolResponse { result: json("5.0"), ..success() }, Some("5.0"), None, "5.0");
    check(ExecuteToolResponse { result: json("\"a\\nb\""), ..success() }, Some("\"a\\nb\""), None, "a\nb");
    check(success(), Some("null"), None, "null");
    let kind = BTreeMap::from([(CONTENT_TYPE.to_owned(), "application/x-npy".to_owned())]);
    let bytes = Bytes::from_static(b"123");
    let both = ExecuteToolResponse { result: json("{}"), binary_result: bytes, metadata: kind.clone(), ..success() };
    check(both, Some("{}"), Some(b"123"), "{}\n[application/x-npy, 3 bytes]");
    let empty = ExecuteToolResponse { metadata: kind, ..success() };
    check(empty, None, Some(b""), "[application/x-npy, 0 bytes]");
}

#[test]
fn only_the_very_answer_means_the_wrong_endpoint() {
    let answer = |text: &str, success: bool| ExecuteToolResponse {
        success,
        result: Some(value::encode_json(text)),
        ..Default::default()
    };
    let text = r#"{"error": "Streaming tool called on non-streaming endpoint."}"#;
    assert!(is_wrong_endpoint(&answer(text, true)));
    assert!(!is_wrong_endpoint(&answer(text, false)));
    for other in [r#"{"error": "another"}"#, "5", "broken", r#""Streaming tool called on non-streaming endpoint.""#] {
        assert!(!is_wrong_endpoint(&answer(other, true)), "{other}");
    }
}
