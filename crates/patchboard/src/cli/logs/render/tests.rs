use super::*;

const PLAIN: RenderStyle = RenderStyle { zone: TimeZone::UTC, has_colour: false };

#[track_caller]
fn check(raw: &str, shown: &str) {
    assert_eq!(line(raw, &PLAIN), shown);
}

#[test]
fn lines_are_shown_with_their_fields() {
    check(
        r#"{"timestamp":"2026-11-19T07:01:02.123456Z","level":"WARN","message":"runs were cancelled","runs":2,"target":"patchboard::serve"}"#,
        "2026-11-19 07:01:02.123  WARN runs were cancelled runs=2",
    );
    check(
        r#"{"timestamp":"2026-11-19T07:01:02Z","level":"INFO","message":"m","error":"two words","name":"one","spans":[{"a":1}]}"#,
        r#"2026-11-19 07:01:02.000  INFO m error="two words" name=one"#,
    );
    check(
        r#"{"level":"WARN","message":"3 lines could not be written here"}"#,
        "  WARN 3 lines could not be written here",
    );
}

#[test]
fn nothing_acts_on_the_terminal() {
    check("not JSON \x1b]0;title\x07", "not JSON \\u{1b}]0;title\\u{7}");
    check(
        r#"{"timestamp":"\u001b[2J","level":"INFO","message":"a\u001b[31mb\nc","k\r":"\u202e"}"#,
        "\\u{1b}[2J  INFO a\\u{1b}[31mb\\nc k\\r=\\u{202e}",
    );
}

#[test]
fn colour_is_only_that_of_the_level() {
    let style = RenderStyle { zone: TimeZone::UTC, has_colour: true };
    let shown = line(r#"{"timestamp":"2026-11-19T07:01:02Z","level":"ERROR","message":"m"}"#, &style);
    assert_eq!(shown, "2026-11-19 07:01:02.000 \u{1b}[31mERROR\u{1b}[0m m");
}

#[test]
fn json_stays_json() {
    let raw = "{\"message\":\"ä \u{202e} \\u001b\"}";
    let shown = json(raw);
    assert_eq!(shown, r#"{"message":"ä \u202e \u001b"}"#);
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(read(&shown), read(raw));
    assert_eq!(json("\u{1b}[2J"), "\\u{1b}[2J");
}

#[test]
fn levels_are_read() {
    let level = |text: &str| LogLine::parse(text).and_then(|line| line.level);
    assert_eq!(level(r#"{"level":"DEBUG"}"#), Some(LineLevel::Debug));
    assert_eq!(level(r#"{"level":"other"}"#), None);
    assert!(LineLevel::Error < LineLevel::Warn && LineLevel::Warn < LineLevel::Info);
}
