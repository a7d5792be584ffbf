//! Whether a process of the server could have changed a file or folder.
//!
//! An exposed folder is recorded by its path as written and by its real path. If the folder's parent is moved, the
//! folder is not recognised under its new path.

use std::path::{Path, PathBuf};

use super::TrustStore;
use super::path_resolution::PathResolution;

/// The folders whose exposure affects a file: its parent by name, the parent of its target, and those of the symlinks
/// between.
pub(crate) fn exposure_keys(path: &Path) -> Vec<PathBuf> {
    let trail = PathResolution::of(path);
    sorted_unique([path.parent(), trail.target.parent()].into_iter().flatten().chain(trail.detour_folders()))
}

/// The same for a folder, which is itself among the keys.
pub(crate) fn folder_keys(folder: &Path) -> Vec<PathBuf> {
    let trail = PathResolution::of(folder);
    sorted_unique([folder, trail.target.as_path()].into_iter().chain(trail.detour_folders()))
}

fn sorted_unique<'a>(folders: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let mut keys: Vec<PathBuf> = folders.map(Path::to_owned).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// True if a key folder is exposed, or if the file was replaced while a process ran that could then write to it.
pub(crate) fn is_exposed(store: &TrustStore, path: &Path) -> bool {
    exposure_keys(path).iter().any(|folder| store.is_exposed(folder))
        || PathResolution::of(path).visited_paths().any(|name| store.was_replaced_while_held(name))
}

pub(crate) fn is_folder_exposed(store: &TrustStore, folder: &Path) -> bool {
    folder_keys(folder).iter().any(|key| store.is_exposed(key))
}
