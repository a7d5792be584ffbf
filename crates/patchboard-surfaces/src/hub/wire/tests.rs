use super::*;

fn notification(payload: &str) -> Notification {
    let frame =
        format!(r#"{{"type":"response","payload":{{"messageId":"m","type":"notification","payload":{payload}}}}}"#);
    let Frame::Response(Response { answer: Answer::Notification(notification), .. }) = Frame::read(&frame) else {
        panic!("not a notification")
    };
    notification
}

#[test]
fn long_texts_are_cut_where_it_shows() {
    let long = "é".repeat(200_000);
    let Notification { title, body, .. } = notification(&format!(r#"{{"title":"{long}","body":"{long}"}}"#));
    assert_eq!(title, Some("é".repeat(512) + "…"));
    assert_eq!(body, "é".repeat(32 * 1024) + "…");
    let whole = "x".repeat(MAX_BODY_BYTES);
    assert_eq!(notification(&format!(r#"{{"body":"{whole}"}}"#)).body, whole);
    let frame = format!(
        r#"{{"type":"response","payload":{{"messageId":"m","type":"reject","payload":{{"reason":"{long}"}}}}}}"#
    );
    let Frame::Response(Response { answer: Answer::Reject { reason: Some(reason) }, .. }) = Frame::read(&frame) else {
        panic!("not a reject")
    };
    assert_eq!(reason, "é".repeat(2048) + "…");
}

#[test]
fn deep_nesting_is_passed_over_or_refused_in_words() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let ack = format!(
        r#"{{"x":{deep},"type":"response","payload":{{"messageId":"m","type":"ack","payload":{{"x":{deep}}}}}}}"#
    );
    assert!(matches!(Frame::read(&ack), Frame::Response(Response { answer: Answer::Ack, .. })));
    let capabilities =
        format!(r#"{{"type":"registration","payload":{{"name":"a","description":"x","capabilities":{deep}}}}}"#);
    let Frame::Registration(Err(refusal)) = Frame::read(&capabilities) else { panic!("not refused") };
    assert_eq!(refusal, Refusal::new(Code::ValidationError, "`capabilities` must be an array of strings"));
    assert!(matches!(Frame::read(&deep), Frame::Malformed(_)));
    assert!(matches!(Frame::read(&"{\"payload\":".repeat(100_000)), Frame::Malformed(_)));
}

#[test]
fn bytes_are_read_as_text_even_where_they_are_none() {
    let mut frame = br#"{"type":"response","payload":{"messageId":"m","type":"reject","payload":{"reason":"a"#.to_vec();
    frame.extend_from_slice(b"\xff\"}}}");
    let Frame::Response(Response { answer: Answer::Reject { reason }, .. }) = Frame::read_bytes(&frame) else {
        panic!("not a reject")
    };
    assert_eq!(reason.as_deref(), Some("a\u{fffd}"));
    assert!(matches!(Frame::read_bytes(b"\xff"), Frame::Malformed(_)));
}
