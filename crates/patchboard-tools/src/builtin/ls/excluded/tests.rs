use super::*;

#[test]
fn patterns_leave_out() {
    use RuleTarget::{Folder, Other};
    let cases = [
        ("*.log", "a.log", Other, true),
        ("*.log", "deep/down/a.log", Other, true),
        ("*.log", "a.login", Other, false),
        ("**/*.log", "a.log", Other, true),
        ("docs/", "docs", Folder, true),
        ("docs/", "docs", Other, false),
        ("docs/**", "docs", Folder, true),
        ("./docs", "docs", Folder, true),
        ("src/*.rs", "src/main.rs", Other, true),
        ("src/*.rs", "main.rs", Other, false),
        ("?", "a", Other, true),
        ("?", "ab", Other, false),
        ("*.{log,tmp}", "a.tmp", Other, true),
        ("a[", "a[", Other, true),
        ("a[", "a", Other, false),
    ];
    for (pattern, path, target, expected) in cases {
        let excluded = ExcludedPatterns::new([pattern].into_iter());
        assert_eq!(excluded.contains(path, target), expected, "{pattern} on {path}");
    }
    assert!(!ExcludedPatterns::default().contains("a", Other));
}
