use crate::output::PageLayout;
use crate::telemetry::LogColour;

use super::*;

#[test]
fn programs_read_level_topic_text_and_hint() {
    let findings = [
        DoctorFinding::Good("gateway: 127.0.0.1:7200 is free".to_owned()),
        DoctorFinding::Note("sandbox: no Landlock".to_owned()),
        DoctorFinding::Bad { problem: "trust: it: changed".to_owned(), hint: "patchboard trust".to_owned() },
    ];
    let read: serde_json::Value = serde_json::from_str(&to_json(&findings)).unwrap();
    assert_eq!(
        read,
        serde_json::json!({
            "healthy": false,
            "findings": [
                {"level": "ok", "topic": "gateway", "text": "127.0.0.1:7200 is free", "hint": null},
                {"level": "note", "topic": "sandbox", "text": "no Landlock", "hint": null},
                {"level": "bad", "topic": "trust", "text": "it: changed", "hint": "patchboard trust"},
            ]
        })
    );
    assert!(is_healthy(&findings[..2]));
}

#[test]
fn on_a_terminal_lines_are_wrapped_below_their_text() {
    let finding =
        DoctorFinding::Bad { problem: "gateway: cannot listen".to_owned(), hint: "choose another".to_owned() };
    let page = PageLayout { columns: Some(22), colour: LogColour::Off };
    assert_eq!(finding.lines(page), ["bad   gateway: cannot", "      listen", "      hint: choose", "      another"]);
    let page = PageLayout { columns: None, colour: LogColour::On };
    let wanted = ["\x1b[1;31mbad\x1b[0m   gateway: cannot listen", "      hint: choose another"];
    assert_eq!(finding.lines(page), wanted);
}
