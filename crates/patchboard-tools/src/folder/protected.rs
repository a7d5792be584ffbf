//! Paths that stay closed to tools even inside the working folder.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Device and inode of a file or directory, which hard links, bind mounts and different spellings share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileIdentity {
    pub(crate) device: u64,
    inode: u64,
}

impl FileIdentity {
    pub(crate) fn new(device: u64, inode: u64) -> Self {
        Self { device, inode }
    }

    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self::new(metadata.dev(), metadata.ino())
    }
}

/// The protected paths as configured, absolute.
#[derive(Debug)]
pub(crate) struct ProtectedPaths {
    paths: Vec<PathBuf>,
}

/// The current state of the protected paths. Taken anew for every call, because key files are replaced by renaming and
/// then have another inode; a stored inode could by then belong to an unrelated file.
#[derive(Debug, Default)]
pub(crate) struct ProtectedSnapshot {
    identities: HashSet<FileIdentity>,
    /// Directory and name: covers a key that is replaced between the snapshot and the opening.
    names: HashSet<(FileIdentity, OsString)>,
}

impl ProtectedPaths {
    pub(crate) fn new(paths: Vec<PathBuf>) -> io::Result<Self> {
        let mut paths = paths.into_iter().map(std::path::absolute).collect::<io::Result<Vec<_>>>()?;
        // The current target of a path stays closed even if a symlink on the way to it is removed later.
        let resolved: Vec<_> = paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
        for path in resolved {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Ok(Self { paths })
    }

    /// Fails with the path that exists, or may exist, but cannot be inspected.
    pub(crate) fn snapshot(&self) -> Result<ProtectedSnapshot, (PathBuf, io::Error)> {
        let mut snapshot = ProtectedSnapshot::default();
        for path in &self.paths {
            snapshot.add(path).map_err(|error| (path.clone(), error))?;
        }
        Ok(snapshot)
    }

    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// All ancestors of protected paths, and the symlinks on the way to them. Moving or deleting one would move the
    /// protected path out of its protection.
    pub(crate) fn ancestors(&self) -> Result<HashSet<FileIdentity>, (PathBuf, io::Error)> {
        let mut ancestors = HashSet::new();
        for path in &self.paths {
            let with_path = |error| (path.clone(), error);
            let resolved = unless_absent(path.canonicalize()).map_err(with_path)?;
            for path in [Some(path), resolved.as_ref()].into_iter().flatten() {
                for ancestor in path.ancestors() {
                    for metadata in [ancestor.metadata(), ancestor.symlink_metadata()] {
                        if let Some(metadata) = unless_absent(metadata).map_err(with_path)? {
                            ancestors.insert(FileIdentity::of(&metadata));
                        }
                    }
                }
            }
        }
        Ok(ancestors)
    }
}

impl ProtectedSnapshot {
    pub(crate) fn contains(&self, identity: FileIdentity) -> bool {
        self.identities.contains(&identity)
    }

    pub(crate) fn contains_name(&self, directory: FileIdentity, name: &OsStr) -> bool {
        // Few paths are protected, so a scan is cheaper than building an owned key.
        self.names.iter().any(|(protected, protected_name)| *protected == directory && protected_name == name)
    }

    fn add(&mut self, path: &Path) -> io::Result<()> {
        self.add_name(path)?;
        // If a configured path is a symlink, its target is protected under its own name too.
        if let Some(resolved) = unless_absent(path.canonicalize())? {
            self.add_name(&resolved)?;
            if let Some(metadata) = unless_absent(resolved.metadata())? {
                self.identities.insert(FileIdentity::of(&metadata));
            }
        }
        Ok(())
    }

    /// If not even the parent directory exists, the first missing ancestor is closed, so that no tool can create that
    /// directory and plant a key where the server will look for its own.
    fn add_name(&mut self, path: &Path) -> io::Result<()> {
        for path in path.ancestors() {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
            if let Some(metadata) = unless_absent(parent.metadata())? {
                self.names.insert((FileIdentity::of(&metadata), name.to_owned()));
                return Ok(());
            }
        }
        Ok(())
    }
}

fn unless_absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}
