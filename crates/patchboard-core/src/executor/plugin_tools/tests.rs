use super::*;

#[test]
fn what_is_json_is_told_from_what_is_not() {
    for text in ["{}", "[1,2]", "\"a\"", "1", "null", " {\"a\": 1} "] {
        assert!(is_json(text), "{text}");
    }
    for text in ["", "hello", "{", "1 2", "{} trailing"] {
        assert!(!is_json(text), "{text}");
    }
}
