use std::fs;

use super::super::tests::yard::{Yard, going, owned, stopped, told};
use super::*;

fn found(yard: &Yard, pattern: &str, path: &str, include: &[&str]) -> Result<String, String> {
    told(glob(&yard.folder, pattern, path, include, &going()))
}

#[test]
fn finds_files_by_their_path() {
    let yard = Yard::new(&[
        ("a.rs", ""),
        ("b.txt", ""),
        (".hidden.rs", ""),
        ("src/c.rs", ""),
        ("src/deep/d.rs", ""),
        ("src/deep/e.ts", ""),
        ("target/f.rs", ""),
        ("dir.rs/", ""),
    ]);
    yard.link("a.rs", "link.rs");
    let left_out = "[not searched: target/; name one in `path` to search it]";
    let all = format!(".hidden.rs\na.rs\nlink.rs\nsrc/c.rs\nsrc/deep/d.rs\n{left_out}");
    let none = format!("No files found\n{left_out}");
    let some = format!("src/c.rs\nsrc/deep/d.rs\n{left_out}");
    let two = format!("src/deep/d.rs\nsrc/deep/e.ts\n{left_out}");
    let cases = [
        ("**/*.rs", ".", &[][..], Ok(all.as_str())),
        ("*.zig", ".", &[], Ok(&none)),
        ("src/**/*.rs", ".", &[], Ok("src/c.rs\nsrc/deep/d.rs")),
        ("**/*.rs", "src", &[], Ok("src/c.rs\nsrc/deep/d.rs")),
        ("*.rs", "src/deep/../deep", &[], Ok("src/deep/d.rs")),
        ("target/*.rs", ".", &[], Ok("target/f.rs")),
        ("*", "target", &[], Ok("target/f.rs")),
        ("**/*", ".", &["src/**/*.rs"], Ok(&some)),
        ("**/*", ".", &["d.rs", "*.ts"], Ok(&two)),
        ("*", "a.rs", &[], Err("`a.rs` is a file: `path` names a folder")),
        ("*", "nope", &[], Err("`nope` does not exist")),
        ("../*", ".", &[], Err("`../*` holds `..`, which leads out of the folder searched")),
        ("*", ".", &["a/../b"], Err("`a/../b` holds `..`, which leads out of the folder searched")),
        ("a[", ".", &[], Err("`a[` is not a pattern: a `[` is not closed")),
    ];
    for (pattern, path, include, expected) in cases {
        assert_eq!(found(&yard, pattern, path, include), owned(expected), "{pattern} {path} {include:?}");
    }
    assert_eq!(told(glob(&yard.folder, "*", ".", &[], &stopped())), owned(Err("cancelled")));
}

#[test]
fn ignore_rules_hold_unless_the_file_is_named() {
    let yard =
        Yard::new(&[(".gitignore", "*.log\nout/"), ("a.log", ""), ("b.rs", ""), ("out/c.log", ""), ("build/d", "")]);
    let remarks = "[not searched: out/; name one in `path` to search it]\n[files that `.gitignore` leaves out: 1]";
    let cases = [
        ("**/*", ".", format!(".gitignore\nb.rs\nbuild/d\n{remarks}")),
        ("*.log", ".", format!("No files found\n{remarks}")),
        ("a.log", ".", "a.log\n[not searched: out/; name one in `path` to search it]".to_owned()),
        ("out/c.log", ".", "out/c.log".to_owned()),
        ("out/*.log", ".", "out/c.log".to_owned()),
        ("*.log", "out", "out/c.log".to_owned()),
    ];
    for (pattern, path, expected) in cases {
        assert_eq!(found(&yard, pattern, path, &[]), Ok(expected), "{pattern} in {path}");
    }
}

#[test]
fn many_files_are_capped_with_a_remark() {
    let yard = Yard::new(&[]);
    for number in 0..1200 {
        fs::write(yard.at(&format!("{number:04}")), "").unwrap();
    }
    let text = found(&yard, "*", ".", &[]).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines.len(), lines[999]), (1001, "0999"));
    assert_eq!(lines[1000], "[1000 of 1200 files shown; use a narrower pattern]");
    for number in 0..400 {
        fs::write(yard.at(&format!("{}{number:03}", "n".repeat(200))), "").unwrap();
    }
    let text = found(&yard, "n*", ".", &[]).unwrap();
    assert!(
        text.len() < MAX_SHOWN_BYTES + 200 && text.ends_with("of 400 files shown; use a narrower pattern]"),
        "{text}"
    );
}

#[test]
fn strange_names_stay_on_their_line() {
    let yard = Yard::new(&[("two\nlines", "")]);
    assert_eq!(found(&yard, "*", ".", &[]), owned(Ok("two\\nlines")));
}
