//! The paths that have a record in a store, from any configuration. Cached in memory, as starting a command must not
//! wait until all records have been read.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::{RecordKind, TrustStore, read_record, record_path, unescape_path};

/// If a folder changed less than this before it was listed, a later change may have the same modification time.
const MIN_SETTLE_TIME: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TrustedPaths {
    /// Files whose content is stored.
    pub(crate) configs: BTreeSet<PathBuf>,
    pub(crate) files: BTreeSet<PathBuf>,
    pub(crate) folders: BTreeSet<PathBuf>,
}

/// Unbounded: one entry per path the owner ever trusted.
#[derive(Debug, Default)]
pub(crate) struct TrustedPathIndex {
    listings: BTreeMap<PathBuf, RecordFolderListing>,
}

#[derive(Debug)]
struct RecordFolderListing {
    kind: RecordKind,
    /// The folder's modification time at the listing; `None` if it was too recent.
    changed: Option<SystemTime>,
    /// By record file name, which is derived from the path, so an entry never becomes stale.
    paths: BTreeMap<OsString, Option<PathBuf>>,
}

#[derive(Deserialize)]
struct RecordPath {
    path: String,
}

impl TrustedPathIndex {
    pub(crate) fn current_paths(&mut self, store: &TrustStore) -> TrustedPaths {
        let mut found = TrustedPaths::default();
        for folder in &store.folders {
            for kind in [RecordKind::Config, RecordKind::File, RecordKind::Folder] {
                let listed = self.listings.entry(folder.join(kind.name()));
                let listed =
                    listed.or_insert_with_key(|_| RecordFolderListing { kind, changed: None, paths: BTreeMap::new() });
                listed.refresh(folder);
                let paths = listed.paths.values().flatten().cloned();
                match listed.kind {
                    RecordKind::Config => found.configs.extend(paths),
                    RecordKind::File => found.files.extend(paths),
                    RecordKind::Folder => found.folders.extend(paths),
                    RecordKind::Exposed => {}
                }
            }
        }
        found
    }
}

impl RecordFolderListing {
    fn refresh(&mut self, store: &Path) {
        let folder = store.join(self.kind.name());
        let changed = fs::metadata(&folder).and_then(|found| found.modified()).ok();
        if changed.is_some() && changed == self.changed {
            return;
        }
        let is_settled = |at: &SystemTime| at.elapsed().is_ok_and(|since| since > MIN_SETTLE_TIME);
        self.changed = changed.filter(is_settled);
        let names: BTreeSet<OsString> = match fs::read_dir(&folder) {
            Ok(listed) => listed.flatten().map(|entry| entry.file_name()).filter(is_record).collect(),
            Err(_) => BTreeSet::new(),
        };
        self.paths.retain(|name, _| names.contains(name));
        for name in names {
            let kind = self.kind;
            self.paths.entry(name).or_insert_with_key(|name| {
                let file = folder.join(name);
                let path = unescape_path(&read_record::<RecordPath>(&file)?.path)?;
                (record_path(store, kind, &path) == file).then_some(path)
            });
        }
    }
}

/// Files being written have a name that begins with a dot.
fn is_record(name: &OsString) -> bool {
    !name.as_encoded_bytes().starts_with(b".")
}

#[cfg(test)]
mod tests;
