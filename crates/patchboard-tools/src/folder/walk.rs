//! From the working folder to what a path names, one entry at a time.
//!
//! Only two descriptors are open at any moment: the working folder's and the current directory's. Going up starts again
//! from the working folder by the names of the real directories passed, so `..` never asks the kernel where "up" is.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::place::Place;
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
                None => {
                    return Ok(Found::Folder(Folder { spot: self.here, trail: self.trail, snapshot: self.snapshot }));
                }
                Some(Step::Up) => self.up().map(|()| None),
                Some(Step::To(name)) => self.to(name),
            };
            if let Some(found) = found? {
                return Ok(found);
            }
        }
        Err(PathError::TooManySteps { path: quoted(self.asked) })
    }

    /// Where the path leads, for whoever is going to change what is there: nothing need be there yet.
    pub(super) fn aim(mut self, last: LastSymlink) -> Result<Aim, PathError> {
        if self.snapshot.holds(self.here.identity()) {
            return Err(PathError::Protected { path: quoted(self.asked) });
        }
        for _ in 0..MAX_STEPS {
            let aimed = match self.ahead.pop_front() {
                None => return Ok(Aim::Nameless),
                Some(Step::Up) => self.up().map(|()| None),
                Some(Step::To(name)) => self.aim_at(name, last),
            };
            if let Some(place) = aimed? {
                return Ok(Aim::Place(place));
            }
        }
        Err(PathError::TooManySteps { path: quoted(self.asked) })
    }

    fn aim_at(&mut self, name: OsString, last: LastSymlink) -> Result<Option<Place>, PathError> {
        let path = self.trail_to(&name);
        let is_last = self.ahead.is_empty();
        let kind = match self.here.kind(&name) {
            _ if self.snapshot.names(self.here.identity(), &name) => Err(StepError::Protected),
            Ok(kind) if is_last && (kind != EntryKind::Symlink || last == LastSymlink::Meant) => Ok(Some(kind)),
            Ok(_) => {
                if self.to(name.clone())?.is_some() {
                    // No longer a symlink but a file: look again.
                    self.ahead.push_front(Step::To(name));
                }
                return Ok(None);
            }
            Err(StepError::Os(Errno::NOENT)) => Ok(None),
            Err(other) => Err(other),
        };
        let kind = kind.map_err(|error| error.told(&path))?;
        // Making directories only to leave them by `..` again is nobody's wish.
        let mut names = vec![name];
        for step in self.ahead.drain(..) {
            match step {
                Step::To(name) => names.push(name),
                Step::Up => return Err(PathError::Missing { path: quoted(&path) }),
            }
        }
        let path = self.trail.iter().chain(&names).collect();
        let place = Place::new(self.here.clone(), names, path, kind, self.snapshot.clone());
        place.judged().map(Some)
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

/// What a walk does at a symlink at the end of the path. On the way symlinks are always followed, inside the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastSymlink {
    Followed,
    /// It is what the path names.
    Meant,
}

/// Where a path leads.
#[derive(Debug)]
pub(crate) enum Aim {
    Place(Place),
    /// A folder that exists, reached by `.` or `..` and not by its own name.
    Nameless,
}

enum Stepped {
    Into(Spot),
    Symlink(PathBuf),
    Reached(Found),
    /// A file stands where the path goes on.
    Blocked,
}
