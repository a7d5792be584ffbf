//! Plugin files: change detection without reading them, and consistent reads. All functions block and must run on
//! blocking threads.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::text::format_size;

/// Larger files are refused.
pub(super) const MAX_PLUGIN_BYTES: u64 = 64 * 1024 * 1024;
const MAX_SIDECAR_BYTES: u64 = 64 * 1024;

/// Metadata that reveals a replaced file or changed content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// The inode's change time: detects a modification time that was set back, and changed permissions.
    changed: (i64, i64),
}

/// Metadata of a plugin's files; `None` for a missing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilesSnapshot {
    pub(super) file: Option<FileStamp>,
    pub(super) sidecar: Option<FileStamp>,
}

/// The location of a plugin's files.
#[derive(Debug, Clone)]
pub(super) struct PluginFiles {
    pub(super) file: PathBuf,
    /// The sidecar file, and the folder that both files must be in; `None` for configured plugins.
    pub(super) folder: Option<FolderLocation>,
}

#[derive(Debug, Clone)]
pub(super) struct FolderLocation {
    pub(super) folder: Arc<Path>,
    pub(super) sidecar: PathBuf,
}

/// The content of a plugin's files.
#[derive(Debug)]
pub(super) struct PluginContent {
    pub(super) bytes: Bytes,
    /// In lower-case hex.
    pub(super) sha256: Arc<str>,
    pub(super) sidecar: Option<String>,
    /// Files that every local user may change.
    pub(super) world_writable: Vec<PathBuf>,
}

/// Why a file was not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadFailure {
    Missing,
    /// The file changed during the read.
    Changing,
    /// An error text for the operator.
    Unusable(String),
}

impl PluginFiles {
    pub(super) fn snapshot(&self) -> FilesSnapshot {
        let stamp = |file: &Path| file.metadata().ok().map(|metadata| FileStamp::of(&metadata));
        FilesSnapshot {
            file: stamp(&self.file),
            sidecar: self.folder.as_ref().and_then(|folder| stamp(&folder.sidecar)),
        }
    }

    /// Reads both files consistently and returns their metadata from before the read.
    pub(super) fn read(&self) -> (FilesSnapshot, Result<PluginContent, ReadFailure>) {
        let snapshot = self.snapshot();
        let content = self.read_both(snapshot);
        let has_changed = self.snapshot() != snapshot;
        (snapshot, if has_changed { Err(ReadFailure::Changing) } else { content })
    }

    fn read_both(&self, snapshot: FilesSnapshot) -> Result<PluginContent, ReadFailure> {
        let root = self.folder.as_ref().map(|folder| &*folder.folder);
        let mut world_writable = Vec::new();
        let mut read = |path: &Path, max: u64| {
            let (bytes, is_world_writable) = read_file(path, root, max)?;
            world_writable.extend(is_world_writable.then(|| path.to_owned()));
            Ok::<_, ReadFailure>(bytes)
        };
        let bytes = read(&self.file, MAX_PLUGIN_BYTES)?;
        let sidecar = match &self.folder {
            Some(folder) if snapshot.sidecar.is_some() => {
                let text = String::from_utf8(read(&folder.sidecar, MAX_SIDECAR_BYTES)?);
                let not_text = |_| ReadFailure::Unusable(format!("{} is not UTF-8", folder.sidecar.display()));
                Some(text.map_err(not_text)?)
            }
            Some(_) | None => None,
        };
        let sha256 = hex::encode(Sha256::digest(&bytes)).into();
        Ok(PluginContent { bytes: bytes.into(), sha256, sidecar, world_writable })
    }
}

impl FileStamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Whether every local user may change the file.
pub(super) fn is_world_writable(metadata: &Metadata) -> bool {
    metadata.mode() & 0o002 != 0
}

fn read_file(path: &Path, root: Option<&Path>, max: u64) -> Result<(Vec<u8>, bool), ReadFailure> {
    let shown = path.display();
    let read_failure = |error: io::Error| match error.kind() == io::ErrorKind::NotFound {
        true => ReadFailure::Missing,
        false => ReadFailure::Unusable(format!("failed to read {shown}: {error}")),
    };
    let resolved = path.canonicalize().map_err(read_failure)?;
    if let Some(folder) = root
        && !resolved.starts_with(folder.canonicalize().map_err(read_failure)?)
    {
        return Err(ReadFailure::Unusable(format!("{shown} is a link that leads out of the plugins folder")));
    }
    let file = open(&resolved).map_err(read_failure)?;
    let metadata = file.metadata().map_err(read_failure)?;
    if !metadata.is_file() {
        return Err(ReadFailure::Unusable(format!("{shown} is not a file")));
    }
    let too_large = || {
        ReadFailure::Unusable(format!(
            "{shown} is larger than {}",
            format_size(usize::try_from(max).unwrap_or(usize::MAX))
        ))
    };
    if metadata.len() > max {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(max + 1).read_to_end(&mut bytes).map_err(read_failure)?;
    match bytes.len() as u64 > max {
        true => Err(too_large()),
        false => Ok((bytes, is_world_writable(&metadata))),
    }
}

/// Does not block on a FIFO, and does not follow a link that was created after the path was resolved.
fn open(resolved: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(resolved)
}

#[cfg(test)]
mod tests;
