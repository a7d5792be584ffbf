//! Finds files beneath a folder, level by level, within bounds that the result reports.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::file_runtime::ToolRefusal;
use super::ignore_rules::{IgnoreReader, IgnoreRules, RuleTarget};
use crate::folder::{EntryKind, FolderEntry, OpenFolder, WorkFolder};
use crate::text::escape_control_chars;

/// The scan ends after this many entries.
const MAX_SCANNED: usize = 100_000;
/// Folders nested deeper are not entered.
const MAX_DEPTH: usize = 64;
/// Number of excluded folders that are reported by name.
const MAX_NAMED_FOLDERS: usize = 8;

/// A file, or a symlink, beneath the searched folder.
#[derive(Debug)]
pub(super) struct ScannedFile<'a> {
    pub(super) folder: &'a OpenFolder,
    pub(super) name: &'a OsStr,
    pub(super) kind: EntryKind,
    /// Relative to the searched folder.
    pub(super) path: &'a str,
}

/// What a scan omitted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScanOmissions {
    excluded_folders: BTreeSet<String>,
    excluded_files: usize,
    unreadable: usize,
    too_deep: bool,
    too_many: bool,
    unread_rules: Option<String>,
}

/// A folder still to be scanned: the names that lead to it from the searched folder, and the rules around it.
struct QueuedFolder {
    names: Vec<OsString>,
    rules: IgnoreRules,
}

/// Calls `meet` for every file and symlink under `base` that no ignore rule excludes, folder by folder in order of
/// name. `interest` returns whether an entry of that name at that depth is relevant; symlinks are never followed.
pub(super) fn scan_files(
    folder: &WorkFolder,
    base: &OpenFolder,
    stop: &CancellationToken,
    interest: impl Fn(usize, &str, RuleTarget) -> EntryInterest,
    mut meet: impl FnMut(ScannedFile<'_>),
) -> Result<ScanOmissions, ToolRefusal> {
    let mut omitted = ScanOmissions::default();
    let mut reader = IgnoreReader::default();
    let mut scanned = 0;
    let rules = reader.rules_above(folder, base)?;
    let mut queue = VecDeque::from([QueuedFolder { names: Vec::new(), rules }]);
    while let Some(QueuedFolder { names, rules }) = queue.pop_front() {
        let (folder, mut entries) = match list_folder(base, &names, MAX_SCANNED - scanned) {
            Ok(listed) => listed,
            Err(refusal) if names.is_empty() => return Err(refusal),
            Err(_) => {
                omitted.unreadable += 1;
                continue;
            }
        };
        if entries.len() > MAX_SCANNED - scanned {
            omitted.too_many = true;
            entries.truncate(MAX_SCANNED - scanned);
        }
        scanned += entries.len();
        entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        let rules = reader.enter(&folder, &rules);
        let from_root: PathBuf = folder.trail().iter().collect();
        let prefix: String = names.iter().map(|name| name.to_string_lossy() + "/").collect();
        for entry in entries {
            if stop.is_cancelled() {
                return Err(ToolRefusal::cancelled());
            }
            let target = match entry.kind {
                _ if folder.is_protected(&entry.name) => continue,
                EntryKind::Special(_) => continue,
                EntryKind::Folder => RuleTarget::Folder,
                EntryKind::File | EntryKind::Symlink => RuleTarget::Other,
            };
            let shown = entry.name.to_string_lossy();
            let is_excluded = || rules.excludes(&from_root.join(&entry.name), target);
            match (interest(names.len(), &shown, target), target) {
                (EntryInterest::None, _) => {}
                (EntryInterest::Default, RuleTarget::Folder) if is_excluded() => {
                    omitted.excluded_folders.insert(escape_control_chars(&entry.name));
                }
                (EntryInterest::Default, RuleTarget::Other) if is_excluded() => omitted.excluded_files += 1,
                (EntryInterest::Default | EntryInterest::Explicit, RuleTarget::Folder)
                    if names.len() + 1 >= MAX_DEPTH =>
                {
                    omitted.too_deep = true;
                }
                (wanted, RuleTarget::Folder) => {
                    let is_opened = wanted == EntryInterest::Explicit && is_excluded();
                    let rules = if is_opened { IgnoreRules::defaults() } else { rules.clone() };
                    queue.push_back(QueuedFolder { names: names.iter().cloned().chain([entry.name]).collect(), rules });
                }
                (EntryInterest::Default | EntryInterest::Explicit, RuleTarget::Other) => {
                    let path = format!("{prefix}{shown}");
                    meet(ScannedFile { folder: &folder, name: &entry.name, kind: entry.kind, path: &path });
                }
            }
        }
        if omitted.too_many {
            break;
        }
    }
    omitted.unread_rules = reader.remark();
    Ok(omitted)
}

/// The folder at the end of `names` and its entries, up to one more than the limit.
fn list_folder(
    base: &OpenFolder,
    names: &[OsString],
    room: usize,
) -> Result<(OpenFolder, Vec<FolderEntry>), ToolRefusal> {
    let folder = base.descend(names)?;
    let entries = folder.entries().map_err(|error| ToolRefusal::unreadable("the folder", &error))?;
    let entries = entries.filter_map(Result::ok).take(room + 1).collect();
    Ok((folder, entries))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryInterest {
    None,
    /// Entered unless an ignore rule excludes it.
    Default,
    /// Requested by its own name, so ignore rules do not apply to it.
    Explicit,
}

impl ScanOmissions {
    /// A line for each reason.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.excluded_folders.is_empty() {
            let mut names: Vec<_> =
                self.excluded_folders.iter().take(MAX_NAMED_FOLDERS).map(|name| format!("{name}/")).collect();
            if self.excluded_folders.len() > MAX_NAMED_FOLDERS {
                names.push("…".to_owned());
            }
            remarks.push(format!("[not searched: {}; name one in `path` to search it]", names.join(", ")));
        }
        remarks.extend(excluded_files_remark(self.excluded_files));
        if self.unreadable > 0 {
            remarks.push(format!("[folders that cannot be opened: {}]", self.unreadable));
        }
        if self.too_deep {
            remarks.push(format!("[folders nested {MAX_DEPTH} deep or more are not searched]"));
        }
        if self.too_many {
            remarks.push(format!("[the search ended after {MAX_SCANNED} entries; name a folder in `path`]"));
        }
        remarks.extend(self.unread_rules.clone());
        remarks
    }
}

/// Files excluded by ignore rules are counted, not named.
pub(super) fn excluded_files_remark(files: usize) -> Option<String> {
    (files > 0).then(|| format!("[files that `.gitignore` leaves out: {files}]"))
}

#[cfg(test)]
mod tests;
