//! Looks through folders level by level, so that a huge one deep down never crowds out what lies above it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;

use tokio_util::sync::CancellationToken;

use super::excluded::{IgnoreRules, ListedKind};
use crate::folder::{EntryKind, OpenFolder};
use crate::text::escape_control_chars;

/// More are counted, not shown.
pub(super) const MAX_FILES: usize = 100;
pub(super) const MAX_FOLDERS: usize = 100;
/// After so many entries nothing further is looked at; counts are then lower bounds.
pub(super) const MAX_SCANNED: usize = 20_000;

/// The listed folder and what was found beneath it. `places[0]` is the folder itself.
#[derive(Debug)]
pub(super) struct FolderListing {
    pub(super) nodes: Vec<FolderNode>,
    pub(super) files: usize,
    pub(super) folders: usize,
    pub(super) extent: ListingExtent,
    scanned: usize,
}

/// One folder that is shown.
#[derive(Debug, Default)]
pub(super) struct FolderNode {
    pub(super) name: String,
    /// Indexes into `Survey::places`, in order of name.
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
    /// In words: why what lies in it is not shown.
    NotListed(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListingExtent {
    Full,
    Partial,
}

/// A shown folder still to be looked into: its place, and the names that lead to it.
struct QueuedFolder {
    node: usize,
    names: Vec<OsString>,
}

impl FolderListing {
    /// Fails only when the listed folder itself cannot be; trouble further down is told in the tree.
    pub(super) fn scan(listed: &OpenFolder, ignore: &IgnoreRules, stop: &CancellationToken) -> io::Result<Self> {
        let places = vec![FolderNode::default()];
        let mut survey = Self { nodes: places, files: 0, folders: 0, extent: ListingExtent::Full, scanned: 0 };
        let mut queue = VecDeque::new();
        survey.scan_folder(listed, QueuedFolder { node: 0, names: Vec::new() }, ignore, &mut queue)?;
        while let Some(ahead) = queue.pop_front() {
            if stop.is_cancelled() {
                break;
            }
            let place = ahead.node;
            if survey.scanned >= MAX_SCANNED {
                survey.mark_not_listed(place, "not listed");
                continue;
            }
            let looked = match listed.descend(&ahead.names) {
                Ok(folder) => survey.scan_folder(&folder, ahead, ignore, &mut queue).map_err(|_| "cannot be listed"),
                Err(error) if error.is_protected() => Err("closed to tools"),
                Err(_) => Err("cannot be opened"),
            };
            if let Err(reason) = looked {
                survey.mark_not_listed(place, reason);
            }
        }
        Ok(survey)
    }

    fn scan_folder(
        &mut self,
        folder: &OpenFolder,
        ahead: QueuedFolder,
        ignore: &IgnoreRules,
        queue: &mut VecDeque<QueuedFolder>,
    ) -> io::Result<()> {
        let prefix: String = ahead.names.iter().map(|name| name.to_string_lossy() + "/").collect();
        let (mut folders, mut others) = (Vec::new(), Vec::new());
        let mut state = NodeState::Listed;
        for entry in folder.entries()? {
            if self.scanned >= MAX_SCANNED {
                state = NodeState::PartlyListed;
                self.extent = ListingExtent::Partial;
                break;
            }
            self.scanned += 1;
            let entry = entry?;
            let is = if entry.kind == EntryKind::Folder { ListedKind::Folder } else { ListedKind::Other };
            if ignore.excludes(&format!("{prefix}{}", entry.name.to_string_lossy()), is) {
                continue;
            }
            match is {
                ListedKind::Folder => folders.push(entry.name),
                ListedKind::Other => others.push(entry),
            }
        }
        folders.sort_unstable();
        others.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        let mut place = FolderNode { state, ..FolderNode::default() };
        for name in folders {
            if self.folders == MAX_FOLDERS {
                place.more_folders += 1;
                continue;
            }
            self.folders += 1;
            place.folders.push(self.add_folder(folder, &ahead.names, name, queue));
        }
        for entry in others {
            if self.files == MAX_FILES {
                place.more_files += 1;
                continue;
            }
            self.files += 1;
            place.files.push(entry_label(folder, &entry.name, entry.kind));
        }
        if place.more_folders + place.more_files > 0 {
            self.extent = ListingExtent::Partial;
        }
        if let Some(slot) = self.nodes.get_mut(ahead.node) {
            place.name = std::mem::take(&mut slot.name);
            *slot = place;
        }
        Ok(())
    }

    fn add_folder(
        &mut self,
        parent: &OpenFolder,
        parent_names: &[OsString],
        name: OsString,
        queue: &mut VecDeque<QueuedFolder>,
    ) -> usize {
        let place = self.nodes.len();
        let shown = escape_control_chars(&name);
        let mut state = NodeState::Listed;
        if parent.is_protected(&name) {
            state = NodeState::NotListed("closed to tools");
        } else if IgnoreRules::is_generated(&shown) {
            state = NodeState::NotListed("not listed");
        } else {
            let names = parent_names.iter().cloned().chain([name]).collect();
            queue.push_back(QueuedFolder { node: place, names });
        }
        self.nodes.push(FolderNode { name: shown, state, ..FolderNode::default() });
        place
    }

    fn mark_not_listed(&mut self, place: usize, reason: &'static str) {
        self.extent = ListingExtent::Partial;
        if let Some(place) = self.nodes.get_mut(place) {
            place.state = NodeState::NotListed(reason);
        }
    }
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
