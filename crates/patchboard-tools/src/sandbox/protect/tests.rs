use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn machine() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("home/.local/share/board")).unwrap();
    fs::create_dir_all(base.join("elsewhere")).unwrap();
    (dir, base)
}

#[test]
fn every_folder_on_the_way_from_a_writable_one_is_pinned() {
    let (_dir, base) = machine();
    let protected = base.join("home/.local/share/board");
    let check = |roots: &[&str], expected: &[&str]| {
        let roots: Vec<PathBuf> = roots.iter().map(|root| base.join(root)).collect();
        let expected: Vec<PathBuf> = expected.iter().map(|path| base.join(path)).collect();
        assert_eq!(pinned_folders([protected.as_path()], &roots), expected, "{roots:?}");
    };
    check(&["home"], &["home", "home/.local", "home/.local/share"]);
    check(&["home/.local", "elsewhere"], &["home/.local", "home/.local/share"]);
    check(&["elsewhere"], &[]);
    let everywhere = pinned_folders([protected.as_path()], &[PathBuf::from("/")]);
    assert_eq!(everywhere.last(), Some(&base.join("home/.local/share")));
    assert!(!everywhere.contains(&PathBuf::from("/")));
}

#[test]
fn a_link_that_could_be_replaced_is_found() {
    let (_dir, base) = machine();
    symlink(base.join("elsewhere"), base.join("home/.config")).unwrap();
    let path = base.join("home/.config/patchboard/credentials");
    assert_eq!(replaceable_link(&path, &[base.join("home")]), Some(base.join("home/.config")));
    assert_eq!(replaceable_link(&path, &[base.join("elsewhere")]), None);
    assert_eq!(replaceable_link(&base.join("home/.local/share"), &[base.join("home")]), None);
}
