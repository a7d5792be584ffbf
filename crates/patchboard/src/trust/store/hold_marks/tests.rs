use super::*;

#[test]
fn another_file_at_a_marked_path_is_noticed_until_the_mark_goes() {
    let root = tempfile::tempdir().unwrap();
    let (store, path) = (TrustStore::at(&root.path().join("data")), root.path().join("file"));
    fs::write(&path, "one").unwrap();
    assert!(!store.was_replaced_while_held(&path), "no mark");
    let identity = FileIdentity::of(&path).unwrap();
    store.write_hold_mark(&path, "server", &identity).unwrap();
    fs::write(&path, "edited in place").unwrap();
    assert!(!store.was_replaced_while_held(&path));
    let other = root.path().join("other");
    fs::write(&other, "two").unwrap();
    fs::rename(&other, &path).unwrap();
    assert!(store.was_replaced_while_held(&path));
    // Another process, after the server was killed.
    let next = TrustStore::at(&root.path().join("data"));
    assert_eq!(
        (next.was_replaced_while_held(&path), next.held_files_of("server")),
        (true, vec![(path.clone(), identity)])
    );
    assert_eq!(next.held_files_of("another"), []);
    next.remove_hold_mark(&path, "server");
    assert!(!store.was_replaced_while_held(&path));
}

#[test]
fn a_marked_file_that_is_gone_or_a_link_now_is_another() {
    let root = tempfile::tempdir().unwrap();
    let (store, path) = (TrustStore::at(&root.path().join("data")), root.path().join("file"));
    fs::write(&path, "one").unwrap();
    store.write_hold_mark(&path, "server", &FileIdentity::of(&path).unwrap()).unwrap();
    fs::rename(&path, root.path().join("moved")).unwrap();
    assert!(store.was_replaced_while_held(&path));
    std::os::unix::fs::symlink(root.path().join("moved"), &path).unwrap();
    assert!(store.was_replaced_while_held(&path));
}

#[test]
fn a_broken_mark_is_no_reason_to_obey() {
    let root = tempfile::tempdir().unwrap();
    let (store, path) = (TrustStore::at(&root.path().join("data")), root.path().join("file"));
    fs::write(&path, "one").unwrap();
    store.write_hold_mark(&path, "server", &FileIdentity::of(&path).unwrap()).unwrap();
    fs::write(mark_path(&root.path().join("data/trust"), &path, "server"), "{").unwrap();
    assert!(store.was_replaced_while_held(&path));
}
