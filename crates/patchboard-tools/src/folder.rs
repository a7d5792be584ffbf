//! The folder that file tools work in.
//!
//! It is opened once; everything in it is reached from that descriptor, one name at a time, and what was opened is
//! what gets judged. Nothing is decided by comparing path strings, and nothing is checked first and opened later.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

mod descent;
mod place;
mod protected;
mod refusal;
mod spot;
mod walk;

pub(crate) use descent::Descent;
pub(crate) use place::{Place, Staged};
use protected::Snapshot;
pub(crate) use protected::{Identity, Protected};
pub(crate) use refusal::PathError;
pub(crate) use spot::{Entry, EntryKind, Over};
use spot::{Spot, StepError};
use walk::Walk;
pub(crate) use walk::{Aim, LastSymlink};

/// A folder tools may work in, and what in it they may not touch.
///
/// Paths are relative to the folder. An absolute path, and the target of an absolute symlink, is accepted when it
/// begins with the folder's own path; the rest is then walked like any other, so spelling a path that way opens nothing
/// that the relative path would not.
#[derive(Debug)]
pub struct WorkFolder {
    path: PathBuf,
    root: Arc<Spot>,
    protected: Arc<Protected>,
}

/// Why a folder cannot be worked in.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open working folder: {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("working folder lies inside a protected directory: {}", path.display())]
    Protected { path: PathBuf },
    #[error("working folder lies outside the allowed roots: {}", path.display())]
    Outside { path: PathBuf },
    #[error("cannot inspect protected path: {}", path.display())]
    Inspect { path: PathBuf, source: io::Error },
}

/// What a path led to, already open.
#[derive(Debug)]
pub(crate) enum Found {
    File(File),
    Folder(Folder),
}

/// An open folder beneath the working folder.
#[derive(Debug)]
pub(crate) struct Folder {
    spot: Arc<Spot>,
    trail: Vec<OsString>,
    snapshot: Arc<Snapshot>,
}

impl WorkFolder {
    /// Opens the folder. `protected` names directories and files that stay closed even when they lie in it: the data
    /// directory and key files. They need not exist yet. A folder inside a protected directory is refused here, and so
    /// is a protected path that cannot be inspected: better no tools than tools that might hand out a key.
    pub fn open(path: impl AsRef<Path>, protected: Vec<PathBuf>) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let canonical = path.canonicalize().map_err(failed)?;
        let protected = Protected::new(protected).map_err(failed)?;
        let snapshot = protected.snapshot().map_err(|(path, source)| Error::Inspect { path, source })?;
        Self::reached(&canonical, Descent::to(&canonical, &snapshot).reached, Arc::new(protected))
    }

    /// The folder that a descent led to.
    pub(crate) fn reached(
        path: &Path,
        reached: Result<Spot, StepError>,
        protected: Arc<Protected>,
    ) -> Result<Self, Error> {
        let path = path.to_owned();
        match reached {
            Ok(spot) => Ok(Self { path, root: Arc::new(spot), protected }),
            Err(StepError::Protected) => Err(Error::Protected { path }),
            Err(StepError::Os(error)) => Err(Error::Open { path, source: error.into() }),
            Err(StepError::Changed | StepError::Special(_)) => {
                Err(Error::Open { path, source: io::ErrorKind::NotADirectory.into() })
            }
        }
    }

    /// Where the folder was when it was opened; for prompts and messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens what `path` names. Symlinks are followed as long as they stay in the folder.
    pub(crate) fn find(&self, path: &str) -> Result<Found, PathError> {
        Walk::new(self, self.snapshot()?, path)?.find()
    }

    /// Where `path` leads, to change what is there. Nothing need be there yet, nor the folders on the way.
    pub(crate) fn aim(&self, path: &str, last: LastSymlink) -> Result<Aim, PathError> {
        Walk::new(self, self.snapshot()?, path)?.aim(last)
    }

    /// What may be neither moved nor deleted, because protected paths lie beneath it.
    pub(crate) fn holders(&self) -> Result<HashSet<Identity>, PathError> {
        self.protected.holders().map_err(unsure)
    }

    fn snapshot(&self) -> Result<Arc<Snapshot>, PathError> {
        self.protected.snapshot().map(Arc::new).map_err(unsure)
    }
}

impl Folder {
    /// Entries in the order the file system has them.
    pub(crate) fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<Entry>>> {
        self.spot.entries()
    }

    /// The folder at the end of `names`, each a real directory: a symlink on the way is an error, never followed.
    pub(crate) fn descend<N: AsRef<OsStr>>(&self, names: &[N]) -> Result<Folder, PathError> {
        let mut spot = self.spot.clone();
        for name in names {
            spot = Arc::new(spot.enter(name.as_ref(), &self.snapshot).map_err(|step| step.told(name.as_ref()))?);
        }
        let names = names.iter().map(|name| name.as_ref().to_owned());
        let trail = self.trail.iter().cloned().chain(names).collect();
        Ok(Folder { spot, trail, snapshot: self.snapshot.clone() })
    }

    /// Opens a file right in this folder; a symlink is an error, never followed.
    pub(crate) fn open_file(&self, name: &OsStr) -> Result<File, PathError> {
        self.spot.open_file(name, &self.snapshot).map_err(|step| step.told(name))
    }

    /// When what stands under `name` was last changed.
    pub(crate) fn modified(&self, name: &OsStr) -> Option<SystemTime> {
        self.spot.modified(name).ok()
    }

    /// The names of real directories that lead from the working folder here.
    pub(crate) fn trail(&self) -> &[OsString] {
        &self.trail
    }

    /// Is the entry of this name closed to tools? Says so early, for listings; opening is judged on its own.
    pub(crate) fn is_protected(&self, name: &OsStr) -> bool {
        self.snapshot.names(self.spot.identity(), name)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.spot.as_fd()
    }
}

fn unsure((path, source): (PathBuf, io::Error)) -> PathError {
    tracing::warn!(path = %path.display(), error = %source, "protected path cannot be inspected; file tools are closed");
    PathError::Unsure
}

#[cfg(test)]
mod tests;
