use super::*;

fn check(payload: &str, expected: Option<Told<'_>>) {
    assert_eq!(read(payload.as_bytes()), expected, "{payload}");
}

#[test]
fn events_and_ends_are_found_in_their_frames() {
    check(
        r#"{"type":"run_stream_event","id":"run-1","event":{"session_id":"run-1","node_id":"run-think-0","event_id":12,"type":"message_chunk","content":"\"event_id\":7,\"type\":\"x\"","id":"think"}}"#,
        Some(Told::Event { number: 12, kind: b"message_chunk" }),
    );
    check(
        r#"{"type":"run_end","id":"run-1","reply":"\"event_id\":7","session_id":"run-1","node_id":"run-think-0","event_id":14}"#,
        Some(Told::End { number: 14 }),
    );
    let failed = r#"{"type":"error","id":"run-1","error":"run cancelled"}"#;
    check(failed, Some(Told::Failed(failed.as_bytes())));
}

#[test]
fn what_is_not_about_a_run_is_none() {
    check(r#"{"type":"pong","id":"1"}"#, None);
    check(r#"{"type":"run_stream_event","id":"run-1","event":{"type":"run_start"}}"#, None);
    check(r#"{"type":"run_stream_event","id":"run-1","event":{"event_id":,"type":"run_start"}}"#, None);
    check(r#"{"type":"run_end","id":"run-1","reply":"Yes."}"#, None);
    check("", None);
}

#[test]
fn numbers_begin_at_one_and_follow_each_other_to_the_end() {
    let heard = |numbers: &[u64], end: u64| {
        let mut heard = Heard::default();
        for number in numbers {
            heard.note(&Told::Event { number: *number, kind: b"message_chunk" });
        }
        heard.note(&Told::End { number: end });
        (heard.events, heard.texts, heard.gaps)
    };
    assert_eq!(heard(&[1, 2, 3], 4), (3, 3, 0));
    assert_eq!(heard(&[2, 3], 4), (2, 2, 1));
    assert_eq!(heard(&[1, 3], 4), (2, 2, 1));
    assert_eq!(heard(&[1, 2, 2], 3), (3, 3, 1));
    assert_eq!(heard(&[1, 2], 5), (2, 2, 1));
}

#[test]
fn only_pieces_of_text_count_as_text() {
    let mut heard = Heard::default();
    heard.note(&Told::Event { number: 1, kind: b"node_enter" });
    heard.note(&Told::Event { number: 2, kind: b"message_chunk" });
    assert_eq!((heard.events, heard.texts, heard.gaps), (2, 1, 0));
}
