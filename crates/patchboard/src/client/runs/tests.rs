use super::{RunEnd, RunFrame, RunRequest, TokenUsage, parse_frame};

#[test]
fn an_event_is_kept_as_it_came() {
    let event = r#"{"session_id":"r","node_id":"run-0","event_id":1,"type":"run_start","z":1,"a":null}"#;
    let frame = parse_frame(&format!(r#"{{"type":"run_stream_event","id":"r","event":{event}}}"#)).unwrap();
    let Some(RunFrame::Event(raw)) = frame else { panic!("{frame:?}") };
    assert_eq!(raw.get(), event);
}

#[test]
fn the_end_of_a_run_is_read_and_told_in_order() {
    let text = r#"{"type":"run_end","id":"r","reply":"hi","usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},"session_id":"r","node_id":"run-think-0","event_id":9}"#;
    let Some(RunFrame::End(end)) = parse_frame(text).unwrap() else { panic!("not an end") };
    let expected = RunEnd {
        reply: "hi".into(),
        session_id: "r".into(),
        node_id: "run-think-0".into(),
        event_id: 9,
        usage: Some(TokenUsage { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }),
        total_usage: None,
    };
    assert_eq!(end, expected);
    assert_eq!(
        serde_json::to_string(&end).unwrap(),
        r#"{"reply":"hi","session_id":"r","node_id":"run-think-0","event_id":9,"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},"total_usage":null}"#
    );
}

#[test]
fn a_late_approval_is_not_the_end_of_the_run() {
    let problem = |error: &str| format!(r#"{{"type":"error","id":"r","error":"{error}"}}"#);
    assert!(matches!(parse_frame(&problem("no")).unwrap(), Some(RunFrame::Error(error)) if error == "no"));
    assert!(matches!(parse_frame(r#"{"type":"error","error":"no"}"#).unwrap(), Some(RunFrame::Error(_))));
    let refused = parse_frame(&problem("tool_approve: too late")).unwrap();
    assert!(matches!(refused, Some(RunFrame::ApprovalRefused(error)) if error == "too late"));
}

#[test]
fn unknown_kinds_are_passed_over_and_garbage_is_not() {
    assert!(parse_frame(r#"{"type":"news","x":1}"#).unwrap().is_none());
    for garbage in ["", "{}", "[]", r#"{"type":"run_end"}"#, r#"{"type":"run_stream_event"}"#] {
        assert!(parse_frame(garbage).is_err(), "{garbage}");
    }
}

#[test]
fn a_request_says_what_it_is() {
    let request = RunRequest {
        id: "r".into(),
        message: "hi".into(),
        agent: "react".into(),
        model: None,
        thread_id: None,
        working_folder: Some("/x".into()),
        grant_folder: true,
        got_adaptive: false,
        verbose: false,
        detach: true,
    };
    assert_eq!(
        serde_json::to_string(&request).unwrap(),
        r#"{"type":"run","id":"r","message":"hi","agent":"react","thread_id":null,"working_folder":"/x","grant_folder":true,"got_adaptive":false,"verbose":false,"detach":true}"#
    );
}
