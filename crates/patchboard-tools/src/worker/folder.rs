//! The folder of one server run that holds the ready files and sockets of its workers.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

const FOLDER_PREFIX: &str = "patchboard-workers-";
/// Locked for the whole run, so that no other server removes the folder as stale.
const LOCK_FILE: &str = "lock";
/// Names tried before giving up.
const MAX_ATTEMPTS: u32 = 1000;
/// At most this many folders of killed runs are examined per start; the rest is left to later starts.
const MAX_STALE: usize = 1000;

/// The run's folder. Removed when dropped.
#[derive(Debug)]
pub(super) struct SocketFolder {
    path: PathBuf,
    _lock: File,
}

/// One worker's folder within it. Removed when dropped.
#[derive(Debug)]
pub(super) struct WorkerFolder {
    pub(super) path: PathBuf,
}

/// The folders that hold the sockets of this server's workers, one for each set of pools.
pub(crate) fn server_socket_folders(parent: &Path) -> Vec<PathBuf> {
    let start = format!("{FOLDER_PREFIX}{}-", std::process::id());
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&start)).map(|entry| entry.path()).collect()
}

impl SocketFolder {
    pub(super) fn make(parent: &Path) -> io::Result<Self> {
        remove_stale_folders(parent);
        let process = std::process::id();
        for number in 0..MAX_ATTEMPTS {
            let path = parent.join(format!("{FOLDER_PREFIX}{process}-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    // Canonical, because a worker may have another working folder.
                    let path = path.canonicalize()?;
                    let lock = File::create(path.join(LOCK_FILE))?;
                    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
                    return Ok(Self { path, _lock: lock });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The subfolder of one pool.
    pub(super) fn pool(&self, number: usize) -> PathBuf {
        self.path.join(number.to_string())
    }

    pub(super) fn worker(&self, pool: usize, number: u64) -> io::Result<WorkerFolder> {
        let path = self.pool(pool).join(number.to_string());
        DirBuilder::new().mode(0o700).recursive(true).create(&path)?;
        Ok(WorkerFolder { path })
    }
}

impl WorkerFolder {
    pub(super) fn ready_file(&self) -> PathBuf {
        self.path.join("ready")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.path.join("s")
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed now is removed by a later run.
        drop(fs::remove_dir_all(&self.path));
    }
}

impl Drop for WorkerFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.path));
    }
}

/// Removes the folders of this user's runs that were killed.
fn remove_stale_folders(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let own_uid = rustix::process::geteuid().as_raw();
    let candidates = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(FOLDER_PREFIX));
    for entry in candidates.take(MAX_STALE) {
        let path = entry.path();
        let is_ours = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir() && found.uid() == own_uid);
        // A folder without a lock file is being created, or its creator was killed at that point.
        let lock = if is_ours { File::open(path.join(LOCK_FILE)).ok() } else { None };
        if let Some(lock) = lock
            && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            drop(fs::remove_dir_all(&path));
        }
    }
}

#[cfg(test)]
mod tests;
