//! Looks through folders level by level, so that a huge one deep down never crowds out what lies above it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;

use tokio_util::sync::CancellationToken;

use super::ignore::{Ignore, Is};
use crate::folder::{EntryKind, Folder};
use crate::words::plain;

/// More are counted, not shown.
pub(super) const MAX_FILES: usize = 100;
pub(super) const MAX_FOLDERS: usize = 100;
/// After so many entries nothing further is looked at; counts are then lower bounds.
pub(super) const MAX_SCANNED: usize = 20_000;

/// The listed folder and what was found beneath it. `places[0]` is the folder itself.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) places: Vec<Place>,
    pub(super) files: usize,
    pub(super) folders: usize,
    pub(super) complete: Complete,
    scanned: usize,
}

/// One folder that is shown.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) name: String,
    /// Indexes into `Survey::places`, in order of name.
    pub(super) folders: Vec<usize>,
    pub(super) files: Vec<String>,
    pub(super) more_folders: usize,
    pub(super) more_files: usize,
    pub(super) state: State,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Listed,
    /// The scan ended in the middle of it.
    PartlyListed,
    /// In words: why what lies in it is not shown.
    NotListed(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Complete {
    Yes,
    No,
}

/// A shown folder still to be looked into: its place, and the names that lead to it.
struct Ahead {
    place: usize,
    names: Vec<OsString>,
}

impl Survey {
    /// Fails only when the listed folder itself cannot be; trouble further down is told in the tree.
    pub(super) fn of(listed: &Folder, ignore: &Ignore, stop: &CancellationToken) -> io::Result<Self> {
        let places = vec![Place::default()];
        let mut survey = Self { places, files: 0, folders: 0, complete: Complete::Yes, scanned: 0 };
        let mut queue = VecDeque::new();
        survey.look(listed, Ahead { place: 0, names: Vec::new() }, ignore, &mut queue)?;
        while let Some(ahead) = queue.pop_front() {
            if stop.is_cancelled() {
                break;
            }
            let place = ahead.place;
            if survey.scanned >= MAX_SCANNED {
                survey.close(place, "not listed");
                continue;
            }
            let looked = match listed.descend(&ahead.names) {
                Ok(folder) => survey.look(&folder, ahead, ignore, &mut queue).map_err(|_| "cannot be listed"),
                Err(error) if error.is_protected() => Err("closed to tools"),
                Err(_) => Err("cannot be opened"),
            };
            if let Err(reason) = looked {
                survey.close(place, reason);
            }
        }
        Ok(survey)
    }

    fn look(&mut self, folder: &Folder, ahead: Ahead, ignore: &Ignore, queue: &mut VecDeque<Ahead>) -> io::Result<()> {
        let prefix: String = ahead.names.iter().map(|name| name.to_string_lossy() + "/").collect();
        let (mut folders, mut others) = (Vec::new(), Vec::new());
        let mut state = State::Listed;
        for entry in folder.entries()? {
            if self.scanned >= MAX_SCANNED {
                state = State::PartlyListed;
                self.complete = Complete::No;
                break;
            }
            self.scanned += 1;
            let entry = entry?;
            let is = if entry.kind == EntryKind::Folder { Is::Folder } else { Is::SomethingElse };
            if ignore.leaves_out(&format!("{prefix}{}", entry.name.to_string_lossy()), is) {
                continue;
            }
            match is {
                Is::Folder => folders.push(entry.name),
                Is::SomethingElse => others.push(entry),
            }
        }
        folders.sort_unstable();
        others.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        let mut place = Place { state, ..Place::default() };
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
            place.files.push(shown(folder, &entry.name, entry.kind));
        }
        if place.more_folders + place.more_files > 0 {
            self.complete = Complete::No;
        }
        if let Some(slot) = self.places.get_mut(ahead.place) {
            place.name = std::mem::take(&mut slot.name);
            *slot = place;
        }
        Ok(())
    }

    fn add_folder(
        &mut self,
        parent: &Folder,
        parent_names: &[OsString],
        name: OsString,
        queue: &mut VecDeque<Ahead>,
    ) -> usize {
        let place = self.places.len();
        let shown = plain(&name);
        let mut state = State::Listed;
        if parent.is_protected(&name) {
            state = State::NotListed("closed to tools");
        } else if Ignore::leaves_closed(&shown) {
            state = State::NotListed("not listed");
        } else {
            let names = parent_names.iter().cloned().chain([name]).collect();
            queue.push_back(Ahead { place, names });
        }
        self.places.push(Place { name: shown, state, ..Place::default() });
        place
    }

    fn close(&mut self, place: usize, reason: &'static str) {
        self.complete = Complete::No;
        if let Some(place) = self.places.get_mut(place) {
            place.state = State::NotListed(reason);
        }
    }
}

fn shown(folder: &Folder, name: &OsString, kind: EntryKind) -> String {
    let text = plain(name);
    match kind {
        _ if folder.is_protected(name) => text + " (closed to tools)",
        EntryKind::Folder | EntryKind::File => text,
        EntryKind::Symlink => text + "@",
        EntryKind::Special(kind) => format!("{text} ({kind})"),
    }
}
