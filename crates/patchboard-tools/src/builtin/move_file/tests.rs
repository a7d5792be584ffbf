use super::super::tests::yard::{Yard, going, owned, stopped, told};
use super::*;

fn moved(yard: &Yard, source: &str, target: &str) -> Result<String, String> {
    told(move_entry(&yard.turns, &yard.folder, source, target, &going()))
}

#[test]
fn moves_files_and_folders() {
    let cases = [
        ("a.txt", "b.txt", "b.txt"),
        ("a.txt", "new/deep/b.txt", "new/deep/b.txt"),
        ("a.txt", "sub/a.txt", "sub/a.txt"),
        ("sub", "other", "other/x.txt"),
        ("sub/", "new/sub/", "new/sub/x.txt"),
        ("link", "kept", "kept"),
    ];
    for (source, target, there) in cases {
        let yard = Yard::new(&[("a.txt", "same"), ("sub/x.txt", "same")]);
        yard.link("a.txt", "link");
        assert_eq!(moved(&yard, source, target), owned(Ok("ok")), "{source} {target}");
        assert_eq!(yard.text(there), "same", "{source} {target}");
        assert!(yard.at(source).symlink_metadata().is_err(), "{source}");
    }
}

#[test]
fn replaces_nothing() {
    let yard = Yard::new(&[("a.txt", "a"), ("b.txt", "b"), ("sub/x.txt", "x"), ("empty/", "")]);
    yard.link("nowhere", "dangling");
    let before = yard.inside();
    let cases = [
        ("nope", "b", "`nope` does not exist"),
        ("nope/x", "b", "`nope/x` does not exist"),
        ("a.txt", "b.txt", "`b.txt` already exists"),
        ("a.txt", "dangling", "`dangling` already exists"),
        ("a.txt", "a.txt", "`source` and `target` are both `a.txt`"),
        ("a.txt", "sub/../a.txt", "`source` and `target` are both `a.txt`"),
        ("a.txt", "sub", "`sub` is a folder: name the new path in it"),
        ("sub", "empty", "`empty` is a folder: name the new path in it"),
        ("sub", "sub/inner", "`sub` cannot be moved: a folder cannot be moved into itself"),
        (".", "x", "`.` is the working folder or names a folder by `.` or `..`: say the folder's own name"),
        ("sub/..", "x", "`sub/..` is the working folder or names a folder by `.` or `..`: say the folder's own name"),
        ("a.txt", "b.txt/x", "`b.txt` is not a folder, so nothing lies beneath it"),
    ];
    for (source, target, expected) in cases {
        assert_eq!(moved(&yard, source, target), owned(Err(expected)), "{source} {target}");
    }
    assert_eq!(told(move_entry(&yard.turns, &yard.folder, "a.txt", "c", &stopped())), owned(Err("cancelled")));
    assert_eq!(yard.inside(), before);
}
