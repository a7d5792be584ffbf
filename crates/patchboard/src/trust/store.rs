//! Stores trusted content, fingerprints and exposed folders: one small file each, replaced atomically, so that several
//! processes can use the store at once.
//!
//! There are usually two folders: that of the data directory named by flag or environment, and the user's default one.
//! A command started without the flag must still know what a server with the flag has exposed. A configuration file
//! never chooses the store, as it could then vouch for itself.
//!
//! Each record has a generation, one higher than the previous one for its path in any folder. If the folders differ,
//! the highest generation counts, also if it records an absence.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use patchboard_config::Environment;
use patchboard_config::UserFolders;
use patchboard_config::credentials::{PendingFile, create_private_folder};
use rustix::fs::{Mode, OFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::fingerprint::{FileFingerprint, FolderFingerprint};
use crate::data_dir::{is_own_record, may_hold_records};

mod hold_marks;
mod trusted_paths;

pub(super) use hold_marks::FileIdentity;
pub(super) use trusted_paths::{TrustedPathIndex, TrustedPaths};

/// The store's folder in a data directory.
const STORE_FOLDER: &str = "trust";
const FILE_MODE: u32 = 0o600;
/// A longer file is not a record.
const MAX_RECORD_BYTES: u64 = 16 * 1024 * 1024;
/// The environment variable that overrides `data_dir`.
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

/// Contains the path in clear, so that a person can read the store.
#[derive(Debug, Serialize, Deserialize)]
struct VersionedRecord<T> {
    path: String,
    #[serde(default)]
    generation: u64,
    /// `None`: absence is the trusted state.
    value: Option<T>,
}

impl TrustStore {
    /// `flag`: the value of `--data-dir`, absolute.
    pub(crate) fn find(flag: Option<PathBuf>, env: &Environment, folders: &UserFolders) -> Self {
        let named = flag.or_else(|| env.get(DATA_DIR_VARIABLE).map(PathBuf::from)).filter(|path| path.is_absolute());
        let data_dirs = [named, folders.default_data_dir.clone()].into_iter().flatten();
        let mut found: Vec<PathBuf> = Vec::new();
        for data_dir in data_dirs {
            let folder = data_dir.join(STORE_FOLDER);
            // A folder that others could write to is not read and not written.
            if !found.contains(&folder) && may_hold_records(&data_dir, &folder) {
                found.push(folder);
            }
        }
        Self { folders: found }
    }

    #[cfg(test)]
    pub(crate) fn at(data_dir: &Path) -> Self {
        Self { folders: vec![data_dir.join(STORE_FOLDER)] }
    }

    /// The folders of the store: inaccessible to every process of the server.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    pub(crate) fn is_exposed(&self, folder: &Path) -> bool {
        // Only a definite "not found" counts as not exposed.
        let is_absent =
            |file: PathBuf| fs::symlink_metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        self.folders.iter().any(|store| !is_absent(record_path(store, RecordKind::Exposed, folder)))
    }

    /// True only if the record certainly exists. If it cannot be read, recording is attempted, which then fails.
    pub(crate) fn has_exposure(&self, folder: &Path) -> bool {
        self.folders.iter().any(|store| record_path(store, RecordKind::Exposed, folder).exists())
    }

    /// The record is on disk when this returns `Ok`.
    pub(crate) fn expose(&self, folder: &Path) -> io::Result<()> {
        self.put(RecordKind::Exposed, folder, Some(&true))
    }

    /// The data directories of the store.
    pub(crate) fn data_dirs(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().filter_map(|folder| folder.parent())
    }

    pub(crate) fn config(&self, path: &Path) -> Option<String> {
        self.get(RecordKind::Config, path)
    }

    pub(crate) fn trust_config(&self, path: &Path, content: &str) -> io::Result<()> {
        self.put(RecordKind::Config, path, Some(&content))
    }

    /// Records absence as the trusted state.
    pub(crate) fn forget_config(&self, path: &Path) -> io::Result<()> {
        self.forget(RecordKind::Config, path)
    }

    pub(crate) fn forget_file(&self, path: &Path) -> io::Result<()> {
        self.forget(RecordKind::File, path)
    }

    pub(crate) fn file(&self, path: &Path) -> Option<FileFingerprint> {
        self.get(RecordKind::File, path)
    }

    pub(crate) fn trust_file(&self, path: &Path, stamp: &FileFingerprint) -> io::Result<()> {
        self.put(RecordKind::File, path, Some(stamp))
    }

    pub(crate) fn folder(&self, path: &Path) -> Option<FolderFingerprint> {
        self.get(RecordKind::Folder, path)
    }

    pub(crate) fn trust_folder(&self, path: &Path, print: &FolderFingerprint) -> io::Result<()> {
        self.put(RecordKind::Folder, path, Some(print))
    }

    /// Paths without a record need none.
    fn forget(&self, kind: RecordKind, path: &Path) -> io::Result<()> {
        match self.newest_record::<serde::de::IgnoredAny>(kind, path) {
            Some(VersionedRecord { value: Some(_), .. }) => self.put::<()>(kind, path, None),
            Some(VersionedRecord { value: None, .. }) | None => Ok(()),
        }
    }

    fn get<T: DeserializeOwned>(&self, kind: RecordKind, path: &Path) -> Option<T> {
        self.newest_record(kind, path)?.value
    }

    fn newest_record<T: DeserializeOwned>(&self, kind: RecordKind, path: &Path) -> Option<VersionedRecord<T>> {
        let found = self.folders.iter().filter_map(|store| read_record(&record_path(store, kind, path)));
        let found = found.filter(|record: &VersionedRecord<T>| record.path == escape_path(path));
        // Of equal generations the first counts.
        found.reduce(|newest, other| if other.generation > newest.generation { other } else { newest })
    }

    /// Writes to every folder of the store; a failure is an error only in the first.
    fn put<T: Serialize>(&self, kind: RecordKind, path: &Path, value: Option<&T>) -> io::Result<()> {
        let before = self.newest_record::<serde_json::Value>(kind, path);
        let value = serde_json::to_value(value).map_err(io::Error::other)?;
        let generation = match &before {
            // Writing the same value again does not raise the generation.
            Some(before) if before.value == non_null(&value) => before.generation,
            Some(before) => before.generation.saturating_add(1),
            None => 0,
        };
        let record = VersionedRecord { path: escape_path(path), generation, value: Some(value) };
        let record = serde_json::to_vec(&record).map_err(io::Error::other)?;
        self.write_to_all(|store| record_path(store, kind, path), |file| write_record(file, &record))
    }

    fn write_to_all(
        &self,
        file_in: impl Fn(&Path) -> PathBuf,
        write: impl Fn(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut folders = self.folders.iter();
        let Some(first) = folders.next() else {
            return Err(io::Error::other("there is no data directory: set HOME, or name one with --data-dir"));
        };
        write(&file_in(first))?;
        for other in folders {
            if let Err(error) = write(&file_in(other)) {
                tracing::debug!(%error, store = %other.display(), "the copy of a trust record cannot be written");
            }
        }
        Ok(())
    }
}

/// Deserialisation reads a null as no value.
fn non_null(value: &serde_json::Value) -> Option<serde_json::Value> {
    (!value.is_null()).then(|| value.clone())
}

/// Reads a record; files that others could have written are ignored.
fn read_record<T: DeserializeOwned>(file: &Path) -> Option<T> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(file, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok()?;
    if !is_own_record(&found) || found.len() > MAX_RECORD_BYTES {
        return None;
    }
    let mut record = Vec::new();
    file.by_ref().take(MAX_RECORD_BYTES).read_to_end(&mut record).ok()?;
    serde_json::from_slice(&record).ok()
}

fn write_record(file: &Path, record: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        create_private_folder(folder).map_err(io::Error::other)?;
    }
    // Skips the write and its flush if the record is unchanged.
    if fs::read(file).is_ok_and(|there| there == record) {
        return Ok(());
    }
    PendingFile::write(file, record, FILE_MODE).and_then(PendingFile::commit).map(drop).map_err(io::Error::other)
}

fn record_path(store: &Path, kind: RecordKind, path: &Path) -> PathBuf {
    let name = path_digest(path);
    store.join(kind.name()).join(format!("{name}.json"))
}

fn path_digest(path: &Path) -> String {
    hex::encode(Sha256::digest(path.as_os_str().as_encoded_bytes()))
}

/// Injective, also for paths that are not UTF-8.
fn escape_path(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().escape_ascii().to_string()
}

/// The inverse of `escape_path`.
fn unescape_path(shown: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(shown.len());
    let mut rest = shown.bytes();
    while let Some(byte) = rest.next() {
        let plain = match byte {
            b'\\' => match rest.next()? {
                b't' => b'\t',
                b'r' => b'\r',
                b'n' => b'\n',
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                quoted => quoted,
            },
            byte => byte,
        };
        bytes.push(plain);
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests;
