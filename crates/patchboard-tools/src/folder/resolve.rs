//! From the root of the file system down to a folder, one real directory at a time.
//!
//! A canonical path holds no symlinks, so none is followed: should one have taken a directory's place, the descent ends.
//! Every directory passed is judged as what was opened, which is also how a folder is found to lie beneath another.

use std::path::{Component, Path};

use super::dir::{DirHandle, StepError};
use super::protected::{FileIdentity, ProtectedSnapshot};

#[derive(Debug)]
pub(crate) struct DirResolution {
    /// The directories passed, the last one included when it was reached.
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
    let mut spot = DirHandle::filesystem_root()?;
    if snapshot.contains(spot.identity()) {
        return Err(StepError::Protected);
    }
    passed.push(spot.identity());
    for component in canonical.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => spot = spot.enter(name, snapshot)?,
            Component::Prefix(_) | Component::CurDir | Component::ParentDir => return Err(StepError::Changed),
        }
        passed.push(spot.identity());
    }
    Ok(spot)
}
