use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret, SecretString};
use tempfile::TempDir;

use super::{CredentialError, CredentialStore, PendingFile};

fn store() -> (TempDir, CredentialStore) {
    let folder = TempDir::new().unwrap();
    let store = CredentialStore::new(folder.path().join("config/credentials"));
    (folder, store)
}

fn write(store: &CredentialStore, provider: &str, key: &str) -> Result<PathBuf, CredentialError> {
    store.prepare(provider, &SecretString::from(key))?.commit()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

fn read(store: &CredentialStore, provider: &str) -> Option<String> {
    store.read(provider).map(|key| key.expose_secret().to_owned())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn keys_are_private_and_come_back() {
    let (folder, store) = store();
    let path = write(&store, "anthropic", " sk-1 \n").unwrap();
    assert_eq!(path, folder.path().join("config/credentials/anthropic.key"));
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&folder.path().join("config")), 0o700);
    assert_eq!(read(&store, "anthropic").as_deref(), Some("sk-1"));
    write(&store, "anthropic", "sk-2").unwrap();
    assert_eq!(read(&store, "anthropic").as_deref(), Some("sk-2"));
    assert_eq!(names(path.parent().unwrap()), ["anthropic.key"]);
}

#[test]
fn an_open_folder_is_closed_and_an_open_file_replaced() {
    let (folder, store) = store();
    let credentials = folder.path().join("config/credentials");
    fs::create_dir_all(&credentials).unwrap();
    fs::set_permissions(&credentials, fs::Permissions::from_mode(0o755)).unwrap();
    let path = credentials.join("openai.key");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    write(&store, "openai", "new").unwrap();
    assert_eq!((mode(&credentials), mode(&path)), (0o700, 0o600));
}

#[test]
fn a_link_in_place_of_the_file_is_replaced_not_followed() {
    let (folder, store) = store();
    let credentials = folder.path().join("config/credentials");
    fs::create_dir_all(&credentials).unwrap();
    let elsewhere = folder.path().join("elsewhere");
    fs::write(&elsewhere, "untouched").unwrap();
    symlink(&elsewhere, credentials.join("openai.key")).unwrap();
    write(&store, "openai", "key").unwrap();
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "untouched");
    assert_eq!(read(&store, "openai").as_deref(), Some("key"));
}

#[test]
fn a_planted_temporary_file_is_not_written_to() {
    let (folder, store) = store();
    let credentials = folder.path().join("config/credentials");
    fs::create_dir_all(&credentials).unwrap();
    let elsewhere = folder.path().join("elsewhere");
    fs::write(&elsewhere, "untouched").unwrap();
    let planted = credentials.join(format!(".openai.key.{}-0", std::process::id()));
    symlink(&elsewhere, &planted).unwrap();
    write(&store, "openai", "key").unwrap();
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "untouched");
    assert_eq!(read(&store, "openai").as_deref(), Some("key"));
}

#[test]
fn names_cannot_leave_the_folder() {
    let (folder, store) = store();
    for name in ["", "..", "../x", "a/b", "/etc/passwd", "a.b", ".hidden", "-x", "a b", "ä", &"x".repeat(65), "a\0b"] {
        assert_eq!(store.path(name), None, "{name}");
        assert!(matches!(write(&store, name, "k"), Err(CredentialError::BadName(_))), "{name}");
        assert!(store.read(name).is_none());
    }
    assert!(names(folder.path()).is_empty());
}

#[test]
fn bad_keys_are_refused_before_anything_is_written() {
    let (folder, store) = store();
    for key in ["", " ", "\n\t"] {
        assert!(matches!(write(&store, "openai", key), Err(CredentialError::EmptyKey)));
    }
    for key in ["two words", "line\nbreak", "schlüssel", "\u{feff}sk", "a\0b"] {
        assert!(matches!(write(&store, "openai", key), Err(CredentialError::BadKey)), "{key}");
    }
    assert!(names(folder.path()).is_empty());
}

#[test]
fn unusable_files_count_as_missing() {
    let (folder, store) = store();
    let credentials = folder.path().join("config/credentials");
    assert!(store.read("openai").is_none());
    fs::create_dir_all(credentials.join("folder.key")).unwrap();
    for (name, bytes) in [("empty", &b" \n"[..]), ("binary", &[0xff, 0xfe]), ("words", b"not a key"), ("nul", b"a\0b")]
    {
        fs::write(credentials.join(format!("{name}.key")), bytes).unwrap();
        assert!(store.read(name).is_none(), "{name}");
    }
    assert!(store.read("folder").is_none());
    fs::write(credentials.join("large.key"), "x".repeat(64 * 1024 + 1)).unwrap();
    assert!(store.read("large").is_none());
}

#[test]
fn a_dropped_file_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let target = folder.path().join("file");
    fs::write(&target, "old").unwrap();
    let pending = PendingFile::write(&target, b"new", 0o600).unwrap();
    assert_eq!(names(folder.path()).len(), 2);
    drop(pending);
    assert_eq!(names(folder.path()), ["file"]);
    assert_eq!(fs::read_to_string(&target).unwrap(), "old");
    let committed = PendingFile::write(&target, b"new", 0o640).unwrap().commit().unwrap();
    assert_eq!(committed, target);
    assert_eq!((fs::read_to_string(&target).unwrap().as_str(), names(folder.path()).len()), ("new", 1));
}

#[test]
fn errors_name_the_place_and_not_the_key() {
    let folder = TempDir::new().unwrap();
    let blocked = folder.path().join("file");
    fs::write(&blocked, "").unwrap();
    let store = CredentialStore::new(blocked.join("credentials"));
    let error = write(&store, "openai", "hunter2").unwrap_err();
    assert!(matches!(error, CredentialError::Folder { .. }));
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    let error = PendingFile::write(&folder.path().join("no/such/folder"), b"hunter2", 0o600).unwrap_err();
    assert!(error.to_string().starts_with("cannot write"), "{error}");
}
