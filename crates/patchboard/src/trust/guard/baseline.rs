//! The trusted state of a guarded path when it becomes exposed or is held for a process.

use std::io;
use std::path::{Path, PathBuf};

use patchboard_config::files::{ConfigFile, FileLayer};

use crate::trust::TrustStore;
use crate::trust::config_file::DiskText;
use crate::trust::exposure::{exposure_keys, folder_keys, is_exposed, is_folder_exposed};
use crate::trust::fingerprint::{FileFingerprint, FolderFingerprint};
use crate::trust::pending_trust::existing_fingerprint;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GuardedPath {
    /// A file whose content is stored. A project's file counts only if it was trusted before.
    Content(PathBuf, FileLayer),
    File(PathBuf),
    Folder(PathBuf),
}

/// A state that was read and not yet recorded.
#[derive(Debug)]
pub(super) struct Baseline<'a> {
    pub(super) guarded: &'a GuardedPath,
    content: BaselineContent,
}

#[derive(Debug)]
enum BaselineContent {
    /// There is nothing that could be trusted.
    Nothing,
    /// The existing record is still right.
    Unchanged,
    Text(String),
    File(FileFingerprint),
    Folder(FolderFingerprint),
}

impl GuardedPath {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Content(path, _) | Self::File(path) | Self::Folder(path) => path,
        }
    }

    pub(super) fn exposure_keys(&self) -> Vec<PathBuf> {
        match self {
            Self::Content(path, _) | Self::File(path) => exposure_keys(path),
            Self::Folder(folder) => folder_keys(folder),
        }
    }

    /// True if any key is exposed: another key that is new, such as that of a symlink, does not show that nothing was
    /// written.
    pub(super) fn is_exposed(&self, store: &TrustStore) -> bool {
        match self {
            Self::Content(path, _) | Self::File(path) => is_exposed(store, path),
            Self::Folder(folder) => is_folder_exposed(store, folder),
        }
    }

    /// `own`: paths of the server's own data.
    pub(super) fn baseline(&self, store: &TrustStore, own: &[PathBuf]) -> Baseline<'_> {
        let found = match self {
            // An untrusted project file must not become trusted because a command runs beside it.
            Self::Content(path, FileLayer::Project) if store.config(path).is_none() => BaselineContent::Nothing,
            Self::Content(path, layer) => {
                let file = ConfigFile { layer: *layer, path: path.clone(), shown: path.clone() };
                match DiskText::of(&file) {
                    DiskText::Text(text) => BaselineContent::Text(text),
                    DiskText::Absent | DiskText::Unreadable(_) => BaselineContent::Nothing,
                }
            }
            Self::File(path) if store.file(path).is_some_and(|trusted| trusted.matches_disk(path)) => {
                BaselineContent::Unchanged
            }
            // A file that cannot be read is not trusted.
            Self::File(path) => {
                existing_fingerprint(path).ok().flatten().map_or(BaselineContent::Nothing, BaselineContent::File)
            }
            Self::Folder(folder) => BaselineContent::Folder(FolderFingerprint::of(folder, own)),
        };
        Baseline { guarded: self, content: found }
    }
}

impl Baseline<'_> {
    pub(super) fn record(&self, store: &TrustStore) -> io::Result<()> {
        let path = self.guarded.path();
        match &self.content {
            BaselineContent::Nothing | BaselineContent::Unchanged => Ok(()),
            BaselineContent::Text(text) => store.trust_config(path, text),
            BaselineContent::File(stamp) => store.trust_file(path, stamp),
            BaselineContent::Folder(print) => store.trust_folder(path, print),
        }
    }
}
