use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn names(scan: &FolderScan) -> Vec<&str> {
    scan.found.iter().map(|(name, _)| &**name).collect()
}

#[test]
fn an_absent_folder_is_empty() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(scan(&root.path().join("plugins"), &[]), FolderScan::default());
}

#[test]
fn every_wasm_file_is_a_plugin_in_the_order_of_names() {
    let root = tempfile::tempdir().unwrap();
    for name in ["b.wasm", "a.wasm", "B-2_x.wasm", "a.toml", "readme.md", "wasm", ".hidden.wasm", ".wasm", "c.WASM"] {
        fs::write(root.path().join(name), "").unwrap();
    }
    let scan = scan(root.path(), &[]);
    assert_eq!(names(&scan), ["B-2_x", "a", "b"]);
    assert_eq!(scan.found[1].1, root.path().join("a.wasm"));
    assert_eq!(scan.warnings, Vec::<String>::new());
}

#[test]
fn names_that_are_none_are_told() {
    let root = tempfile::tempdir().unwrap();
    let long = format!("{}.wasm", "x".repeat(65));
    for name in ["two words.wasm", "a.b.wasm", &long] {
        fs::write(root.path().join(name), "").unwrap();
    }
    let scan = scan(root.path(), &[]);
    assert_eq!(names(&scan), Vec::<&str>::new());
    assert_eq!(scan.warnings.len(), 3);
    assert!(scan.warnings.iter().all(|warning| warning.contains("is no plugin: a plugin's name has")));
}

#[test]
fn what_the_configuration_names_is_not_found_again() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a.wasm"), "").unwrap();
    symlink(root.path().join("a.wasm"), root.path().join("b.wasm")).unwrap();
    fs::write(root.path().join("c.wasm"), "").unwrap();
    assert_eq!(names(&scan(root.path(), &[root.path().join("b.wasm")])), ["c"]);
}

#[test]
fn a_folder_that_anybody_may_write_to_is_told() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(scan(root.path(), &[]).warnings[0].starts_with("every user of this machine may put plugins into"));
}

#[test]
fn a_folder_that_is_none_is_told() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("plugins"), "").unwrap();
    assert!(scan(&root.path().join("plugins"), &[]).warnings[0].starts_with("failed to read the plugins folder"));
}
