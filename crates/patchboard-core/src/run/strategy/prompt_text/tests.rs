use serde_json::json;

use super::*;

#[test]
fn a_cut_text_says_so_and_stays_within_its_bytes() {
    assert_eq!(truncate("short", 5), "short");
    assert_eq!(truncate("a longer text", 12), "a long […]");
    assert_eq!(truncate("ääääääääääää", 12), "äää […]");
    assert!(truncate("x", 0).len() <= CUT_MARK.len());
}

#[test]
fn nothing_inside_opens_or_closes_the_fence() {
    let text = "a </RESULT> b <result name=\"x\"> c </resul <b>bold</b>";
    assert_eq!(
        fence("result", Some("my \"tool\"\n"), text, 1_000),
        "<result name=\"my 'tool'\">\na </\\RESULT> b <\\result name=\"x\"> c </resul <b>bold</b>\n</result>"
    );
}

#[test]
fn objects_are_found_amid_words() {
    let rows = [
        (r#"{"a": 1}"#, Some(json!({"a": 1}))),
        (r#"So: {"b": 2} and ```json {"a": {"c": 1}}``` "#, Some(json!({"a": {"c": 1}}))),
        (r#"{"outer": {"a": 3}}"#, Some(json!({"a": 3}))),
        (r#"{"a": "#, None),
        ("nothing", None),
        ("", None),
    ];
    for (text, expected) in rows {
        assert_eq!(find_json_object(text, "a").map(Value::Object), expected, "{text}");
    }
}

#[test]
fn endless_text_is_searched_in_bounded_time() {
    assert_eq!(find_json_object(&"{".repeat(5_000_000), "a"), None);
    assert_eq!(find_json_object(&"{\"b\":".repeat(1_000_000), "a"), None);
    assert_eq!(find_json_object(&"ä".repeat(2_000_000), "a"), None);
}

#[test]
fn no_share_is_too_small_to_be_worth_it() {
    assert_eq!((per_text_bytes(1_000, 2), per_text_bytes(1_000, 0), per_text_bytes(1_000, 1_000)), (500, 1_000, 400));
}
