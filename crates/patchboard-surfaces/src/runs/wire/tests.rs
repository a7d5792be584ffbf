use proptest::prelude::*;

use super::*;

fn problem(text: &str) -> (Option<String>, String) {
    let ParseFailure { id, problem } = Request::parse(text).expect_err("it should not be read");
    (id, problem)
}

#[test]
fn bytes_that_are_no_text_are_refused_under_their_id() {
    let ParseFailure { id, problem } =
        Request::parse_bytes(b"{\"type\":\"ping\",\"id\":\"7\",\"x\":\"\xff\"}").unwrap_err();
    assert_eq!(id.as_deref(), Some("7"));
    assert_eq!(problem, "parse error: invalid utf-8 sequence of 1 bytes from index 29");
}

#[test]
fn what_is_quoted_is_cut() {
    let (id, problem) = problem(&format!(r#"{{"id":"7","type":"{}"}}"#, "ü".repeat(1_000_000)));
    assert_eq!(id.as_deref(), Some("7"));
    assert!(problem.len() < 1100, "{}", problem.len());
    assert!(problem.starts_with("parse error: unknown variant `üü") && problem.ends_with("ü..."));
}

#[test]
fn deep_nesting_harms_nobody() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let passed_over = format!(r#"{{"type":"ping","x":{deep},"id":"7"}}"#);
    assert!(matches!(Request::parse(&passed_over), Ok(Request::Ping(ping)) if ping.id == "7"));
    let instead_of_text = format!(r#"{{"type":"run","agent":"react","message":{deep},"id":"7"}}"#);
    assert!(matches!(problem(&instead_of_text), (Some(id), _) if id == "7"));
    let unclosed = "{\"id\":".repeat(100_000);
    assert!(matches!(problem(&unclosed), (None, _)));
}

#[test]
fn only_the_requests_own_id_is_salvaged() {
    for (text, expected) in [
        (r#"{"id":"1","#, Some("1")),
        (r#"  {"i\u0064":"1","#, Some("1")),
        (r#"{"x":"id","id":"1"!"#, Some("1")),
        (r#"{"x":["id","2"],"id":"1"!"#, Some("1")),
        (r#"{"x":{"id":"2"},"id":"1"!"#, Some("1")),
        (r#"{"id":null,"x"!"#, None),
        (r#"{"id":["1"]!"#, None),
        (r#"{"id":"1"#, None),
        (r#"{"id":"\ud800"!"#, None),
        (r#"[{"id":"1"}]"#, None),
        (r#""id":"1""#, None),
        ("\"", None),
        ("\"\\", None),
        ("", None),
    ] {
        assert_eq!(id_recovery::recover_id(text).as_deref(), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn nothing_a_client_sends_breaks_the_reader(bytes in any::<Vec<u8>>(), text in "[\\[\\]{}:,\"\\\\ a-z0-9]{0,80}") {
        drop(Request::parse_bytes(&bytes));
        drop(Request::parse(&text));
    }

    #[test]
    fn ids_survive_cutting(id in "\\PC{0,20}", rest in "\\PC{0,40}", keep in 0usize..100) {
        let whole = format!(r#"{{"type":"nope","id":{},"rest":{}}}"#, Value::from(id.clone()), Value::from(rest));
        let after_id = r#"{"type":"nope","id":"#.len() + Value::from(id.clone()).to_string().len();
        let cut = whole.ceil_char_boundary((after_id + keep).min(whole.len()));
        let unreadable = Request::parse(&whole[..cut]).expect_err("the type is unknown");
        prop_assert_eq!(unreadable.id, Some(id));
    }
}
