use super::*;
use crate::tidy::testing::{shown, with_files};

fn lines(path: &str, text: &str) -> Vec<usize> {
    check(&with_files(&[(path, text)])).iter().map(|problem| problem.line).collect()
}

#[test]
fn each_word_is_found_where_it_is_code() {
    for word in [
        "todo!()",
        "unimplemented!(\"x\")",
        "dbg!(x)",
        "#[ignore]",
        "#[ignore = \"slow\"]",
        "#[allow(x)]",
        "#![allow(x)]",
        "#[cfg_attr(windows, ignore)]",
        "#[cfg_attr(test, allow(x))]",
    ] {
        assert_eq!(lines("a.rs", &format!("fn f() {{}}\n{word}\n")), [2], "{word}");
    }
}

#[test]
fn talking_about_them_is_fine() {
    for text in [
        "// todo!()",
        "let text = \"dbg!(x) #[ignore] #[allow(\";",
        "not_todo!()",
        "#[expect(x, reason = \"\")]",
        "#[ignored_fields]",
        "#[cfg_attr(test, derive(Debug))]",
    ] {
        assert!(lines("a.rs", text).is_empty(), "{text}");
    }
    assert!(lines("STYLE.md", "todo!() #[ignore]").is_empty());
}

#[test]
fn silenced_drivers_are_found() {
    assert_eq!(lines("e2e/python/test_a.py", "x\n    @unittest.skip(\"later\")\n"), [2]);
    assert!(lines("e2e/python/test_a.py", "raise unittest.SkipTest(reason)\n").is_empty());
    assert_eq!(lines("e2e/node/a.test.mjs", "test.only('x', () => {});\n"), [1]);
    assert!(lines("e2e/node/a.test.mjs", "test('x', { skip: reason }, () => {});\n").is_empty());
}

#[test]
fn the_message_says_why() {
    assert_eq!(shown(check(&with_files(&[("a.rs", "dbg!(x)")]))), ["a.rs:1: `dbg!`: left over from debugging"]);
}

#[test]
fn whole_words_end_where_identifiers_end() {
    let found = find_words("serde_json::x\nserde::y\nmyserde\nuse serde;", &[Word::whole("serde")]);
    assert_eq!(found, [(2, "serde"), (4, "serde")]);
}
