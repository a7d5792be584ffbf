use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::super::tests::yard::{Yard, going, owned, stopped, told};
use super::*;

fn found(yard: &Yard, pattern: &str, path: &str, include: Option<&str>) -> Result<String, String> {
    told(grep(&yard.folder, pattern, path, include, &going()))
}

/// Sets when a file was last changed, in seconds.
fn changed(yard: &Yard, path: &str, seconds: u64) {
    let file = fs::File::options().append(true).open(yard.at(path)).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

#[test]
fn finds_lines_newest_file_first() {
    let yard = Yard::new(&[
        ("old.rs", "fn a() {}\nfn b() {}\n"),
        ("src/new.rs", "// fn\r\nlet x;\r\nfn c() {}"),
        ("notes.txt", "fn in a note\n\n"),
        ("empty", ""),
        ("target/gen.rs", "fn generated() {}\n"),
    ]);
    yard.put("binary", b"fn \0");
    yard.put("latin.txt", b"caf\xe9 fn\n");
    fs::write(yard.at("").join(OsStr::from_bytes(b"bad\xff.txt")), "fn odd\n").unwrap();
    yard.link("old.rs", "link.rs");
    for (path, seconds) in [("old.rs", 1000), ("src/new.rs", 3000), ("notes.txt", 2000), ("latin.txt", 500)] {
        changed(&yard, path, seconds);
    }
    let odd = fs::File::options().append(true).open(yard.at("").join(OsStr::from_bytes(b"bad\xff.txt"))).unwrap();
    odd.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let left_out = "\n[not searched: target/; name one in `path` to search it]";
    let all = format!(
        "Found 7 matches\nsrc/new.rs:\n  Line 1: // fn\n  Line 3: fn c() {{}}\nnotes.txt:\n  Line 1: fn in a note\nold.rs:\n  \
         Line 1: fn a() {{}}\n  Line 2: fn b() {{}}\nlatin.txt:\n  Line 1: caf\u{fffd} fn\nbad\u{fffd}.txt:\n  Line 1: fn odd{left_out}"
    );
    let rust = format!(
        "Found 3 matches\nsrc/new.rs:\n  Line 3: fn c() {{}}\nold.rs:\n  Line 1: fn a() {{}}\n  Line 2: fn b() {{}}{left_out}"
    );
    let empty = format!("Found 1 matches\nnotes.txt:\n  Line 2: {left_out}");
    let none = format!("No files found{left_out}");
    let cases = [
        ("fn", ".", None, Ok(all.as_str())),
        (r"^fn \w\(", ".", Some("*.rs"), Ok(&rust)),
        ("^$", ".", Some("{notes.txt,empty}"), Ok(&empty)),
        ("(?i)FN C", "src", None, Ok("Found 1 matches\nsrc/new.rs:\n  Line 3: fn c() {}")),
        ("c\\(\\) \\{\\}$", "src/new.rs", None, Ok("Found 1 matches\nsrc/new.rs:\n  Line 3: fn c() {}")),
        ("generated", "target", None, Ok("Found 1 matches\ntarget/gen.rs:\n  Line 1: fn generated() {}")),
        ("secret", ".", None, Ok(&none)),
        ("a\\nfn", ".", None, Ok(&none)),
        ("x", "nope", None, Err("`nope` does not exist")),
        ("x", ".", Some("../*"), Err("`../*` holds `..`, which leads out of the folder searched")),
    ];
    for (pattern, path, include, expected) in cases {
        assert_eq!(found(&yard, pattern, path, include), owned(expected), "{pattern} {path}");
    }
    let wrong = found(&yard, "a(", ".", None).unwrap_err();
    assert!(wrong.starts_with("`pattern` is not a regular expression: "), "{wrong}");
    let bomb = found(&yard, "((a{100}){100}){100}", ".", None).unwrap_err();
    assert!(bomb.starts_with("`pattern` is not a regular expression: "), "{bomb}");
    assert_eq!(told(grep(&yard.folder, "fn", ".", None, &stopped())), owned(Err("cancelled")));
    assert_eq!(told(grep(&yard.folder, "fn", "old.rs", None, &stopped())), owned(Err("cancelled")));
}

#[test]
fn the_answer_is_bounded_and_says_so() {
    let yard =
        Yard::new(&[("many.txt", &"match\n".repeat(300)), ("long.txt", &format!("long {}\n", "x".repeat(1000)))]);
    let text = found(&yard, "match", ".", None).unwrap();
    assert!(text.starts_with("Found 100 matches\nmany.txt:\n  Line 1: match\n"), "{text}");
    let ending = "  Line 100: match\n[the search ended at 100 matches; use a narrower `pattern`, `path` or `include`]";
    assert!(text.ends_with(ending), "{text}");
    let long = format!("Found 1 matches\nlong.txt:\n  Line 1: long {}…", "x".repeat(495));
    assert_eq!(found(&yard, "long", ".", None), Ok(long));
    yard.put("huge.txt", vec![b'm'; MAX_FILE_BYTES + 1]);
    assert_eq!(
        found(&yard, "mm", ".", None),
        owned(Ok("No files found\n[files over 10485760 bytes, not searched: 1]"))
    );
}

#[test]
fn ignored_files_are_searched_by_their_path() {
    let yard = Yard::new(&[(".gitignore", "*.log"), ("a.log", "fn a\n"), ("vendor/b.rs", "fn b\n")]);
    let one = "Found 1 matches\nvendor/b.rs:\n  Line 1: fn b\n[files that `.gitignore` leaves out: 1]";
    assert_eq!(found(&yard, "fn", ".", None), owned(Ok(one)));
    assert_eq!(found(&yard, "fn", "a.log", None), owned(Ok("Found 1 matches\na.log:\n  Line 1: fn a")));
}

/// An expression that takes a backtracking engine for ever takes this one no time worth mentioning.
#[test]
fn no_expression_takes_for_ever() {
    let yard = Yard::new(&[("a.txt", &format!("{}!", "a".repeat(20_000)))]);
    assert_eq!(found(&yard, "^(a+)+$", ".", None), owned(Ok("No files found")));
}
