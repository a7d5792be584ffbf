//! Descends from the file system's root to a folder, one real directory at a time.
//!
//! A canonical path contains no symlinks, so none is followed: if one has replaced a directory, the descent fails. Each
//! directory is identified after it was opened, which also determines reliably whether a folder lies beneath another.

use std::path::{Component, Path};

use super::dir::{DirHandle, StepError};
use super::protected::{FileIdentity, ProtectedSnapshot};

#[derive(Debug)]
pub(crate) struct DirResolution {
    /// The directories entered, including the last one if it was reached.
    pub(crate) passed: Vec<FileIdentity>,
    pub(crate) reached: Result<DirHandle, StepError>,
}

impl DirResolution {
    pub(crate) fn resolve(canonical: &Path, snapshot: &ProtectedSnapshot) -> Self {
        let mut passed = Vec::new();
        let reached = enter_components(canonical, snapshot, &mut passed);
        Self { passed, reached }
    }
}

fn enter_components(
    canonical: &Path,
    snapshot: &ProtectedSnapshot,
    passed: &mut Vec<FileIdentity>,
) -> Result<DirHandle, StepError> {
    let mut dir = DirHandle::filesystem_root()?;
    if snapshot.contains(dir.identity()) {
        return Err(StepError::Protected);
    }
    passed.push(dir.identity());
    for component in canonical.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => dir = dir.enter(name, snapshot)?,
            Component::Prefix(_) | Component::CurDir | Component::ParentDir => return Err(StepError::Changed),
        }
        passed.push(dir.identity());
    }
    Ok(dir)
}
