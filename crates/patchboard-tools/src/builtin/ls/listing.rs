//! Lists folders breadth-first, so that a huge nested folder never displaces what lies above it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::super::ignore_rules::{IgnoreReader, IgnoreRules, RuleTarget};
use super::excluded::ExcludedPatterns;
use crate::folder::{EntryKind, FolderEntry, OpenFolder};
use crate::text::escape_control_chars;

/// Further entries are counted, not shown.
pub(super) const MAX_FILES: usize = 100;
pub(super) const MAX_FOLDERS: usize = 100;
/// The scan ends after this many entries; counts are then lower bounds.
pub(super) const MAX_SCANNED: usize = 20_000;

/// The listed folder and its descendants. `nodes[0]` is the folder itself.
#[derive(Debug)]
pub(super) struct FolderListing {
    pub(super) nodes: Vec<FolderNode>,
    pub(super) files: usize,
    pub(super) folders: usize,
    /// Excluded by ignore rules; neither shown nor included in the counts of omitted entries.
    pub(super) excluded_files: usize,
    pub(super) extent: ListingExtent,
    pub(super) unread_rules: Option<String>,
}

/// One folder that is shown.
#[derive(Debug, Default)]
pub(super) struct FolderNode {
    pub(super) name: String,
    /// Indexes into `FolderListing::nodes`, in order of name.
    pub(super) folders: Vec<usize>,
    pub(super) files: Vec<String>,
    pub(super) more_folders: usize,
    pub(super) more_files: usize,
    pub(super) state: NodeState,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum NodeState {
    #[default]
    Listed,
    /// The scan ended in the middle of it.
    PartlyListed,
    /// The reason why its entries are not shown.
    NotListed(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListingExtent {
    Full,
    Partial,
}

/// A shown folder that is still to be listed: its node, the names that lead to it, and the rules around it.
struct QueuedFolder {
    node: usize,
    names: Vec<OsString>,
    rules: IgnoreRules,
}

/// State of a scan.
struct ListingScan<'a> {
    listing: FolderListing,
    excluded: &'a ExcludedPatterns,
    reader: IgnoreReader,
    queue: VecDeque<QueuedFolder>,
    scanned: usize,
}

impl FolderListing {
    /// `rules` are those around `listed`. Fails only if `listed` itself cannot be read; an error further down is shown
    /// in the tree.
    pub(super) fn scan(
        listed: &OpenFolder,
        rules: IgnoreRules,
        reader: IgnoreReader,
        excluded: &ExcludedPatterns,
        stop: &CancellationToken,
    ) -> io::Result<Self> {
        let listing = Self {
            nodes: vec![FolderNode::default()],
            files: 0,
            folders: 0,
            excluded_files: 0,
            extent: ListingExtent::Full,
            unread_rules: None,
        };
        let mut scan = ListingScan { listing, excluded, reader, queue: VecDeque::new(), scanned: 0 };
        scan.list(listed, &QueuedFolder { node: 0, names: Vec::new(), rules })?;
        while let Some(next) = scan.queue.pop_front() {
            if stop.is_cancelled() {
                break;
            }
            if scan.scanned >= MAX_SCANNED {
                scan.mark_not_listed(next.node, "not listed");
                continue;
            }
            let listed = match listed.descend(&next.names) {
                Ok(folder) => scan.list(&folder, &next).map_err(|_| "cannot be listed"),
                Err(error) if error.is_protected() => Err("closed to tools"),
                Err(_) => Err("cannot be opened"),
            };
            if let Err(reason) = listed {
                scan.mark_not_listed(next.node, reason);
            }
        }
        scan.listing.unread_rules = scan.reader.remark();
        Ok(scan.listing)
    }
}

impl ListingScan<'_> {
    fn list(&mut self, folder: &OpenFolder, queued: &QueuedFolder) -> io::Result<()> {
        let rules = self.reader.enter(folder, &queued.rules);
        let (folders, others, state) = self.read_entries(folder, queued, &rules)?;
        let mut node = FolderNode { state, ..FolderNode::default() };
        for name in folders {
            if self.listing.folders == MAX_FOLDERS {
                node.more_folders += 1;
                continue;
            }
            self.listing.folders += 1;
            node.folders.push(self.add_folder(folder, queued, name, &rules));
        }
        for entry in others {
            if self.listing.files == MAX_FILES {
                node.more_files += 1;
                continue;
            }
            self.listing.files += 1;
            node.files.push(entry_label(folder, &entry.name, entry.kind));
        }
        if node.more_folders + node.more_files > 0 {
            self.listing.extent = ListingExtent::Partial;
        }
        if let Some(slot) = self.listing.nodes.get_mut(queued.node) {
            node.name = std::mem::take(&mut slot.name);
            *slot = node;
        }
        Ok(())
    }

    /// The folders and the other entries that are not excluded, each in order of name.
    fn read_entries(
        &mut self,
        folder: &OpenFolder,
        queued: &QueuedFolder,
        rules: &IgnoreRules,
    ) -> io::Result<(Vec<OsString>, Vec<FolderEntry>, NodeState)> {
        let prefix: String = queued.names.iter().map(|name| name.to_string_lossy() + "/").collect();
        let (mut folders, mut others) = (Vec::new(), Vec::new());
        let mut state = NodeState::Listed;
        for entry in folder.entries()? {
            if self.scanned >= MAX_SCANNED {
                state = NodeState::PartlyListed;
                self.listing.extent = ListingExtent::Partial;
                break;
            }
            self.scanned += 1;
            let entry = entry?;
            let target = if entry.kind == EntryKind::Folder { RuleTarget::Folder } else { RuleTarget::Other };
            if self.excluded.contains(&format!("{prefix}{}", entry.name.to_string_lossy()), target) {
                continue;
            }
            match target {
                RuleTarget::Folder => folders.push(entry.name),
                RuleTarget::Other if rules.excludes(&path_of(folder, &entry.name), target) => {
                    self.listing.excluded_files += 1;
                }
                RuleTarget::Other => others.push(entry),
            }
        }
        folders.sort_unstable();
        others.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        Ok((folders, others, state))
    }

    fn add_folder(&mut self, parent: &OpenFolder, queued: &QueuedFolder, name: OsString, rules: &IgnoreRules) -> usize {
        let node = self.listing.nodes.len();
        let shown = escape_control_chars(&name);
        let mut state = NodeState::Listed;
        if parent.is_protected(&name) {
            state = NodeState::NotListed("closed to tools");
        } else if rules.excludes(&path_of(parent, &name), RuleTarget::Folder) {
            state = NodeState::NotListed("not listed");
        } else {
            let names = queued.names.iter().cloned().chain([name]).collect();
            self.queue.push_back(QueuedFolder { node, names, rules: rules.clone() });
        }
        self.listing.nodes.push(FolderNode { name: shown, state, ..FolderNode::default() });
        node
    }

    fn mark_not_listed(&mut self, node: usize, reason: &'static str) {
        self.listing.extent = ListingExtent::Partial;
        if let Some(node) = self.listing.nodes.get_mut(node) {
            node.state = NodeState::NotListed(reason);
        }
    }
}

/// Path relative to the working folder.
fn path_of(folder: &OpenFolder, name: &OsStr) -> PathBuf {
    folder.trail().iter().map(OsString::as_os_str).chain([name]).collect()
}

fn entry_label(folder: &OpenFolder, name: &OsString, kind: EntryKind) -> String {
    let text = escape_control_chars(name);
    match kind {
        _ if folder.is_protected(name) => text + " (closed to tools)",
        EntryKind::Folder | EntryKind::File => text,
        EntryKind::Symlink => text + "@",
        EntryKind::Special(kind) => format!("{text} ({kind})"),
    }
}
