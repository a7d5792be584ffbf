use super::*;
use crate::trust::fingerprint::{FileFingerprint, FolderFingerprint};

#[test]
fn every_path_is_known_and_new_ones_are_seen() {
    let data = tempfile::tempdir().unwrap();
    let store = TrustStore::at(data.path());
    let mut known = TrustedPathIndex::default();
    assert_eq!(known.current_paths(&store), TrustedPaths::default());
    let path = |name: &str| PathBuf::from(format!("/a/{name}"));
    store.trust_config(&path("patchboard.toml"), "a = 1").unwrap();
    store.trust_file(&path("p.wasm"), &FileFingerprint::of(data.path()).unwrap()).unwrap();
    store.trust_folder(&path("scripts"), &FolderFingerprint::default()).unwrap();
    store.expose(&path("exposed")).unwrap();
    let mut expected = TrustedPaths {
        configs: [path("patchboard.toml")].into(),
        files: [path("p.wasm")].into(),
        folders: [path("scripts")].into(),
    };
    assert_eq!(known.current_paths(&store), expected);
    store.trust_config(&path("b/patchboard.toml"), "b = 1").unwrap();
    expected.configs.insert(path("b/patchboard.toml"));
    assert_eq!(known.current_paths(&store), expected, "a moment later");
}
