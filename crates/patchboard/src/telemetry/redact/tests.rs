use super::*;

fn check(line: &str, expected: &str) {
    let redactor = Redactor::default();
    redactor.add_secrets([&"canary-1234".into(), &"short".into()]);
    assert_eq!(String::from_utf8(redactor.redact(line.as_bytes()).into_owned()).unwrap(), expected);
}

#[test]
fn known_secrets_never_reach_the_log() {
    check("token=canary-1234 canary-1234!", "token=[redacted] [redacted]!");
    check("a short word stays", "a short word stays");
    check("nothing here", "nothing here");
}

#[test]
fn what_looks_like_a_key_is_masked_too() {
    check("key sk-ant-abc123_XYZ-9 rejected", "key sk-[redacted] rejected");
    check("authorization: Bearer abcdefgh.ijk=, next", "authorization: Bearer [redacted], next");
    check("a desk-top, Bearer of news", "a desk-top, Bearer of news");
    check("sk-12345678", "sk-[redacted]");
}
