//! Marks for files that are mounted read-only for a running process.
//!
//! Such a mount disappears when the owner renames another file over the name, or removes the file; the process can then
//! write at that path. A mark therefore records the file's identity. A different file at a marked path must not be
//! trusted. The mark is written before the process starts and stays if the server is killed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use patchboard_config::credentials::create_private_folder;
use serde::{Deserialize, Serialize};

use super::{TrustStore, escape_path, path_digest, read_record, unescape_path};

/// The folder of the marks in a store: one subfolder per path with one mark per server.
const MARKS_FOLDER: &str = "held";

/// Distinguishes a file from one that replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    /// Inode numbers are reused; the creation time cannot be set. Not every file system stores it.
    made: Option<(u64, u32)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct HoldMark {
    path: String,
    identity: FileIdentity,
}

impl FileIdentity {
    /// Of the path itself, not following symlinks; `None` if it does not exist.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok()?;
        let made = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let made = made.map(|since| (since.as_secs(), since.subsec_nanos()));
        Some(Self { device: found.dev(), inode: found.ino(), made })
    }
}

impl TrustStore {
    /// Not flushed: no process survives a power loss.
    pub(crate) fn write_hold_mark(&self, path: &Path, server: &str, identity: &FileIdentity) -> io::Result<()> {
        let mark = HoldMark { path: escape_path(path), identity: identity.clone() };
        let mark = serde_json::to_vec(&mark).map_err(io::Error::other)?;
        self.write_to_all(
            |store| mark_path(store, path, server),
            |file| {
                if let Some(folder) = file.parent() {
                    create_private_folder(folder).map_err(io::Error::other)?;
                }
                // Renamed into place, so that no reader sees a partial mark.
                let pending = file.with_extension("new");
                fs::write(&pending, &mark)?;
                fs::rename(&pending, file)
            },
        )
    }

    pub(crate) fn remove_hold_mark(&self, path: &Path, server: &str) {
        for store in &self.folders {
            let file = mark_path(store, path, server);
            if let Err(error) = fs::remove_file(&file)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::debug!(%error, file = %file.display(), "the mark of a file that was held cannot be removed");
            }
        }
    }

    /// Whether the path now has another file than the one that was held.
    pub(crate) fn was_replaced_while_held(&self, path: &Path) -> bool {
        let mut marks = Vec::new();
        for store in &self.folders {
            match fs::read_dir(store.join(MARKS_FOLDER).join(path_digest(path))) {
                Ok(listed) => marks.push(listed),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // A mark may exist.
                Err(_) => return true,
            }
        }
        let mut files =
            marks.into_iter().flatten().flatten().map(|entry| entry.path()).filter(|file| is_mark(file)).peekable();
        if files.peek().is_none() {
            return false;
        }
        let now = FileIdentity::of(path);
        // A mark that cannot be read may be for any file, unless it was removed meanwhile.
        files.any(|file| match read_record::<HoldMark>(&file) {
            Some(mark) => Some(mark.identity) != now,
            None => file.exists(),
        })
    }

    /// The marks of this server or of the previous one on the same data directory.
    pub(crate) fn held_files_of(&self, server: &str) -> Vec<(PathBuf, FileIdentity)> {
        let folders =
            self.folders.iter().filter_map(|store| fs::read_dir(store.join(MARKS_FOLDER)).ok()).flatten().flatten();
        let marks = folders.filter_map(|folder| read_record::<HoldMark>(&folder.path().join(mark_file_name(server))));
        marks.filter_map(|mark| Some((unescape_path(&mark.path)?, mark.identity))).collect()
    }
}

fn mark_path(store: &Path, path: &Path, server: &str) -> PathBuf {
    store.join(MARKS_FOLDER).join(path_digest(path)).join(mark_file_name(server))
}

fn mark_file_name(server: &str) -> String {
    format!("{server}.json")
}

fn is_mark(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "json")
}

#[cfg(test)]
mod tests;
