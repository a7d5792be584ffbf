use super::*;

fn field(text: &str) -> JsonField<'_> {
    let [field] = parse_object(text, ["x"]).unwrap();
    field.unwrap()
}

#[test]
fn values_are_what_they_are() {
    for (text, kind) in [
        (r#"{"x":null}"#, JsonKind::Null),
        (r#"{"x": true}"#, JsonKind::Boolean),
        (r#"{"x":-1e999}"#, JsonKind::Number),
        (r#"{"x":""}"#, JsonKind::Text),
        (r#"{"x":[]}"#, JsonKind::Array),
        (r#"{"x":{}}"#, JsonKind::Object),
        (r#"{"\u0078":{}}"#, JsonKind::Object),
        (r#"{"x":1,"x":2,"y":[],"x":"last"}"#, JsonKind::Text),
    ] {
        assert_eq!(field(text).kind(), kind, "{text}");
    }
    assert_eq!(field(r#"{"x":1e999}"#).number(), None);
    assert_eq!(field(r#"{"x":"1"}"#).number(), None);
    assert_eq!(field(r#"{"x":0.5}"#).number(), Some(0.5));
    assert_eq!(field(r#"{"x":true}"#).boolean(), Some(true));
    assert_eq!(field(r#"{"x":1}"#).boolean(), None);
    assert_eq!(field(r#"{"x":["a",2]}"#).items(2).unwrap().len(), 2);
    assert!(field(r#"{"x":["a",2]}"#).items(1).is_none());
    assert!(field(r#"{"x":{}}"#).items(1).is_none());
}

#[test]
fn half_a_character_does_not_spoil_the_rest() {
    assert_eq!(field(r#"{"x":"a\ud83d\udcd3b"}"#).text().as_deref(), Some("a📓b"));
    let cut = field(r#"{"\udc00":0,"x":"a\ud83d"}"#).text().unwrap();
    assert!(cut.starts_with("a\u{fffd}"), "{cut}");
    assert_eq!(field(r#"{"x":"tab\there"}"#).text().as_deref(), Some("tab\there"));
    assert_eq!(field(r#"{"x":["a"]}"#).text(), None);
}

#[test]
fn deep_nesting_harms_nobody() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let text = format!(r#"{{"y":{deep},"x":{deep}}}"#);
    assert_eq!(field(&text).kind(), JsonKind::Array);
    assert_eq!(field(&text).items(1).unwrap().len(), 1);
    assert!(parse_object(&"{\"x\":".repeat(200_000), ["x"]).is_err());
}

#[test]
fn what_is_no_object_is_told_apart() {
    for (text, problem) in [
        ("", "not JSON: EOF while parsing a value at line 1 column 0"),
        ("{", "not JSON: EOF while parsing an object at line 1 column 1"),
        ("{} {}", "not JSON: trailing characters at line 1 column 4"),
        ("null", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("\"{}\"", "not a JSON object"),
    ] {
        assert_eq!(parse_object(text, ["x"]).unwrap_err().to_string(), problem, "{text}");
    }
}
