use std::path::Path;

use super::super::tests::yard::{Yard, going};
use super::*;
use crate::builtin::file_scan::{EntryInterest, scan_files};

/// The files that a scan of `path` finds, in order of path, and its remarks.
fn scanned(yard: &Yard, path: &str) -> (Vec<String>, Vec<String>) {
    let Ok(OpenedPath::Folder(base)) = yard.folder.open_path(path) else { panic!("not a folder: {path}") };
    let mut found = Vec::new();
    let interest = |_: usize, _: &str, _: RuleTarget| EntryInterest::Default;
    let omitted = scan_files(&yard.folder, &base, &going(), interest, |met| found.push(met.path.to_owned())).unwrap();
    found.retain(|path| !path.ends_with(".gitignore") && !path.ends_with(".ignore"));
    found.sort_unstable();
    (found, omitted.remarks())
}

fn check(files: &[(&str, &str)], path: &str, expected: &[&str]) {
    let yard = Yard::new(files);
    assert_eq!(scanned(&yard, path).0, expected, "{path} of {files:?}");
}

#[test]
fn ignore_files_exclude_as_in_git() {
    let tree = |ignored: &'static str| {
        [(".gitignore", ignored), ("a.log", ""), ("b.rs", ""), ("sub/a.log", ""), ("sub/b.rs", "")]
    };
    for (ignored, expected) in [
        ("", &["a.log", "b.rs", "sub/a.log", "sub/b.rs"][..]),
        ("*.log", &["b.rs", "sub/b.rs"]),
        ("\u{feff}*.log\r\n", &["b.rs", "sub/b.rs"]),
        ("/*.log", &["b.rs", "sub/a.log", "sub/b.rs"]),
        ("*.log\n!sub/a.log", &["b.rs", "sub/a.log", "sub/b.rs"]),
        ("!a.log\n*.log", &["b.rs", "sub/b.rs"]),
        ("sub", &["a.log", "b.rs"]),
        ("sub/", &["a.log", "b.rs"]),
        ("b.rs/", &["a.log", "b.rs", "sub/a.log", "sub/b.rs"]),
        ("sub/\n!sub/b.rs", &["a.log", "b.rs"]),
        ("sub/*\n!sub/b.rs", &["a.log", "b.rs", "sub/b.rs"]),
        ("**/a.log", &["b.rs", "sub/b.rs"]),
        ("sub/**", &["a.log", "b.rs"]),
        ("# *.log\n\\#x\n\n   \n", &["a.log", "b.rs", "sub/a.log", "sub/b.rs"]),
        ("[ab].log  ", &["b.rs", "sub/b.rs"]),
        ("{\n*.log", &["b.rs", "sub/b.rs"]),
        ("*", &[]),
    ] {
        check(&tree(ignored), ".", expected);
    }
}

#[test]
fn nested_files_take_precedence() {
    let tree = [
        (".gitignore", "*.log\n*.tmp\n/top\n"),
        ("sub/.gitignore", "!keep.log\n/x\n"),
        ("sub/.ignore", "y\n!keep.tmp\n"),
        ("keep.log", ""),
        ("top", ""),
        ("x", ""),
        ("sub/keep.log", ""),
        ("sub/keep.tmp", ""),
        ("sub/other.log", ""),
        ("sub/top", ""),
        ("sub/x", ""),
        ("sub/y", ""),
        ("sub/deep/keep.log", ""),
        ("sub/deep/x", ""),
    ];
    let beneath = ["deep/keep.log", "deep/x", "keep.log", "keep.tmp", "top"];
    let all = ["sub/deep/keep.log", "sub/deep/x", "sub/keep.log", "sub/keep.tmp", "sub/top", "x"];
    check(&tree, ".", &all);
    check(&tree, "sub", &beneath);
    check(&tree, "sub/deep", &["keep.log", "x"]);
}

