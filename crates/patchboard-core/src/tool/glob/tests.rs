use super::*;

#[test]
fn globs() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("*", "anything", true),
        ("read", "read", true),
        ("read", "reader", false),
        ("app.*", "app.notes", true),
        ("app.*", "apps", false),
        ("*_file", "write_file", true),
        ("a*b*c", "a--b--b--c", true),
        ("a*b*c", "a--b--b--", false),
        ("r?ad", "read", true),
        ("r?ad", "rad", false),
        ("", "", true),
        ("", "x", false),
        ("é*", "éa", true),
        ("?", "é", true),
        ("*é?", "aéé", true),
        ("*aab", "aaaab", true),
        ("a**b?*", "axxbc", true),
        ("*?", "", false),
    ] {
        assert_eq!(Glob::new(pattern).matches(text), expected, "{pattern} on {text}");
    }
}
