use super::*;

#[test]
fn names_stay_on_one_line() {
    for (name, shown) in
        [("plain.rs", "plain.rs"), ("zwei\nZeilen", "zwei\\nZeilen"), ("\u{1b}[31m", "\\u{1b}[31m"), ("größe", "größe")]
    {
        assert_eq!(escape_control_chars(OsStr::new(name)), shown);
    }
}

#[test]
fn quoted_paths_are_bounded() {
    assert_eq!(quoted("a/b"), "`a/b`");
    assert_eq!(quoted("x".repeat(100_000)).len(), MAX_PATH_BYTES + 2 + "…".len());
}
