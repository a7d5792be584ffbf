use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The text itself, and that a parser reads it back as it was.
fn check(value: &Value, expected: &str) {
    let text = document(&[("v", value)]);
    assert_eq!(text, expected);
    assert_eq!(parsed(&text), json!({ "v": value }), "{text}");
}

fn parsed(text: &str) -> Value {
    serde_yaml_ng::from_str(text).unwrap_or_else(|problem| panic!("{problem}:\n{text}"))
}

#[test]
fn plain_values() {
    check(&json!("read a file"), "v: read a file\n");
    check(&json!("a, [b] {c} don't!"), "v: a, [b] {c} don't!\n");
    check(&json!("https://example.com/a#b"), "v: https://example.com/a#b\n");
    check(&json!("übergrößen ✓"), "v: übergrößen ✓\n");
    check(&json!(null), "v: null\n");
    check(&json!(true), "v: true\n");
    check(&json!(-12), "v: -12\n");
    check(&json!(u64::MAX), "v: 18446744073709551615\n");
    check(&json!(0.5), "v: 0.5\n");
    check(&json!(1e300), "v: 1.0e+300\n");
    check(&json!(1.5e-300), "v: 1.5e-300\n");
    check(&json!([]), "v: []\n");
    check(&json!({}), "v: {}\n");
}

#[test]
fn text_that_could_be_something_else_is_quoted() {
    for text in [
        "",
        " ",
        "a ",
        " a",
        "null",
        "Null",
        "~",
        "true",
        "False",
        "yes",
        "NO",
        "on",
        "off",
        "y",
        "N",
        "1",
        "1.5",
        "-1",
        "+1",
        ".5",
        "0x10",
        "0o7",
        "1_000",
        "12:30:45",
        "2026-11-15",
        "1e3",
        ".inf",
        "-.INF",
        ".nan",
        "---",
        "...",
        "- a",
        "-",
        "? a",
        "?",
        ": a",
        ":",
        "a: b",
        "a:",
        "a #b",
        "# a",
        "[a",
        "{a",
        "]",
        "}",
        ",",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "'a'",
        "\"a\"",
        "%a",
        "@a",
        "`a`",
        "<<",
        "=",
        "\\n",
        "a\tb",
        "a\rb",
        "\u{1}",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "é\u{fffe}",
    ] {
        let shown = document(&[("v", &json!(text))]);
        assert!(shown.starts_with("v: \""), "{shown}");
        assert_eq!(parsed(&shown), json!({ "v": text }), "{shown}");
    }
}

#[test]
fn lines_stay_lines() {
    check(&json!("one\ntwo"), "v: |-\n  one\n  two\n");
    check(&json!("one\ntwo\n"), "v: |\n  one\n  two\n");
    check(&json!("one\n\n  two: # x\n\n"), "v: |+\n  one\n\n    two: # x\n\n");
    check(&json!({ "k": ["a\nb"] }), "v:\n  k:\n  - |-\n    a\n    b\n");
    // What a block could not show exactly is quoted.
    check(&json!("\none"), "v: \"\\none\"\n");
    check(&json!(" one\ntwo"), "v: \" one\\ntwo\"\n");
    check(&json!("one\n  \ntwo"), "v: \"one\\n  \\ntwo\"\n");
    check(&json!("one\r\ntwo"), "v: \"one\\r\\ntwo\"\n");
}

#[test]
fn things_in_things() {
    let schema = json!({
        "properties": { "edits": { "items": { "type": "object", "required": ["a", "b"] }, "type": "array" } },
        "required": ["edits"],
        "examples": [[1, [2, []], {}], { "a": [{ "b": null }], "c": 1 }],
    });
    let expected = "\
v:
  examples:
  - - 1
    - - 2
      - []
    - {}
  - a:
    - b: null
    c: 1
  properties:
    edits:
      items:
        required:
        - a
        - b
        type: object
      type: array
  required:
  - edits
";
    check(&schema, expected);
}

#[test]
fn keys_are_quoted_like_values_and_may_be_long() {
    let long = "k".repeat(2000);
    let value = json!({ "": 1, "no": 2, "a: b": 3, "x\ny": [4], long: { "deep": [5, "l\nm"] } });
    let text = document(&[("v", &value)]);
    assert_eq!(parsed(&text), json!({ "v": value }), "{text}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_filter("JSON has no other", |number| number.is_finite()).prop_map(|number| json!(number)),
        "\\PC{0,12}".prop_map(Into::into),
        any::<String>().prop_map(Into::into),
        "[-a-z:#?|>'\" \n]{0,12}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let key = prop_oneof!["[a-z_$]{1,8}", "[-:#? \n'\"\\[{]{0,6}", any::<String>()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((key, inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_written_is_read_back(value in any_json()) {
        let text = document(&[("first", &Value::Null), ("v", &value)]);
        let read: Value = serde_yaml_ng::from_str(&text)
            .map_err(|problem| TestCaseError::fail(format!("{problem}:\n{text}")))?;
        prop_assert_eq!(read, json!({ "first": null, "v": value }), "{}", text);
    }
}