#[test]
fn a_short_list_is_excluded_unless_negated() {
    for line in DEFAULT_EXCLUDED {
        assert!(IgnoreRules::defaults().excludes(Path::new("a/b").join(line).as_path(), RuleTarget::Folder), "{line}");
    }
    let files =
        [("target/a", ""), ("node_modules/a", ""), ("build/a", ""), ("bin/a", ""), ("vendor/a", ""), ("venv", "")];
    check(&files, ".", &["bin/a", "build/a", "vendor/a", "venv"]);
    let with = |line: &'static str| files.into_iter().chain([(".gitignore", line)]).collect::<Vec<_>>();
    check(&with("!target/\nvendor/"), ".", &["bin/a", "build/a", "target/a", "venv"]);
    check(&with("build"), ".", &["bin/a", "vendor/a", "venv"]);
}

#[test]
fn a_named_folder_is_open_whatever_excludes_it() {
    let files = [
        (".gitignore", "out/\n*.log\n"),
        ("out/a.log", ""),
        ("out/sub/b", ""),
        ("out/sub/.gitignore", "c"),
        ("out/sub/c", ""),
        ("out/target/d", ""),
        ("src/a.log", ""),
        ("src/b", ""),
    ];
    check(&files, ".", &["src/b"]);
    check(&files, "out", &["a.log", "sub/b"]);
    check(&files, "out/sub", &["b"]);
    check(&files, "out/target", &["d"]);
    check(&files, "src", &["b"]);
}

#[test]
fn a_repository_within_another_follows_its_own_files() {
    let files =
        [(".gitignore", "*.log"), (".git/config", ""), ("a.log", ""), ("inner/.git", "gitdir: x"), ("inner/a.log", "")];
    check(&files, ".", &["inner/.git", "inner/a.log"]);
}

#[test]
fn only_files_of_the_folder_itself_count() {
    let yard = Yard::new(&[("a.log", ""), ("sub/a.log", "")]);
    std::fs::write(yard.dir.path().join(".gitignore"), "*.log").unwrap();
    std::fs::write(yard.dir.path().join("away/rules"), "*.log").unwrap();
    yard.link("../away/rules", ".gitignore");
    yard.put("sub/.gitignore/", "");
    assert_eq!(scanned(&yard, ".").0, ["a.log", "sub/a.log"], "above, through a symlink, or a folder");
}

#[test]
fn what_is_left_out_is_counted() {
    let yard = Yard::new(&[(".gitignore", "*.log\nout/\n"), ("a.log", ""), ("b.log", ""), ("out/c", "")]);
    let remarks = ["[not searched: out/; name one in `path` to search it]", "[files that `.gitignore` leaves out: 2]"];
    assert_eq!(scanned(&yard, ".").1, remarks);
}

#[test]
fn rules_are_bounded_and_that_is_said() {
    let remark = "[ignore files count up to 65536 bytes, 500 files and 10000 lines; the rest of them was not read]";
    let cut = format!("*.log\n{}\n*.rs\n", "# x\n".repeat(MAX_FILE_BYTES / 4));
    let long = format!("{}\n*.log\n", "x".repeat(MAX_LINE_BYTES + 1));
    for text in [&cut, &long] {
        let yard = Yard::new(&[(".gitignore", text), ("a.log", ""), ("b.rs", "")]);
        let (found, remarks) = scanned(&yard, ".");
        assert_eq!((found, remarks.last().map(String::as_str)), (vec!["b.rs".to_owned()], Some(remark)));
    }
    let yard = Yard::new(&[]);
    for number in 0..=MAX_FILES {
        yard.put(&format!("{number:04}/.gitignore"), "x");
        yard.put(&format!("{number:04}/x"), "");
    }
    assert_eq!(scanned(&yard, ".").0, ["0500/x"]);
    let many = "x\n".repeat(MAX_PATTERNS / 2);
    let yard = Yard::new(&[("a/.gitignore", &many), ("b/.gitignore", &many), ("c/.gitignore", "x"), ("c/x", "")]);
    let (found, remarks) = scanned(&yard, ".");
    assert_eq!((found, remarks), (vec!["c/x".to_owned()], vec![remark.to_owned()]));
}
