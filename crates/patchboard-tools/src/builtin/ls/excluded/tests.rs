use super::*;

#[test]
fn patterns_leave_out() {
    use ListedKind::{Folder, Other};
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
    ];
    for (pattern, path, is, expected) in cases {
        let ignore = IgnoreRules::new([pattern].into_iter());
        assert_eq!(ignore.excludes(path, is), expected, "{pattern} on {path}");
    }
    assert!(!IgnoreRules::new([].into_iter()).excludes("a", Other));
}

#[test]
fn generated_folders_stay_closed() {
    assert!(GENERATED_FOLDERS.is_sorted());
    for name in GENERATED_FOLDERS {
        assert!(IgnoreRules::is_generated(name), "{name}");
    }
    assert!(!IgnoreRules::is_generated("src"));
}
