//! Is a file or folder one that something the server ran could have changed?
//!
//! An exposed folder is on record by its path: as it was spelled, and its real one. A folder whose parent is moved away is
//! therefore not known again under its new path.

use std::path::{Path, PathBuf};

use super::TrustStore;
use super::path_resolution::PathResolution;

/// Folders whose exposure concerns a file: its own by name, that of what it leads to, and those of the links between.
pub(crate) fn exposure_keys(path: &Path) -> Vec<PathBuf> {
    let trail = PathResolution::of(path);
    sorted_unique([path.parent(), trail.target.parent()].into_iter().flatten().chain(trail.detour_folders()))
}

/// The same for what is itself a folder.
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

/// Its folder is exposed, or it was replaced while a process ran that could then write to it.
pub(crate) fn is_exposed(store: &TrustStore, path: &Path) -> bool {
    exposure_keys(path).iter().any(|folder| store.is_exposed(folder))
        || PathResolution::of(path).visited_paths().any(|name| store.was_replaced_while_held(name))
}

pub(crate) fn is_folder_exposed(store: &TrustStore, folder: &Path) -> bool {
    folder_keys(folder).iter().any(|key| store.is_exposed(key))
}
