//! From a patch to changed files: look at everything, prepare everything, then change one file after the other.

use std::collections::HashSet;

use tokio_util::sync::CancellationToken;

use super::super::bench::content::{entry_place, file_place, text_of, within_limit};
use super::super::bench::{Refusal, Turns};
use super::chunk::patched;
use super::parse::{Change, Patch};
use crate::folder::{EntryKind, Identity, Over, PathError, Place, Staged, WorkFolder};

/// Files of one patch together, before and after; a larger patch is refused.
const MAX_TOTAL_BYTES: usize = 64 * 1024 * 1024;

/// A change and the places it is about.
struct Sited<'a> {
    change: &'a Change,
    place: Place,
    target: Option<Place>,
}

/// A change that only has to be put into effect.
struct Prepared<'a> {
    sited: &'a Sited<'a>,
    /// New content beside its place.
    staged: Option<Staged>,
}

pub(super) fn carry_out(
    turns: &Turns,
    folder: &WorkFolder,
    patch: &Patch,
    stop: &CancellationToken,
) -> Result<(), Refusal> {
    let look = || patch.changes.iter().map(|change| Sited::find(folder, change)).collect::<Result<Vec<_>, _>>();
    let unchanged = |Refusal(reason): Refusal| Refusal(format!("{reason}; nothing was changed"));
    let waited = turns.wait_for(look, |sited| sited.iter().flat_map(Sited::places).collect());
    let (_turn, sited) = waited.map_err(unchanged)?;
    let holders = folder.holders()?;
    each_named_once(&sited).map_err(unchanged)?;
    let contents = contents(&sited, stop).map_err(unchanged)?;
    let mut prepared = Vec::new();
    for (sited, content) in sited.iter().zip(contents) {
        let staged = content.map(|content| sited.place.stage(content.as_bytes(), stop)).transpose();
        prepared.push(Prepared { sited, staged: staged.map_err(|error| unchanged(error.into()))? });
    }
    if stop.is_cancelled() {
        return Err(Refusal::cancelled());
    }
    let mut done = Vec::new();
    for prepared in prepared {
        let shown = prepared.sited.place.shown();
        prepared.settle(&holders).map_err(|error| match done.as_slice() {
            [] => unchanged(error.into()),
            done => Refusal(format!("{error}; the patch is applied only to {}", done.join(", "))),
        })?;
        done.push(shown);
    }
    Ok(())
}

impl<'a> Sited<'a> {
    fn find(folder: &WorkFolder, change: &'a Change) -> Result<Self, Refusal> {
        let (place, target) = match change {
            Change::Add { path, .. } => (file_place(folder, path)?, None),
            Change::Delete { path } => (entry_place(folder, path)?, None),
            Change::Update { path, move_to, .. } => {
                let target = move_to.as_ref().map(|target| entry_place(folder, target)).transpose()?;
                (file_place(folder, path)?, target)
            }
        };
        let exists = |place: &Place| Refusal::from(PathError::Exists { path: place.shown() });
        match (change, place.kind()) {
            (Change::Add { .. }, Some(_)) => return Err(exists(&place)),
            (Change::Delete { .. }, Some(EntryKind::Folder)) => {
                return Err(PathError::IsAFolder { path: place.shown() }.into());
            }
            (Change::Delete { .. } | Change::Update { .. }, None) => {
                return Err(PathError::Missing { path: place.shown() }.into());
            }
            (Change::Add { .. }, None) | (Change::Delete { .. } | Change::Update { .. }, Some(_)) => {}
        }
        match &target {
            Some(target) if target.kind().is_some() => Err(exists(target)),
            Some(_) | None => Ok(Self { change, place, target }),
        }
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(&self.place).chain(&self.target)
    }
}

/// What one change does to a file another one would have to know, so there are no two.
fn each_named_once(sited: &[Sited<'_>]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    match sited.iter().flat_map(Sited::places).find(|place| !seen.insert(place.key())) {
        Some(twice) => Err(Refusal(format!("{} is named twice in the patch", twice.shown()))),
        None => Ok(()),
    }
}

/// The new content of each file that gets one.
fn contents(sited: &[Sited<'_>], stop: &CancellationToken) -> Result<Vec<Option<String>>, Refusal> {
    let mut total = 0;
    let mut contents = Vec::new();
    for Sited { change, place, .. } in sited {
        let content = match change {
            Change::Delete { .. } => None,
            Change::Add { content, .. } => Some(content.clone()),
            // Only moved.
            Change::Update { chunks, .. } if chunks.is_empty() => None,
            Change::Update { chunks, .. } => {
                let before = text_of(place, stop)?;
                total += before.len();
                let after = patched(&before, chunks);
                Some(after.map_err(|error| Refusal(format!("{} does not fit the patch: {error}", place.shown())))?)
            }
        };
        if let Some(content) = &content {
            within_limit(place, content.len())?;
            total += content.len();
        }
        if total > MAX_TOTAL_BYTES {
            return Err(Refusal(format!("the files of the patch are larger than {MAX_TOTAL_BYTES} bytes together")));
        }
        contents.push(content);
    }
    Ok(contents)
}

impl Prepared<'_> {
    fn settle(self, holders: &HashSet<Identity>) -> Result<(), PathError> {
        let Sited { change, place, target } = self.sited;
        if let Some(staged) = self.staged {
            let over = if matches!(change, Change::Add { .. }) { Over::Nothing } else { Over::Anything };
            staged.settle(over)?;
        }
        match (change, target) {
            (Change::Delete { .. }, _) => place.delete(holders),
            (Change::Update { .. }, Some(target)) => place.move_to(target, holders),
            (Change::Add { .. } | Change::Update { .. }, _) => Ok(()),
        }
    }
}
