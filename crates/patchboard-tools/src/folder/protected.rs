//! What stays closed to tools even inside the working folder.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file or directory whatever it is called: hard links, bind mounts and other spellings share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    inode: u64,
}

impl Identity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// The protected paths as configured, absolute.
#[derive(Debug)]
pub(crate) struct Protected {
    paths: Vec<PathBuf>,
}

/// What the protected paths are right now. Taken anew for every call, because key files are replaced by renaming and
/// then are other files; a stored inode number could by then belong to some innocent file.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    identities: HashSet<Identity>,
    /// Directory and name: closes the moment between the snapshot and the opening, in which a key may be replaced.
    names: HashSet<(Identity, OsString)>,
}

impl Protected {
    pub(crate) fn new(paths: Vec<PathBuf>) -> io::Result<Self> {
        let paths = paths.into_iter().map(std::path::absolute).collect::<io::Result<_>>()?;
        Ok(Self { paths })
    }

    /// Fails with the path that exists, or may exist, but cannot be looked at.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, (PathBuf, io::Error)> {
        let mut snapshot = Snapshot::default();
        for path in &self.paths {
            snapshot.add(path).map_err(|error| (path.clone(), error))?;
        }
        Ok(snapshot)
    }
}

impl Snapshot {
    pub(crate) fn holds(&self, identity: Identity) -> bool {
        self.identities.contains(&identity)
    }

    pub(crate) fn names(&self, directory: Identity, name: &OsStr) -> bool {
        // Few paths are protected, so looking through them is cheaper than making an owned key.
        self.names.iter().any(|(protected, protected_name)| *protected == directory && protected_name == name)
    }

    fn add(&mut self, path: &Path) -> io::Result<()> {
        self.add_name(path)?;
        // A configured path may itself be a symlink; what it points to is protected under its own name too.
        if let Some(real) = unless_absent(path.canonicalize())? {
            self.add_name(&real)?;
            if let Some(metadata) = unless_absent(real.metadata())? {
                self.identities.insert(Identity::of(&metadata));
            }
        }
        Ok(())
    }

    fn add_name(&mut self, path: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        if let Some(metadata) = unless_absent(parent.metadata())? {
            self.names.insert((Identity::of(&metadata), name.to_owned()));
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
