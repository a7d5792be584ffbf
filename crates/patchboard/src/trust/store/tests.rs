use super::*;

fn stamp(folder: &Path) -> FileFingerprint {
    FileFingerprint::of(folder).unwrap()
}

#[test]
fn what_is_recorded_is_there_for_the_next_process() {
    let data = tempfile::tempdir().unwrap();
    let (file, other) = (Path::new("/a/patchboard.toml"), Path::new("/b"));
    let store = TrustStore::at(data.path());
    store.trust_config(file, "a = 1").unwrap();
    store.expose(other).unwrap();
    store.trust_file(file, &stamp(data.path())).unwrap();
    let next = TrustStore::at(data.path());
    assert_eq!(next.config(file).as_deref(), Some("a = 1"));
    assert_eq!(next.file(file), Some(stamp(data.path())));
    assert_eq!((next.is_exposed(other), next.is_exposed(file)), (true, false));
    next.forget_config(file).unwrap();
    next.forget_file(file).unwrap();
    next.forget_file(file).unwrap();
    assert_eq!((store.config(file), store.file(file)), (None, None));
}

#[test]
fn records_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let data = tempfile::tempdir().unwrap();
    TrustStore::at(data.path()).expose(Path::new("/b")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = data.path().join("trust/exposed");
    let record = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    assert_eq!((mode(&folder), mode(&record)), (0o700, 0o600));
}

#[test]
fn a_command_without_the_flag_knows_what_a_server_with_it_exposed() {
    let (named, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let env = Environment::from_iter([("HOME".to_owned(), home.path().display().to_string())]);
    let folders = UserFolders::new(&env);
    let of_server = TrustStore::find(Some(named.path().to_owned()), &env, &folders);
    of_server.expose(Path::new("/b")).unwrap();
    assert!(TrustStore::find(None, &env, &folders).is_exposed(Path::new("/b")));
    assert!(TrustStore::at(named.path()).is_exposed(Path::new("/b")), "and so does one with another home");
}

#[test]
fn a_record_that_is_broken_or_of_another_path_vouches_for_nothing() {
    let data = tempfile::tempdir().unwrap();
    let store = TrustStore::at(data.path());
    let (file, other) = (Path::new("/a"), Path::new("/b"));
    store.trust_config(file, "a = 1").unwrap();
    let record = |path: &Path| record_path(&data.path().join(STORE_FOLDER), RecordKind::Config, path);
    fs::copy(record(file), record(other)).unwrap();
    assert_eq!(store.config(other), None);
    fs::write(record(file), "{").unwrap();
    assert_eq!(store.config(file), None);
}

#[test]
fn the_newer_record_of_two_stores_counts() {
    let (named, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let env = Environment::from_iter([("HOME".to_owned(), home.path().display().to_string())]);
    let folders = UserFolders::new(&env);
    let (both, second) =
        (TrustStore::find(Some(named.path().to_owned()), &env, &folders), TrustStore::find(None, &env, &folders));
    let file = Path::new("/a/patchboard.toml");
    both.trust_config(file, "a = 1").unwrap();
    second.trust_config(file, "a = 2").unwrap();
    assert_eq!(both.config(file).as_deref(), Some("a = 2"), "trusted later, without the flag");
    both.trust_config(file, "a = 1").unwrap();
    assert_eq!(second.config(file).as_deref(), Some("a = 1"));
    both.trust_file(file, &stamp(home.path())).unwrap();
    second.forget_file(file).unwrap();
    assert_eq!(both.file(file), None, "that nothing is trusted is newer");
    both.trust_file(file, &stamp(home.path())).unwrap();
    assert_eq!(second.file(file), Some(stamp(home.path())));
}

#[test]
fn a_path_is_read_back_from_what_is_shown() {
    use std::os::unix::ffi::OsStrExt;
    for bytes in [&b"/plain/path"[..], b"/tab\t/quote'\"\\x41/\xff\x00\n\r", "/\u{e4}".as_bytes()] {
        let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
        assert_eq!(unescape_path(&escape_path(path)).as_deref(), Some(path));
    }
}

#[test]
fn what_cannot_be_looked_at_counts_as_exposed() {
    let data = tempfile::tempdir().unwrap();
    let store = TrustStore::at(data.path());
    assert!(!store.is_exposed(Path::new("/a")), "there is no record at all");
    fs::create_dir(data.path().join("trust")).unwrap();
    fs::write(data.path().join("trust/exposed"), "no folder").unwrap();
    assert!(store.is_exposed(Path::new("/a")));
    assert!(!store.has_exposure(Path::new("/a")), "nor is it on record");
    assert!(store.expose(Path::new("/a")).is_err());
    fs::write(data.path().join("trust/held"), "no folder").unwrap();
    assert!(store.was_replaced_while_held(Path::new("/a")));
}
