//! Files that are mounted read-only for running processes. A mark is on disk while such a process runs; when the last
//! process has ended, either the file is still the one that was held, or its folder becomes exposed.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patchboard_config::files::open_regular;
use sha2::{Digest, Sha256};

use crate::trust::TrustStore;
use crate::trust::exposure::exposure_keys;
use crate::trust::store::FileIdentity;

#[derive(Debug)]
pub(super) struct FileHolds {
    store: TrustStore,
    /// Names this server's marks: a hash of the data directory, so that the next server there recognises them.
    server: String,
    held: Mutex<HashMap<PathBuf, HeldFile>>,
}

#[derive(Debug)]
struct HeldFile {
    processes: usize,
    identity: FileIdentity,
    /// Keeps the inode number from being reused.
    _open_file: Option<File>,
}

/// Lives as long as a process that can reach these files.
#[derive(Debug)]
pub(super) struct HoldGuard {
    holds: Arc<FileHolds>,
    files: Vec<PathBuf>,
}

impl FileHolds {
    pub(super) fn new(store: TrustStore, data_dir: &Path) -> Arc<Self> {
        let digest = Sha256::digest(data_dir.as_os_str().as_encoded_bytes());
        let server = hex::encode(digest.get(..8).unwrap_or(&digest));
        let holds = Self { store, server, held: Mutex::default() };
        // Only one server uses a data directory, and the processes of the previous one ended with it.
        for (path, identity) in holds.store.held_files_of(&holds.server) {
            holds.end_hold(&path, &identity);
        }
        Arc::new(holds)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<PathBuf, HeldFile>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a running process has this file mounted read-only.
    pub(super) fn is_held(&self, path: &Path) -> bool {
        self.held().contains_key(path)
    }

    /// Takes real paths. The marks are on disk when this returns `Ok`.
    pub(super) fn acquire(self: &Arc<Self>, files: &[PathBuf]) -> io::Result<HoldGuard> {
        let mut hold = HoldGuard { holds: Arc::clone(self), files: Vec::new() };
        for path in files {
            let mut held = self.held();
            match held.get_mut(path) {
                Some(one) => one.processes += 1,
                None => {
                    // Opened before the mark is written, so that the marked inode cannot be reused.
                    let open = open_regular(path).ok();
                    let gone = || io::Error::new(io::ErrorKind::NotFound, format!("{} is gone", path.display()));
                    let identity = FileIdentity::of(path).ok_or_else(gone)?;
                    self.store.write_hold_mark(path, &self.server, &identity)?;
                    held.insert(path.clone(), HeldFile { processes: 1, identity, _open_file: open });
                }
            }
            hold.files.push(path.clone());
        }
        Ok(hold)
    }

    /// Called when a process has ended.
    fn release(&self, path: &Path) {
        let mut held = self.held();
        let Some(one) = held.get_mut(path) else { return };
        one.processes = one.processes.saturating_sub(1);
        if one.processes == 0
            && let Some(last) = held.remove(path)
        {
            self.end_hold(path, &last.identity);
        }
    }

    /// Called when no process is left that could have written to the path.
    fn end_hold(&self, path: &Path, identity: &FileIdentity) {
        if FileIdentity::of(path).as_ref() != Some(identity) {
            let exposed = exposure_keys(path).iter().try_for_each(|folder| self.store.expose(folder));
            if let Err(error) = exposed {
                // The mark stays, which has the same effect.
                tracing::warn!(%error, path = %path.display(), "the exposure of a held file cannot be recorded");
                return;
            }
        }
        self.store.remove_hold_mark(path, &self.server);
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.files.iter().for_each(|path| self.holds.release(path));
    }
}

#[cfg(test)]
mod tests;
