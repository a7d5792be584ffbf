//! The folder that file tools work in.
//!
//! It is opened once; everything in it is reached from that descriptor, one name at a time, and what was opened is
//! what gets judged. Nothing is decided by comparing path strings, and nothing is checked first and opened later.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

mod protected;
mod refusal;
mod spot;
mod walk;

use protected::{Protected, Snapshot};
pub(crate) use refusal::PathError;
pub(crate) use spot::EntryKind;
use spot::{Entry, Spot};
use walk::Walk;

/// A folder tools may work in, and what in it they may not touch.
///
/// Paths are relative to the folder. An absolute path, and the target of an absolute symlink, is accepted when it
/// begins with the folder's own path; the rest is then walked like any other, so spelling a path that way opens nothing
/// that the relative path would not.
#[derive(Debug)]
pub struct WorkFolder {
    path: PathBuf,
    root: Arc<Spot>,
    protected: Protected,
}

/// Why a folder cannot be worked in.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open working folder: {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("working folder lies inside a protected directory: {}", path.display())]
    Protected { path: PathBuf },
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
        let root = Dir::open_ambient_dir(&canonical, ambient_authority()).map_err(failed)?;
        let protected = Protected::new(protected).map_err(failed)?;
        let snapshot = protected.snapshot().map_err(|(path, source)| Error::Inspect { path, source })?;
        let mut above = Spot::new(root.try_clone().map_err(failed)?).map_err(failed)?;
        loop {
            if snapshot.holds(above.identity()) || above.is_kernel_state() {
                return Err(Error::Protected { path: path.to_owned() });
            }
            let parent = above.parent().map_err(failed)?;
            if parent.identity() == above.identity() {
                break;
            }
            above = parent;
        }
        Ok(Self { path: canonical, root: Arc::new(Spot::new(root).map_err(failed)?), protected })
    }

    /// Where the folder was when it was opened; for prompts and messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens what `path` names. Symlinks are followed as long as they stay in the folder.
    pub(crate) fn find(&self, path: &str) -> Result<Found, PathError> {
        let snapshot = self.protected.snapshot().map_err(|(path, source)| {
            tracing::warn!(path = %path.display(), error = %source, "protected path cannot be inspected; file tools are closed");
            PathError::Unsure
        })?;
        Walk::new(self, Arc::new(snapshot), path)?.find()
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
        Ok(Folder { spot, snapshot: self.snapshot.clone() })
    }

    /// Is the entry of this name closed to tools? Says so early, for listings; opening is judged on its own.
    pub(crate) fn is_protected(&self, name: &OsStr) -> bool {
        self.snapshot.names(self.spot.identity(), name)
    }
}

#[cfg(test)]
mod tests;
