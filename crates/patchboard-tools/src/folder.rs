//! The folder that file tools work in.
//!
//! The folder is opened once; everything in it is reached from that descriptor, one path component at a time, and
//! access is decided on the opened file. No decision compares path strings, and nothing is checked before it is opened.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

mod dir;
mod path_error;
mod protected;
mod resolve;
mod target;
mod walk;

use dir::{DirHandle, StepError};
pub(crate) use dir::{EntryKind, FolderEntry, OverwriteMode};
pub(crate) use path_error::PathError;
use protected::ProtectedSnapshot;
pub(crate) use protected::{FileIdentity, ProtectedPaths};
pub(crate) use resolve::DirResolution;
pub(crate) use target::{PathTarget, StagedFile};
use walk::PathWalker;
pub(crate) use walk::{LastSymlink, TargetLookup};

/// A folder that tools may work in, and the protected paths in it.
///
/// Paths are relative to the folder. An absolute path, and the target of an absolute symlink, is accepted if it begins
/// with the folder's own path; the rest is then walked like any other path, so the absolute spelling opens nothing that
/// the relative path would not.
#[derive(Debug)]
pub struct WorkFolder {
    path: PathBuf,
    root: Arc<DirHandle>,
    protected: Arc<ProtectedPaths>,
}

/// Why a folder cannot be used.
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

/// The opened target of a path.
#[derive(Debug)]
pub(crate) enum OpenedPath {
    File(File),
    Folder(OpenFolder),
}

/// An open folder beneath the working folder.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    dir: Arc<DirHandle>,
    trail: Vec<OsString>,
    snapshot: Arc<ProtectedSnapshot>,
}

impl WorkFolder {
    /// Opens the folder. `protected` lists directories and files that stay closed even if they lie in it: the data
    /// directory and key files. They need not exist yet. Fails for a folder inside a protected directory, and if a
    /// protected path cannot be inspected: it is safer to offer no tools than tools that might expose a key.
    pub fn open(path: impl AsRef<Path>, protected: Vec<PathBuf>) -> Result<Self, Error> {
        let path = path.as_ref();
        let open_error = |source| Error::Open { path: path.to_owned(), source };
        let canonical = path.canonicalize().map_err(open_error)?;
        let protected = ProtectedPaths::new(protected).map_err(open_error)?;
        let snapshot = protected.snapshot().map_err(|(path, source)| Error::Inspect { path, source })?;
        Self::from_resolved(&canonical, DirResolution::resolve(&canonical, &snapshot).reached, Arc::new(protected))
    }

    /// Creates the folder from the result of a path resolution.
    pub(crate) fn from_resolved(
        path: &Path,
        reached: Result<DirHandle, StepError>,
        protected: Arc<ProtectedPaths>,
    ) -> Result<Self, Error> {
        let path = path.to_owned();
        match reached {
            Ok(dir) => Ok(Self { path, root: Arc::new(dir), protected }),
            Err(StepError::Protected) => Err(Error::Protected { path }),
            Err(StepError::Os(error)) => Err(Error::Open { path, source: error.into() }),
            Err(StepError::Changed | StepError::Special(_)) => {
                Err(Error::Open { path, source: io::ErrorKind::NotADirectory.into() })
            }
        }
    }

    /// The path at the time of opening; for prompts and messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens `path`. Symlinks are followed as long as they stay in the folder.
    pub(crate) fn open_path(&self, path: &str) -> Result<OpenedPath, PathError> {
        PathWalker::new(self, self.snapshot()?, path)?.open_path()
    }

    /// Resolves `path` as the target of a change. Neither the target nor its parent folders need to exist.
    pub(crate) fn resolve_target(&self, path: &str, last: LastSymlink) -> Result<TargetLookup, PathError> {
        PathWalker::new(self, self.snapshot()?, path)?.resolve_target(last)
    }

    /// Directories that may be neither moved nor deleted because protected paths lie beneath them.
    pub(crate) fn protected_ancestors(&self) -> Result<HashSet<FileIdentity>, PathError> {
        self.protected.ancestors().map_err(protection_unknown)
    }

    fn snapshot(&self) -> Result<Arc<ProtectedSnapshot>, PathError> {
        self.protected.snapshot().map(Arc::new).map_err(protection_unknown)
    }
}

impl OpenFolder {
    /// Entries in the order of the file system.
    pub(crate) fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<FolderEntry>>> {
        self.dir.entries()
    }

    /// Opens the folder at the end of `names`, each of which must be a real directory: a symlink is an error, never
    /// followed.
    pub(crate) fn descend<N: AsRef<OsStr>>(&self, names: &[N]) -> Result<OpenFolder, PathError> {
        let mut dir = self.dir.clone();
        for name in names {
            dir =
                Arc::new(dir.enter(name.as_ref(), &self.snapshot).map_err(|step| step.into_path_error(name.as_ref()))?);
        }
        let names = names.iter().map(|name| name.as_ref().to_owned());
        let trail = self.trail.iter().cloned().chain(names).collect();
        Ok(OpenFolder { dir, trail, snapshot: self.snapshot.clone() })
    }

    /// Opens a file directly in this folder; a symlink is an error, never followed.
    pub(crate) fn open_file(&self, name: &OsStr) -> Result<File, PathError> {
        self.dir.open_file(name, &self.snapshot).map_err(|step| step.into_path_error(name))
    }

    /// Is there an entry of this name, whatever it is?
    pub(crate) fn has_entry(&self, name: &OsStr) -> bool {
        self.dir.kind(name).is_ok()
    }

    /// When what stands under `name` was last changed.
    pub(crate) fn modified(&self, name: &OsStr) -> Option<SystemTime> {
        self.dir.modified(name).ok()
    }

    /// Names of the real directories from the working folder to this one.
    pub(crate) fn trail(&self) -> &[OsString] {
        &self.trail
    }

    /// Returns true if tools may not access the entry. A hint for listings; opening an entry checks again.
    pub(crate) fn is_protected(&self, name: &OsStr) -> bool {
        self.snapshot.contains_name(self.dir.identity(), name)
    }
}

impl AsFd for OpenFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

fn protection_unknown((path, source): (PathBuf, io::Error)) -> PathError {
    tracing::warn!(path = %path.display(), error = %source, "protected path cannot be inspected; file tools are closed");
    PathError::ProtectionUnknown
}

#[cfg(test)]
mod tests;
