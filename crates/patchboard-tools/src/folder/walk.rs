//! Resolves a path from the working folder, one component at a time.
//!
//! Only two descriptors are open at any moment: the working folder's and the current directory's. `..` restarts from
//! the working folder along the names of the real directories entered, so the kernel is never asked for a parent
//! directory.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::dir::{DirHandle, EntryKind, StepError};
use super::path_error::PathError;
use super::protected::ProtectedSnapshot;
use super::target::PathTarget;
use super::{OpenFolder, OpenedPath, WorkFolder};
use crate::text::quoted;

/// Longer paths are refused unread; the kernel would refuse them too.
const MAX_PATH_BYTES: usize = 4096;
/// Limit on steps, including those of symlinks and repeated ones.
const MAX_STEPS: usize = 512;
/// The kernel's own limit.
const MAX_SYMLINKS: usize = 40;

pub(super) struct PathWalker<'a> {
    folder: &'a WorkFolder,
    snapshot: Arc<ProtectedSnapshot>,
    requested: &'a str,
    current: Arc<DirHandle>,
    /// Names of the real directories from the working folder to `current`.
    trail: Vec<OsString>,
    pending: VecDeque<PathStep>,
    symlinks: usize,
}

enum PathStep {
    Up,
    Enter(OsString),
}

