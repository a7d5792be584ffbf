//! From the root of the file system down to a folder, one real directory at a time.
//!
//! A canonical path holds no symlinks, so none is followed: should one have taken a directory's place, the descent ends.
//! Every directory passed is judged as what was opened, which is also how a folder is found to lie beneath another.

use std::path::{Component, Path};

use super::protected::{Identity, Snapshot};
use super::spot::{Spot, StepError};

#[derive(Debug)]
pub(crate) struct Descent {
    /// The directories passed, the last one included when it was reached.
    pub(crate) passed: Vec<Identity>,
    pub(crate) reached: Result<Spot, StepError>,
}

impl Descent {
    pub(crate) fn to(canonical: &Path, snapshot: &Snapshot) -> Self {
        let mut passed = Vec::new();
        let reached = down(canonical, snapshot, &mut passed);
        Self { passed, reached }
    }
}

fn down(canonical: &Path, snapshot: &Snapshot, passed: &mut Vec<Identity>) -> Result<Spot, StepError> {
    let mut spot = Spot::top()?;
    if snapshot.holds(spot.identity()) {
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
