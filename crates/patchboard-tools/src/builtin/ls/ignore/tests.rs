use super::*;

#[test]
fn patterns_leave_out() {
    use Is::{Folder, SomethingElse};
    let cases = [
        ("*.log", "a.log", SomethingElse, true),
        ("*.log", "deep/down/a.log", SomethingElse, true),
        ("*.log", "a.login", SomethingElse, false),
        ("**/*.log", "a.log", SomethingElse, true),
        ("docs/", "docs", Folder, true),
        ("docs/", "docs", SomethingElse, false),
        ("docs/**", "docs", Folder, true),
        ("./docs", "docs", Folder, true),
        ("src/*.rs", "src/main.rs", SomethingElse, true),
        ("src/*.rs", "main.rs", SomethingElse, false),
        ("?", "a", SomethingElse, true),
        ("?", "ab", SomethingElse, false),
    ];
    for (pattern, path, is, expected) in cases {
        let ignore = Ignore::new([pattern].into_iter());
        assert_eq!(ignore.leaves_out(path, is), expected, "{pattern} on {path}");
    }
    assert!(!Ignore::new([].into_iter()).leaves_out("a", SomethingElse));
}

#[test]
fn generated_folders_stay_closed() {
    assert!(NOT_OPENED.is_sorted());
    for name in NOT_OPENED {
        assert!(Ignore::leaves_closed(name), "{name}");
    }
    assert!(!Ignore::leaves_closed("src"));
}
