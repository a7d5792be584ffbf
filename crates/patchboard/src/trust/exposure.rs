//! Is a file or folder one that something the server ran could have changed?
//!
//! An exposed folder is on record by its path: as it was spelled, and its real one. A folder whose parent is moved away is
//! therefore not known again under its new path.

use std::path::{Path, PathBuf};

use super::TrustStore;
use super::trail::Trail;

/// Folders whose exposure concerns a file: its own by name, that of what it leads to, and those of the links between.
pub(crate) fn exposure_keys(path: &Path) -> Vec<PathBuf> {
    let trail = Trail::of(path);
    keys([path.parent(), trail.end.parent()].into_iter().flatten().chain(trail.detours()))
}

/// The same for what is itself a folder.
pub(crate) fn folder_keys(folder: &Path) -> Vec<PathBuf> {
    let trail = Trail::of(folder);
    keys([folder, trail.end.as_path()].into_iter().chain(trail.detours()))
}

fn keys<'a>(folders: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let mut keys: Vec<PathBuf> = folders.map(Path::to_owned).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Its folder is exposed, or it was replaced while a process ran that could then write to it.
pub(crate) fn is_exposed(store: &TrustStore, path: &Path) -> bool {
    exposure_keys(path).iter().any(|folder| store.is_exposed(folder))
        || Trail::of(path).names().any(|name| store.has_lost_hold(name))
}

pub(crate) fn is_folder_exposed(store: &TrustStore, folder: &Path) -> bool {
    folder_keys(folder).iter().any(|key| store.is_exposed(key))
}
