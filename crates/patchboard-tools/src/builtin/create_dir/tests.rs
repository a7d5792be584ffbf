use super::super::tests::yard::{Yard, owned, told};
use super::*;

#[test]
fn makes_folders() {
    let cases = [
        ("new", ExistingFolder::Accepted, Ok("ok")),
        ("new/deep/er", ExistingFolder::Refused, Ok("ok")),
        ("sub", ExistingFolder::Accepted, Ok("ok")),
        ("sub", ExistingFolder::Refused, Err("`sub` already exists")),
        ("link", ExistingFolder::Accepted, Ok("ok")),
        ("link/new", ExistingFolder::Refused, Ok("ok")),
        (".", ExistingFolder::Accepted, Ok("ok")),
        (".", ExistingFolder::Refused, Err("`.` already exists")),
        ("file", ExistingFolder::Accepted, Err("`file` already exists and is not a folder")),
        ("file/x", ExistingFolder::Accepted, Err("`file` is not a folder, so nothing lies beneath it")),
        ("nope/..", ExistingFolder::Accepted, Err("`nope` does not exist")),
    ];
    for (path, existing, expected) in cases {
        let yard = Yard::new(&[("sub/", ""), ("file", "x")]);
        yard.link("sub", "link");
        let before = yard.inside();
        assert_eq!(told(create(&yard.folder, path, existing)), owned(expected), "{path}");
        match expected {
            Ok(_) => assert!(yard.at(path).is_dir(), "{path}"),
            Err(_) => assert_eq!(yard.inside(), before, "{path}"),
        }
    }
}

#[test]
fn calls_that_make_the_same_folder_agree() {
    let yard = Yard::new(&[]);
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for number in 0..50 {
                    let path = format!("a{number}/b/c");
                    assert_eq!(told(create(&yard.folder, &path, ExistingFolder::Accepted)), owned(Ok("ok")));
                }
            });
        }
    });
}
