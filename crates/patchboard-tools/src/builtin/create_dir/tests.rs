use super::super::tests::yard::{Yard, owned, told};
use super::*;

#[test]
fn makes_folders() {
    let cases = [
        ("new", Existing::Fine, Ok("ok")),
        ("new/deep/er", Existing::Refused, Ok("ok")),
        ("sub", Existing::Fine, Ok("ok")),
        ("sub", Existing::Refused, Err("`sub` already exists")),
        ("link", Existing::Fine, Ok("ok")),
        ("link/new", Existing::Refused, Ok("ok")),
        (".", Existing::Fine, Ok("ok")),
        (".", Existing::Refused, Err("`.` already exists")),
        ("file", Existing::Fine, Err("`file` already exists and is not a folder")),
        ("file/x", Existing::Fine, Err("`file` is not a folder, so nothing lies beneath it")),
        ("nope/..", Existing::Fine, Err("`nope` does not exist")),
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
                    assert_eq!(told(create(&yard.folder, &path, Existing::Fine)), owned(Ok("ok")));
                }
            });
        }
    });
}