impl<'a> PathWalker<'a> {
    pub(super) fn new(
        folder: &'a WorkFolder,
        snapshot: Arc<ProtectedSnapshot>,
        requested: &'a str,
    ) -> Result<Self, PathError> {
        if requested.is_empty() {
            return Err(PathError::Empty);
        }
        if requested.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong { limit: MAX_PATH_BYTES });
        }
        if requested.contains('\0') {
            return Err(PathError::Nul);
        }
        let (current, pending) = (folder.root.clone(), VecDeque::new());
        let mut walker = Self { folder, snapshot, requested, current, trail: Vec::new(), pending, symlinks: 0 };
        walker.push_steps(Path::new(requested))?;
        Ok(walker)
    }

    pub(super) fn open_path(mut self) -> Result<OpenedPath, PathError> {
        if self.snapshot.contains(self.current.identity()) {
            return Err(PathError::Protected { path: quoted(self.requested) });
        }
        for _ in 0..MAX_STEPS {
            let found = match self.pending.pop_front() {
                None => {
                    return Ok(OpenedPath::Folder(OpenFolder {
                        dir: self.current,
                        trail: self.trail,
                        snapshot: self.snapshot,
                    }));
                }
                Some(PathStep::Up) => self.up().map(|()| None),
                Some(PathStep::Enter(name)) => self.enter_step(name),
            };
            if let Some(found) = found? {
                return Ok(found);
            }
        }
        Err(PathError::TooManySteps { path: quoted(self.requested) })
    }

    /// Resolves the path as the target of a change: neither the entry nor its parents need to exist.
    pub(super) fn resolve_target(mut self, last: LastSymlink) -> Result<TargetLookup, PathError> {
        if self.snapshot.contains(self.current.identity()) {
            return Err(PathError::Protected { path: quoted(self.requested) });
        }
        for _ in 0..MAX_STEPS {
            let result = match self.pending.pop_front() {
                None => return Ok(TargetLookup::Unnamed),
                Some(PathStep::Up) => self.up().map(|()| None),
                Some(PathStep::Enter(name)) => self.resolve_step(name, last),
            };
            if let Some(target) = result? {
                return Ok(TargetLookup::Target(target));
            }
        }
        Err(PathError::TooManySteps { path: quoted(self.requested) })
    }

    fn resolve_step(&mut self, name: OsString, last: LastSymlink) -> Result<Option<PathTarget>, PathError> {
        let path = self.path_of(&name);
        let is_last = self.pending.is_empty();
        let kind = match self.current.kind(&name) {
            _ if self.snapshot.contains_name(self.current.identity(), &name) => Err(StepError::Protected),
            Ok(kind) if is_last && (kind != EntryKind::Symlink || last == LastSymlink::NotFollowed) => Ok(Some(kind)),
            Ok(_) => {
                if self.enter_step(name.clone())?.is_some() {
                    // No longer a symlink but a file: look again.
                    self.pending.push_front(PathStep::Enter(name));
                }
                return Ok(None);
            }
            Err(StepError::Os(Errno::NOENT)) => Ok(None),
            Err(other) => Err(other),
        };
        let kind = kind.map_err(|error| error.into_path_error(&path))?;
        // A path must not create directories only to leave them through `..`.
        let mut names = vec![name];
        for step in self.pending.drain(..) {
            match step {
                PathStep::Enter(name) => names.push(name),
                PathStep::Up => return Err(PathError::Missing { path: quoted(&path) }),
            }
        }
        let path = self.trail.iter().chain(&names).collect();
        let target = PathTarget::new(self.current.clone(), names, path, kind, self.snapshot.clone());
        target.check_protected().map(Some)
    }

    fn up(&mut self) -> Result<(), PathError> {
        self.trail.pop().ok_or_else(|| self.outside())?;
        for name in std::mem::take(&mut self.trail).into_iter().rev() {
            self.pending.push_front(PathStep::Enter(name));
        }
        self.current = self.folder.root.clone();
        Ok(())
    }

    fn enter_step(&mut self, name: OsString) -> Result<Option<OpenedPath>, PathError> {
        match self.step(&name) {
            Ok(StepOutcome::Into(dir)) => {
                self.current = Arc::new(dir);
                self.trail.push(name);
                Ok(None)
            }
            Ok(StepOutcome::Symlink(target)) => self.follow(&target).map(|()| None),
            Ok(StepOutcome::Reached(found)) => Ok(Some(found)),
            Ok(StepOutcome::Blocked) => Err(PathError::NotAFolder { path: quoted(self.path_of(&name)) }),
            Err(StepError::Changed) => {
                // Looking again counts as a step, so an entry that keeps changing only ends the walk.
                self.pending.push_front(PathStep::Enter(name));
                Ok(None)
            }
            Err(other) => Err(other.into_path_error(self.path_of(&name))),
        }
    }

    fn step(&self, name: &OsString) -> Result<StepOutcome, StepError> {
        Ok(match self.current.kind(name)? {
            EntryKind::Folder => StepOutcome::Into(self.current.enter(name, &self.snapshot)?),
            EntryKind::Symlink => StepOutcome::Symlink(self.current.read_link(name)?),
            EntryKind::File if self.pending.is_empty() => {
                StepOutcome::Reached(OpenedPath::File(self.current.open_file(name, &self.snapshot)?))
            }
            EntryKind::File => StepOutcome::Blocked,
            EntryKind::Special(kind) => return Err(StepError::Special(kind)),
        })
    }

    fn follow(&mut self, target: &Path) -> Result<(), PathError> {
        self.symlinks += 1;
        if self.symlinks > MAX_SYMLINKS {
            return Err(PathError::TooManySteps { path: quoted(self.requested) });
        }
        self.push_steps(target)
    }

    /// Puts the steps of `path` before the pending ones.
    fn push_steps(&mut self, path: &Path) -> Result<(), PathError> {
        let beneath = if path.is_absolute() {
            self.current = self.folder.root.clone();
            self.trail.clear();
            path.strip_prefix(&self.folder.path).map_err(|_| self.outside())?
        } else {
            path
        };
        for component in beneath.components().rev() {
            let step = match component {
                Component::Normal(name) => PathStep::Enter(name.to_owned()),
                Component::ParentDir => PathStep::Up,
                Component::CurDir => continue,
                Component::RootDir | Component::Prefix(_) => return Err(self.outside()),
            };
            self.pending.push_front(step);
        }
        Ok(())
    }

    fn outside(&self) -> PathError {
        PathError::Outside { path: quoted(self.requested) }
    }

    fn path_of(&self, name: &OsString) -> PathBuf {
        self.trail.iter().chain([name]).collect()
    }
}

/// How the walk treats a symlink at the end of the path. Other symlinks are always followed, inside the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastSymlink {
    Followed,
    /// The symlink itself is the target.
    NotFollowed,
}

/// Result of resolving a path.
#[derive(Debug)]
pub(crate) enum TargetLookup {
    Target(PathTarget),
    /// An existing folder reached through `.` or `..`, not by its own name.
    Unnamed,
}

enum StepOutcome {
    Into(DirHandle),
    Symlink(PathBuf),
    Reached(OpenedPath),
    /// A file stands where the path continues.
    Blocked,
}
