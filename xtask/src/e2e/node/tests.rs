use super::*;

#[test]
fn versions_are_compared_as_numbers() {
    assert_eq!(version("v20.11.1\n"), Some((20, 11)));
    assert_eq!(version("20.11.1"), None);
    assert_eq!(version(""), None);
    for (text, recent) in [("v18.20.4", false), ("v20.0.0", true), ("v9.99.0", false), ("v100.0.0", true)] {
        assert_eq!(version(text).is_some_and(|version| version >= OLDEST), recent, "{text}");
    }
}
