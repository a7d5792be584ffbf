use super::{RunEvent, RunEventKind};

fn read(payload: &str) -> RunEvent {
    let text = format!(r#"{{"session_id":"r","node_id":"run-think-0","event_id":7,{payload}}}"#);
    RunEvent::parse(&text).unwrap()
}

#[test]
fn events_are_read_with_their_node_and_number() {
    let event = read(r#""type":"message_chunk","content":"hi","id":"think""#);
    assert_eq!((event.node_id.as_str(), event.event_id), ("run-think-0", 7));
    assert!(matches!(event.kind, RunEventKind::MessageChunk { content, id } if content == "hi" && id == "think"));
}

#[test]
fn unknown_events_are_passed_over() {
    for payload in
        [r#""type":"news","x":[1]"#, r#""type":"run_start","run_id":"r""#, r#""type":"updates","id":"x","state":{}"#]
    {
        assert!(matches!(read(payload).kind, RunEventKind::Other), "{payload}");
    }
    assert!(RunEvent::parse("{}").is_err());
    assert!(RunEvent::parse("nonsense").is_err());
}

#[test]
fn an_event_inside_an_event_is_that_event() {
    let event = read(r#""type":"custom","value":{"type":"got_node_start","id":"t"}"#);
    assert!(matches!(event.kind, RunEventKind::GotNodeStart { id } if id == "t"));
    assert!(matches!(read(r#""type":"custom","value":{"whatever":1}"#).kind, RunEventKind::Other));
    assert!(matches!(read(r#""type":"custom","value":null"#).kind, RunEventKind::Other));
}
