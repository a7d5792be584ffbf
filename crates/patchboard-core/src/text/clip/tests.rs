use super::*;

#[test]
fn clips_at_characters() {
    for (text, limit, shown) in [("abc", 3, "abc"), ("abcd", 3, "abc…"), ("aüb", 2, "a…"), ("", 0, ""), ("ü", 1, "…")]
    {
        assert_eq!(clipped(&text, limit), shown, "{text} at {limit}");
    }
}
