//! From the working folder to what a path names, one entry at a time.
//!
//! Only two descriptors are open at any moment: the working folder's and the current directory's. Going up starts again
//! from the working folder by the names of the real directories passed, so `..` never asks the kernel where "up" is.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::protected::Snapshot;
use super::refusal::PathError;
use super::spot::{EntryKind, Spot, StepError};
use super::{Folder, Found, WorkFolder};
use crate::words::quoted;

/// Longer paths are refused unread; the kernel would refuse them too.
const MAX_PATH_BYTES: usize = 4096;
/// A path of more steps, counting those of symlinks and repeated ones, is given up.
const MAX_STEPS: usize = 512;
/// As many as the kernel follows.
const MAX_SYMLINKS: usize = 40;

pub(super) struct Walk<'a> {
    folder: &'a WorkFolder,
    snapshot: Arc<Snapshot>,
    asked: &'a str,
    here: Arc<Spot>,
    /// Names of the real directories from the working folder to `here`.
    trail: Vec<OsString>,
    ahead: VecDeque<Step>,
    symlinks: usize,
}

enum Step {
    Up,
    To(OsString),
}

impl<'a> Walk<'a> {
    pub(super) fn new(folder: &'a WorkFolder, snapshot: Arc<Snapshot>, asked: &'a str) -> Result<Self, PathError> {
        if asked.is_empty() {
            return Err(PathError::Empty);
        }
        if asked.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong { limit: MAX_PATH_BYTES });
        }
        if asked.contains('\0') {
            return Err(PathError::Nul);
        }
        let (here, ahead) = (folder.root.clone(), VecDeque::new());
        let mut walk = Self { folder, snapshot, asked, here, trail: Vec::new(), ahead, symlinks: 0 };
        walk.plan(Path::new(asked))?;
        Ok(walk)
    }

    pub(super) fn find(mut self) -> Result<Found, PathError> {
        if self.snapshot.holds(self.here.identity()) {
            return Err(PathError::Protected { path: quoted(self.asked) });
        }
        for _ in 0..MAX_STEPS {
            let found = match self.ahead.pop_front() {
                None => return Ok(Found::Folder(Folder { spot: self.here, snapshot: self.snapshot })),
                Some(Step::Up) => self.up().map(|()| None),
                Some(Step::To(name)) => self.to(name),
            };
            if let Some(found) = found? {
                return Ok(found);
            }
        }
        Err(PathError::TooManySteps { path: quoted(self.asked) })
    }

    fn up(&mut self) -> Result<(), PathError> {
        self.trail.pop().ok_or_else(|| self.outside())?;
        for name in std::mem::take(&mut self.trail).into_iter().rev() {
            self.ahead.push_front(Step::To(name));
        }
        self.here = self.folder.root.clone();
        Ok(())
    }

    fn to(&mut self, name: OsString) -> Result<Option<Found>, PathError> {
        match self.step(&name) {
            Ok(Stepped::Into(spot)) => {
                self.here = Arc::new(spot);
                self.trail.push(name);
                Ok(None)
            }
            Ok(Stepped::Symlink(target)) => self.follow(&target).map(|()| None),
            Ok(Stepped::Reached(found)) => Ok(Some(found)),
            Ok(Stepped::Blocked) => Err(PathError::NotAFolder { path: quoted(self.trail_to(&name)) }),
            Err(StepError::Changed) => {
                // Looking again counts as a step, so whoever keeps swapping the entry only ends the walk.
                self.ahead.push_front(Step::To(name));
                Ok(None)
            }
            Err(other) => Err(other.told(self.trail_to(&name))),
        }
    }

    fn step(&self, name: &OsString) -> Result<Stepped, StepError> {
        Ok(match self.here.kind(name)? {
            EntryKind::Folder => Stepped::Into(self.here.enter(name, &self.snapshot)?),
            EntryKind::Symlink => Stepped::Symlink(self.here.read_link(name)?),
            EntryKind::File if self.ahead.is_empty() => {
                Stepped::Reached(Found::File(self.here.open_file(name, &self.snapshot)?))
            }
            EntryKind::File => Stepped::Blocked,
            EntryKind::Special(kind) => return Err(StepError::Special(kind)),
        })
    }

    fn follow(&mut self, target: &Path) -> Result<(), PathError> {
        self.symlinks += 1;
        if self.symlinks > MAX_SYMLINKS {
            return Err(PathError::TooManySteps { path: quoted(self.asked) });
        }
        self.plan(target)
    }

    /// Puts the steps of `path` before those still ahead.
    fn plan(&mut self, path: &Path) -> Result<(), PathError> {
        let beneath = if path.is_absolute() {
            self.here = self.folder.root.clone();
            self.trail.clear();
            path.strip_prefix(&self.folder.path).map_err(|_| self.outside())?
        } else {
            path
        };
        for component in beneath.components().rev() {
            let step = match component {
                Component::Normal(name) => Step::To(name.to_owned()),
                Component::ParentDir => Step::Up,
                Component::CurDir => continue,
                Component::RootDir | Component::Prefix(_) => return Err(self.outside()),
            };
            self.ahead.push_front(step);
        }
        Ok(())
    }

    fn outside(&self) -> PathError {
        PathError::Outside { path: quoted(self.asked) }
    }

    fn trail_to(&self, name: &OsString) -> PathBuf {
        self.trail.iter().chain([name]).collect()
    }
}

enum Stepped {
    Into(Spot),
    Symlink(PathBuf),
    Reached(Found),
    /// A file stands where the path goes on.
    Blocked,
}
