use super::*;

fn check(payload: &str, expected: Option<(&str, &str, Option<u64>)>) {
    let told = expected.map(|(event, data, seq)| Told { event: event.as_bytes(), data: data.as_bytes(), seq });
    assert_eq!(read(payload.as_bytes()), told, "{payload}");
}

#[test]
fn events_are_found_in_their_frames() {
    check(r#"{"id":"7","event":"text","data":" word","seq":12}"#, Some(("text", r#"" word""#, Some(12))));
    check(
        r#"{"id":"7","event":"text","data":"say \"event\":\"x\",\"seq\":1"}"#,
        Some(("text", r#""say \"event\":\"x\",\"seq\":1""#, None)),
    );
    check(
        r#"{"id":"7","event":"usage","data":{"input_tokens":1,"output_tokens":8},"seq":13}"#,
        Some(("usage", r#"{"input_tokens":1,"output_tokens":8}"#, Some(13))),
    );
    check(r#"{"id":"7","event":"done","seq":14}"#, Some(("done", "", Some(14))));
    check(r#"{"id":"7","event":"done"}"#, Some(("done", "", None)));
}

#[test]
fn what_is_no_event_is_none() {
    check(r#"{"id":"7","error":"rate limit exceeded"}"#, None);
    check(r#"{"id":"7","result":"pong"}"#, None);
    check("", None);
}

#[test]
fn numbers_that_do_not_follow_are_gaps() {
    let heard = |numbers: &[Option<u64>]| {
        let mut heard = Heard::default();
        for seq in numbers {
            heard.note(&Told { event: b"text", data: b"", seq: *seq });
        }
        (heard.events, heard.texts, heard.gaps)
    };
    assert_eq!(heard(&[Some(2), Some(3), Some(4)]), (3, 3, 0));
    assert_eq!(heard(&[Some(2), Some(4), Some(5)]), (3, 3, 1));
    assert_eq!(heard(&[Some(2), Some(2)]), (2, 2, 1));
    assert_eq!(heard(&[Some(2), None]), (2, 2, 1));
}
