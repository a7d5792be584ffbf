use super::*;

#[test]
fn text_is_found_in_the_events_that_have_some() {
    let check = |line: &str, expected: Option<&str>| {
        assert_eq!(content(line.as_bytes()), expected.map(str::as_bytes), "{line}");
    };
    check("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n", Some(" word"));
    check("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n", None);
    check("data: [DONE]\n", None);
    check("5a\r\n", None);
    check("Content-Type: \"content\":\"x\"\r\n", None);
}
