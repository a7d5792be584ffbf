use std::time::Duration;

use super::verdict::{Finding, Step, Verdict};
use super::{as_json, in_words};

#[test]
fn verdicts_in_words_and_as_json() {
    let at = Duration::from_millis(1234);
    let fine = Verdict { at, finding: Finding::ok(Step::Response, "an ack", "an ack is empty") };
    assert_eq!(in_words(&fine), ["ok        1.2 s  response      an ack"]);
    assert_eq!(
        as_json(&fine),
        r#"{"at_ms":1234,"step":"response","verdict":"ok","saw":"an ack","rule":"an ack is empty"}"#
    );
    let finding = Finding::wrong(Step::Frame, "\u{1b}[2J", "frames are JSON", "send JSON");
    let bad = Verdict { at, finding };
    assert_eq!(
        in_words(&bad),
        ["wrong     1.2 s  frame         \\u{1b}[2J", "      rule: frames are JSON", "      mend: send JSON"]
    );
    assert_eq!(
        as_json(&bad),
        r#"{"at_ms":1234,"step":"frame","verdict":"wrong","saw":"\u001b[2J","rule":"frames are JSON","mend":"send JSON"}"#
    );
}
