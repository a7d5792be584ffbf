use std::fs;

use super::super::tests::yard::{Yard, going, owned, stopped, told};
use super::*;

fn deleted(yard: &Yard, path: &str, reach: DeleteScope) -> Result<String, String> {
    told(delete(&yard.turns, &yard.folder, path, reach, &going()))
}

fn yard() -> Yard {
    let yard = Yard::new(&[("a.txt", "a"), ("sub/x.txt", "x"), ("sub/deep/y.txt", "y"), ("empty/", "")]);
    yard.link("../a.txt", "sub/link");
    yard
}

#[test]
fn deletes_what_it_is_told_and_no_more() {
    let cases = [
        ("a.txt", DeleteScope::EntryOnly, &["a.txt"][..]),
        ("a.txt", DeleteScope::Recursive, &["a.txt"]),
        ("empty", DeleteScope::EntryOnly, &["empty/"]),
        ("sub/link", DeleteScope::Recursive, &["sub/link"]),
        ("sub/deep", DeleteScope::Recursive, &["sub/deep/", "sub/deep/y.txt"]),
        ("sub", DeleteScope::Recursive, &["sub/", "sub/deep/", "sub/deep/y.txt", "sub/link", "sub/x.txt"]),
    ];
    for (path, reach, gone) in cases {
        let yard = yard();
        let mut expected = yard.inside();
        for path in gone {
            assert!(expected.remove(*path).is_some(), "{path}");
        }
        assert_eq!(deleted(&yard, path, reach), owned(Ok("ok")), "{path}");
        assert_eq!(yard.inside(), expected, "{path}");
    }
}

#[test]
fn refuses_the_rest() {
    let yard = yard();
    let before = yard.inside();
    let nameless = "`.` is the working folder or names a folder by `.` or `..`: say the folder's own name";
    let cases = [
        ("nope", DeleteScope::EntryOnly, "`nope` does not exist"),
        ("nope", DeleteScope::Recursive, "`nope` does not exist"),
        ("sub/nope/x", DeleteScope::EntryOnly, "`sub/nope/x` does not exist"),
        (
            "sub",
            DeleteScope::EntryOnly,
            "`sub` is not empty: set `recursive` to delete a folder with all that lies in it",
        ),
        (".", DeleteScope::Recursive, nameless),
    ];
    for (path, reach, expected) in cases {
        assert_eq!(deleted(&yard, path, reach), owned(Err(expected)), "{path}");
    }
    let outcome = told(delete(&yard.turns, &yard.folder, "sub", DeleteScope::Recursive, &stopped()));
    assert_eq!(outcome, owned(Err("cancelled")));
    assert_eq!(yard.inside(), before);
}

#[test]
fn a_folder_nested_too_deeply_is_refused_whole() {
    let yard = Yard::new(&[]);
    let deep = format!("top/{}", vec!["d"; 200].join("/"));
    fs::create_dir_all(yard.at(&deep)).unwrap();
    fs::write(yard.at("top/file"), "x").unwrap();
    let expected = "`top` holds more than 50000 entries or is nested too deeply: delete its parts one by one";
    assert_eq!(deleted(&yard, "top", DeleteScope::Recursive), owned(Err(expected)));
    assert_eq!(yard.text("top/file"), "x");
}
