use std::time::Duration;

use patchboard_hub_check::{ProtocolFinding, ProtocolStep, TimedFinding};

use super::{to_json, to_lines};

#[test]
fn verdicts_in_words_and_as_json() {
    let at = Duration::from_millis(1234);
    let fine = TimedFinding { at, finding: ProtocolFinding::ok(ProtocolStep::Response, "an ack", "an ack is empty") };
    assert_eq!(to_lines(&fine), ["ok        1.2 s  response      an ack"]);
    assert_eq!(
        to_json(&fine),
        r#"{"at_ms":1234,"step":"response","verdict":"ok","saw":"an ack","rule":"an ack is empty"}"#
    );
    let finding = ProtocolFinding::wrong(ProtocolStep::Frame, "\u{1b}[2J", "frames are JSON", "send JSON");
    let bad = TimedFinding { at, finding };
    assert_eq!(
        to_lines(&bad),
        ["wrong     1.2 s  frame         \\u{1b}[2J", "      rule: frames are JSON", "      mend: send JSON"]
    );
    assert_eq!(
        to_json(&bad),
        r#"{"at_ms":1234,"step":"frame","verdict":"wrong","saw":"\u001b[2J","rule":"frames are JSON","mend":"send JSON"}"#
    );
}
