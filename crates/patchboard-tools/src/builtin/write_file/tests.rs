use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::super::file_runtime::content::MAX_FILE_BYTES;
use super::super::tests::yard::{Yard, going, owned, stopped, told};
use super::*;

fn put_in(yard: &Yard, path: &str, content: &str, keep: WriteMode) -> Result<String, String> {
    told(write(&yard.turns, &yard.folder, path, content, keep, &going()))
}

#[test]
fn writes_what_it_is_given() {
    let cases = [
        ("new.txt", "a", WriteMode::Replace, "a"),
        ("deep/er/new.txt", "a", WriteMode::Replace, "a"),
        ("old.txt", "a", WriteMode::Replace, "a"),
        ("old.txt", "", WriteMode::Replace, ""),
        ("old.txt", "a", WriteMode::Append, "olda"),
        ("new.txt", "a", WriteMode::Append, "a"),
        ("./sub/../old.txt", "ü\r\n", WriteMode::Replace, "ü\r\n"),
    ];
    for (path, content, keep, expected) in cases {
        let yard = Yard::new(&[("old.txt", "old"), ("sub/", "")]);
        assert_eq!(put_in(&yard, path, content, keep), owned(Ok("ok")), "{path}");
        assert_eq!(yard.text(path), expected, "{path}");
    }
}

#[test]
fn refuses_what_is_not_a_file() {
    let yard = Yard::new(&[("sub/x", "x"), ("file", "x")]);
    assert!(std::process::Command::new("mkfifo").arg(yard.at("pipe")).status().unwrap().success());
    yard.link("loop", "loop");
    let before = yard.inside();
    let cases = [
        ("sub", "`sub` is a folder"),
        (".", "`.` is a folder"),
        ("sub/..", "`sub/..` is a folder"),
        ("pipe", "`pipe` is a FIFO: only regular files and folders can be opened"),
        ("file/x", "`file` is not a folder, so nothing lies beneath it"),
        ("nope/../x", "`nope` does not exist"),
        ("loop", "`loop` has too many steps or symlinks, perhaps a loop"),
    ];
    for (path, expected) in cases {
        for keep in [WriteMode::Replace, WriteMode::Append] {
            assert_eq!(put_in(&yard, path, "a", keep), owned(Err(expected)), "{path}");
        }
    }
    assert_eq!(yard.inside(), before);
}

#[test]
fn a_symlink_inside_is_written_through() {
    let yard = Yard::new(&[("sub/real.txt", "old")]);
    yard.link("sub/real.txt", "link");
    yard.link("sub/made.txt", "dangling");
    for (link, real) in [("link", "sub/real.txt"), ("dangling", "sub/made.txt")] {
        assert_eq!(put_in(&yard, link, "new", WriteMode::Replace), owned(Ok("ok")));
        assert_eq!(yard.text(real), "new");
        assert!(yard.at(link).symlink_metadata().unwrap().is_symlink());
    }
}

#[test]
fn the_mode_stays_and_other_hard_links_keep_the_old_content() {
    let yard = Yard::new(&[("run.sh", "old")]);
    fs::set_permissions(yard.at("run.sh"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::hard_link(yard.at("run.sh"), yard.dir.path().join("elsewhere")).unwrap();
    assert_eq!(put_in(&yard, "run.sh", "new", WriteMode::Append), owned(Ok("ok")));
    assert_eq!(yard.at("run.sh").metadata().unwrap().mode() & 0o7777, 0o751, "without the set-id bit");
    assert_eq!(fs::read_to_string(yard.dir.path().join("elsewhere")).unwrap(), "old");
    assert_eq!(yard.text("run.sh"), "oldnew");
}

#[test]
fn too_much_is_refused_and_leaves_nothing_behind() {
    let yard = Yard::new(&[("old.txt", "old")]);
    let before = yard.inside();
    let just_fits = "x".repeat(MAX_FILE_BYTES);
    let refused = format!("`old.txt` is, or would be, larger than {MAX_FILE_BYTES} bytes");
    assert_eq!(put_in(&yard, "old.txt", &format!("{just_fits}x"), WriteMode::Replace), Err(refused.clone()));
    assert_eq!(put_in(&yard, "old.txt", &just_fits, WriteMode::Append), Err(refused));
    assert_eq!(yard.inside(), before);
    assert_eq!(put_in(&yard, "old.txt", &just_fits, WriteMode::Replace), owned(Ok("ok")));
}

#[test]
fn a_cancelled_call_writes_nothing() {
    let yard = Yard::new(&[("old.txt", "old")]);
    let before = yard.inside();
    for keep in [WriteMode::Replace, WriteMode::Append] {
        let outcome = told(write(&yard.turns, &yard.folder, "old.txt", "new", keep, &stopped()));
        assert_eq!(outcome, owned(Err("cancelled")));
    }
    assert_eq!(yard.inside(), before, "not even a temporary file");
}
