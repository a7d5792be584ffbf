use super::*;
use crate::tidy::testing::{shown, with_files};

fn lines(code: &str) -> Vec<usize> {
    check(&with_files(&[("crates/a/src/b.rs", code)])).iter().map(|problem| problem.line).collect()
}

#[test]
fn sibling_tests_are_fine() {
    let none: Vec<String> = Vec::new();
    let sibling =
        "fn f() {}\n\n#[cfg(test)]\nmod tests;\n\nmod inner {\n}\n#[cfg(test)]\nfn helper() {}\nmod other {}\n";
    let tests = "#[test]\nfn t() {}\n#[cfg(test)]\nmod tests { }\n";
    let files =
        [("crates/a/src/b.rs", sibling), ("crates/a/src/b/tests.rs", tests), ("crates/a/tests/it/main.rs", tests)];
    assert_eq!(shown(check(&with_files(&files))), none);
}

#[test]
fn inline_tests_are_found() {
    assert_eq!(lines("fn f() {}\n#[cfg(test)]\nmod tests {\n}\n"), [3]);
    assert_eq!(lines("#[cfg(test)] mod tests {\n}\n"), [1]);
    assert_eq!(lines("#[cfg(test)]\n\n#[expect(x)]\npub(crate) mod tests {\n}\n"), [4]);
}

#[test]
fn stray_tests_are_found() {
    assert_eq!(lines("#[test]\nfn t() {}\n#[tokio::test(start_paused = true)]\nasync fn u() {}\n"), [1, 3]);
    assert!(lines("// #[test]\nlet text = \"\n#[test]\n\";\n").is_empty());
}

#[test]
fn mod_rs_is_found() {
    assert_eq!(
        shown(check(&with_files(&[("crates/a/src/b/mod.rs", "")]))),
        ["crates/a/src/b/mod.rs: call it `crates/a/src/b.rs`, so that tabs and search results name it"]
    );
}
