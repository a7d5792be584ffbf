//! Going through a folder level by level to look for files, within bounds that the answer tells of.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};

use tokio_util::sync::CancellationToken;

use super::file_runtime::ToolRefusal;
use super::ls::excluded::IgnoreRules;
use crate::folder::{EntryKind, FolderEntry, OpenFolder};
use crate::text::escape_control_chars;

/// After so many entries nothing further is looked at.
const MAX_SCANNED: usize = 100_000;
/// Folders nested deeper are not looked into.
const MAX_DEPTH: usize = 64;
/// So many names of folders left out are told.
const MAX_NAMED_FOLDERS: usize = 8;

/// A file, or a symlink, beneath the folder searched.
#[derive(Debug)]
pub(super) struct ScannedFile<'a> {
    pub(super) folder: &'a OpenFolder,
    pub(super) name: &'a OsStr,
    pub(super) kind: EntryKind,
    /// Relative to the folder searched.
    pub(super) path: &'a str,
}

/// What a tour did not look at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScanOmissions {
    /// Folders of things nobody wrote.
    generated: BTreeSet<String>,
    unreadable: usize,
    too_deep: bool,
    too_many: bool,
}

/// Calls `meet` for every file and symlink under `base`, folder by folder in order of name. `enter` says whether a
/// folder of that name at that depth is of interest at all; symlinks are never followed.
pub(super) fn scan_files(
    base: &OpenFolder,
    stop: &CancellationToken,
    enter: impl Fn(usize, &str) -> FolderInterest,
    mut meet: impl FnMut(ScannedFile<'_>),
) -> Result<ScanOmissions, ToolRefusal> {
    let mut omitted = ScanOmissions::default();
    let mut scanned = 0;
    let mut queue: VecDeque<Vec<OsString>> = VecDeque::from([Vec::new()]);
    while let Some(names) = queue.pop_front() {
        let is_base = names.is_empty();
        let (folder, mut entries) = match list_folder(base, &names, MAX_SCANNED - scanned) {
            Ok(listed) => listed,
            Err(refusal) if is_base => return Err(refusal),
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
        let prefix: String = names.iter().map(|name| name.to_string_lossy() + "/").collect();
        for entry in entries {
            if stop.is_cancelled() {
                return Err(ToolRefusal::cancelled());
            }
            if folder.is_protected(&entry.name) {
                continue;
            }
            let shown = entry.name.to_string_lossy();
            match entry.kind {
                EntryKind::Folder => match enter(names.len(), &shown) {
                    FolderInterest::None => {}
                    FolderInterest::Default if IgnoreRules::is_generated(&shown) => {
                        omitted.generated.insert(escape_control_chars(&entry.name));
                    }
                    FolderInterest::Default | FolderInterest::Explicit if names.len() + 1 >= MAX_DEPTH => {
                        omitted.too_deep = true;
                    }
                    FolderInterest::Default | FolderInterest::Explicit => {
                        queue.push_back(names.iter().cloned().chain([entry.name]).collect());
                    }
                },
                EntryKind::File | EntryKind::Symlink => {
                    let path = format!("{prefix}{shown}");
                    meet(ScannedFile { folder: &folder, name: &entry.name, kind: entry.kind, path: &path });
                }
                EntryKind::Special(_) => {}
            }
        }
        if omitted.too_many {
            break;
        }
    }
    Ok(omitted)
}

/// The folder at the end of `names` and what lies in it, up to one entry more than there is room for.
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
pub(super) enum FolderInterest {
    None,
    Default,
    /// By its own name, so it is looked into whatever it is.
    Explicit,
}

impl ScanOmissions {
    /// A line for each reason.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.generated.is_empty() {
            let mut names: Vec<_> =
                self.generated.iter().take(MAX_NAMED_FOLDERS).map(|name| format!("{name}/")).collect();
            if self.generated.len() > MAX_NAMED_FOLDERS {
                names.push("…".to_owned());
            }
            remarks.push(format!("[not searched: {}; name one in `path` to search it]", names.join(", ")));
        }
        if self.unreadable > 0 {
            remarks.push(format!("[folders that cannot be opened: {}]", self.unreadable));
        }
        if self.too_deep {
            remarks.push(format!("[folders nested {MAX_DEPTH} deep or more are not searched]"));
        }
        if self.too_many {
            remarks.push(format!("[the search ended after {MAX_SCANNED} entries; name a folder in `path`]"));
        }
        remarks
    }
}

#[cfg(test)]
mod tests;
