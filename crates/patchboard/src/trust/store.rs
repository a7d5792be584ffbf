//! Trusted content, fingerprints and exposed folders: one small file each, written whole, so that several processes can use
//! the store at once.
//!
//! There are usually two folders: that of the data directory named by flag or environment, and that of the user's own. A
//! command that is started without the flag must still know what a server with it has exposed. A configuration file never
//! chooses the store: it would vouch for itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::fingerprint::{FileStamp, FolderPrint};
use crate::config::Environment;
use crate::config::Folders;
use crate::credentials::{PendingFile, private_folder};

/// Name of the store in a data directory.
const FOLDER: &str = "trust";
const FILE_MODE: u32 = 0o600;
/// A longer record is not ours.
const MAX_RECORD_BYTES: u64 = 16 * 1024 * 1024;
/// Sets the data directory, as any key can be set.
const DATA_DIR_VARIABLE: &str = "PATCHBOARD__DATA_DIR";

#[derive(Debug, Clone)]
pub(crate) struct TrustStore {
    folders: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordKind {
    Exposed,
    Config,
    File,
    Folder,
}

impl RecordKind {
    fn name(self) -> &'static str {
        match self {
            Self::Exposed => "exposed",
            Self::Config => "config",
            Self::File => "file",
            Self::Folder => "folder",
        }
    }
}

/// A record names its path, so that a person can read the store.
#[derive(Debug, Serialize, Deserialize)]
struct Record<T> {
    path: String,
    value: T,
}

impl TrustStore {
    /// `flag` is `--data-dir`, absolute.
    pub(crate) fn find(flag: Option<PathBuf>, env: &Environment, folders: &Folders) -> Self {
        let named = flag.or_else(|| env.get(DATA_DIR_VARIABLE).map(PathBuf::from)).filter(|path| path.is_absolute());
        let data_dirs = [named, folders.default_data_dir.clone()].into_iter().flatten();
        let mut found: Vec<PathBuf> = Vec::new();
        for folder in data_dirs.map(|data_dir| data_dir.join(FOLDER)) {
            if !found.contains(&folder) {
                found.push(folder);
            }
        }
        Self { folders: found }
    }

    #[cfg(test)]
    pub(crate) fn at(data_dir: &Path) -> Self {
        Self { folders: vec![data_dir.join(FOLDER)] }
    }

    /// Where it is kept: closed to everything the server runs.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    pub(crate) fn is_exposed(&self, folder: &Path) -> bool {
        self.folders.iter().any(|store| record_path(store, RecordKind::Exposed, folder).exists())
    }

    /// On disk when this returns `Ok`.
    pub(crate) fn expose(&self, folder: &Path) -> io::Result<()> {
        self.put(RecordKind::Exposed, folder, &())
    }

    pub(crate) fn config(&self, path: &Path) -> Option<String> {
        self.get(RecordKind::Config, path)
    }

    pub(crate) fn trust_config(&self, path: &Path, content: &str) -> io::Result<()> {
        self.put(RecordKind::Config, path, &content)
    }

    /// Its absence is what is trusted.
    pub(crate) fn forget_config(&self, path: &Path) -> io::Result<()> {
        self.forget(RecordKind::Config, path)
    }

    pub(crate) fn forget_file(&self, path: &Path) -> io::Result<()> {
        self.forget(RecordKind::File, path)
    }

    pub(crate) fn file(&self, path: &Path) -> Option<FileStamp> {
        self.get(RecordKind::File, path)
    }

    pub(crate) fn trust_file(&self, path: &Path, stamp: &FileStamp) -> io::Result<()> {
        self.put(RecordKind::File, path, stamp)
    }

    pub(crate) fn folder(&self, path: &Path) -> Option<FolderPrint> {
        self.get(RecordKind::Folder, path)
    }

    pub(crate) fn trust_folder(&self, path: &Path, print: &FolderPrint) -> io::Result<()> {
        self.put(RecordKind::Folder, path, print)
    }

    fn forget(&self, kind: RecordKind, path: &Path) -> io::Result<()> {
        self.folders.iter().try_for_each(|store| match fs::remove_file(record_path(store, kind, path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        })
    }

    fn get<T: DeserializeOwned>(&self, kind: RecordKind, path: &Path) -> Option<T> {
        self.folders.iter().find_map(|store| {
            let file = record_path(store, kind, path);
            if fs::metadata(&file).ok()?.len() > MAX_RECORD_BYTES {
                return None;
            }
            let record: Record<T> = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
            (record.path == shown(path)).then_some(record.value)
        })
    }

    /// In every folder of the store; one that cannot be written is an error only if it is the first.
    fn put<T: Serialize>(&self, kind: RecordKind, path: &Path, value: &T) -> io::Result<()> {
        let record = serde_json::to_vec(&Record { path: shown(path), value }).map_err(io::Error::other)?;
        let mut folders = self.folders.iter();
        let Some(first) = folders.next() else {
            return Err(io::Error::other("there is no data directory: set HOME, or name one with --data-dir"));
        };
        write(&record_path(first, kind, path), &record)?;
        for other in folders {
            if let Err(error) = write(&record_path(other, kind, path), &record) {
                tracing::debug!(%error, store = %other.display(), "a second record of trust cannot be written");
            }
        }
        Ok(())
    }
}

fn write(file: &Path, record: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        private_folder(folder).map_err(io::Error::other)?;
    }
    // The same record again would only cost a flush.
    if fs::read(file).is_ok_and(|there| there == record) {
        return Ok(());
    }
    PendingFile::write(file, record, FILE_MODE).and_then(PendingFile::commit).map(drop).map_err(io::Error::other)
}

fn record_path(store: &Path, kind: RecordKind, path: &Path) -> PathBuf {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    store.join(kind.name()).join(format!("{name}.json"))
}

/// Injective, also for paths that are not text.
fn shown(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().escape_ascii().to_string()
}

#[cfg(test)]
mod tests;
