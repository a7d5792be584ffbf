use super::*;

fn notification(payload: &str) -> NotificationContent {
    let frame =
        format!(r#"{{"type":"response","payload":{{"messageId":"m","type":"notification","payload":{payload}}}}}"#);
    let AppFrame::Response(ResponseFrame { answer: ResponseBody::Notification(notification), .. }) =
        AppFrame::read(&frame)
    else {
        panic!("not a notification")
    };
    notification
}

#[test]
fn long_texts_are_cut_where_it_shows() {
    let long = "é".repeat(200_000);
    let NotificationContent { title, body, .. } = notification(&format!(r#"{{"title":"{long}","body":"{long}"}}"#));
    assert_eq!(title, Some("é".repeat(512) + "…"));
    assert_eq!(body, "é".repeat(32 * 1024) + "…");
    let whole = "x".repeat(MAX_BODY_BYTES);
    assert_eq!(notification(&format!(r#"{{"body":"{whole}"}}"#)).body, whole);
    let frame = format!(
        r#"{{"type":"response","payload":{{"messageId":"m","type":"reject","payload":{{"reason":"{long}"}}}}}}"#
    );
    let AppFrame::Response(ResponseFrame { answer: ResponseBody::Reject { reason: Some(reason) }, .. }) =
        AppFrame::read(&frame)
    else {
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
    assert!(matches!(AppFrame::read(&ack), AppFrame::Response(ResponseFrame { answer: ResponseBody::Ack, .. })));
    let capabilities =
        format!(r#"{{"type":"registration","payload":{{"name":"a","description":"x","capabilities":{deep}}}}}"#);
    let AppFrame::Registration(Err(refusal)) = AppFrame::read(&capabilities) else { panic!("not refused") };
    assert_eq!(refusal, FrameError::new(FrameErrorCode::ValidationError, "`capabilities` must be an array of strings"));
    assert!(matches!(AppFrame::read(&deep), AppFrame::Malformed(_)));
    assert!(matches!(AppFrame::read(&"{\"payload\":".repeat(100_000)), AppFrame::Malformed(_)));
}

#[test]
fn bytes_are_read_as_text_even_where_they_are_none() {
    let mut frame = br#"{"type":"response","payload":{"messageId":"m","type":"reject","payload":{"reason":"a"#.to_vec();
    frame.extend_from_slice(b"\xff\"}}}");
    let AppFrame::Response(ResponseFrame { answer: ResponseBody::Reject { reason }, .. }) =
        AppFrame::read_bytes(&frame)
    else {
        panic!("not a reject")
    };
    assert_eq!(reason.as_deref(), Some("a\u{fffd}"));
    assert!(matches!(AppFrame::read_bytes(b"\xff"), AppFrame::Malformed(_)));
}
