//! Executes a patch: validates all changes, stages all new content, then commits one file after the other.

use std::collections::HashSet;

use tokio_util::sync::CancellationToken;

use super::super::file_runtime::content::{check_size, entry_target, file_target, read_text};
use super::super::file_runtime::{FileLocks, ToolRefusal};
use super::chunk::apply_chunks;
use super::parse::{FileChange, Patch};
use crate::folder::{EntryKind, FileIdentity, OverwriteMode, PathError, PathTarget, StagedFile, WorkFolder};

/// Size of all files of one patch, before and after; a larger patch is refused.
const MAX_TOTAL_BYTES: usize = 64 * 1024 * 1024;

/// A change with its resolved paths.
struct ResolvedChange<'a> {
    change: &'a FileChange,
    source: PathTarget,
    target: Option<PathTarget>,
}

/// A change that only has to be committed.
struct StagedChange<'a> {
    resolved: &'a ResolvedChange<'a>,
    /// New content, in a temporary file beside its target.
    staged: Option<StagedFile>,
}

pub(super) fn execute(
    turns: &FileLocks,
    folder: &WorkFolder,
    patch: &Patch,
    stop: &CancellationToken,
) -> Result<(), ToolRefusal> {
    let look =
        || patch.changes.iter().map(|change| ResolvedChange::resolve(folder, change)).collect::<Result<Vec<_>, _>>();
    let unchanged = |ToolRefusal(reason): ToolRefusal| ToolRefusal(format!("{reason}; nothing was changed"));
    let waited = turns.lock_targets(look, |sited| sited.iter().flat_map(ResolvedChange::targets).collect());
    let (_turn, sited) = waited.map_err(unchanged)?;
    let holders = folder.protected_ancestors()?;
    check_distinct(&sited).map_err(unchanged)?;
    let contents = new_contents(&sited, stop).map_err(unchanged)?;
    let mut prepared = Vec::new();
    for (sited, content) in sited.iter().zip(contents) {
        let staged = content.map(|content| sited.source.stage(content.as_bytes(), stop)).transpose();
        prepared.push(StagedChange { resolved: sited, staged: staged.map_err(|error| unchanged(error.into()))? });
    }
    if stop.is_cancelled() {
        return Err(ToolRefusal::cancelled());
    }
    let mut done = Vec::new();
    for prepared in prepared {
        let shown = prepared.resolved.source.display_path();
        prepared.commit(&holders).map_err(|error| match done.as_slice() {
            [] => unchanged(error.into()),
            done => ToolRefusal(format!("{error}; the patch is applied only to {}", done.join(", "))),
        })?;
        done.push(shown);
    }
    Ok(())
}

impl<'a> ResolvedChange<'a> {
    fn resolve(folder: &WorkFolder, change: &'a FileChange) -> Result<Self, ToolRefusal> {
        let (place, target) = match change {
            FileChange::Add { path, .. } => (file_target(folder, path)?, None),
            FileChange::Delete { path } => (entry_target(folder, path)?, None),
            FileChange::Update { path, move_to, .. } => {
                let target = move_to.as_ref().map(|target| entry_target(folder, target)).transpose()?;
                (file_target(folder, path)?, target)
            }
        };
        let exists = |place: &PathTarget| ToolRefusal::from(PathError::Exists { path: place.display_path() });
        match (change, place.kind()) {
            (FileChange::Add { .. }, Some(_)) => return Err(exists(&place)),
            (FileChange::Delete { .. }, Some(EntryKind::Folder)) => {
                return Err(PathError::IsAFolder { path: place.display_path() }.into());
            }
            (FileChange::Delete { .. } | FileChange::Update { .. }, None) => {
                return Err(PathError::Missing { path: place.display_path() }.into());
            }
            (FileChange::Add { .. }, None) | (FileChange::Delete { .. } | FileChange::Update { .. }, Some(_)) => {}
        }
        match &target {
            Some(target) if target.kind().is_some() => Err(exists(target)),
            Some(_) | None => Ok(Self { change, source: place, target }),
        }
    }

    fn targets(&self) -> impl Iterator<Item = &PathTarget> {
        std::iter::once(&self.source).chain(&self.target)
    }
}

/// Refuses two changes of one file, because the second would have to build on the first.
fn check_distinct(sited: &[ResolvedChange<'_>]) -> Result<(), ToolRefusal> {
    let mut seen = HashSet::new();
    match sited.iter().flat_map(ResolvedChange::targets).find(|place| !seen.insert(place.lock_key())) {
        Some(twice) => Err(ToolRefusal(format!("{} is named twice in the patch", twice.display_path()))),
        None => Ok(()),
    }
}

/// The new content of each file; `None` if it does not change.
fn new_contents(sited: &[ResolvedChange<'_>], stop: &CancellationToken) -> Result<Vec<Option<String>>, ToolRefusal> {
    let mut total = 0;
    let mut contents = Vec::new();
    for ResolvedChange { change, source: place, .. } in sited {
        let content = match change {
            FileChange::Delete { .. } => None,
            FileChange::Add { content, .. } => Some(content.clone()),
            // Only moved.
            FileChange::Update { chunks, .. } if chunks.is_empty() => None,
            FileChange::Update { chunks, .. } => {
                let before = read_text(place, stop)?;
                total += before.len();
                let after = apply_chunks(&before, chunks);
                Some(after.map_err(|error| {
                    ToolRefusal(format!("{} does not fit the patch: {error}", place.display_path()))
                })?)
            }
        };
        if let Some(content) = &content {
            check_size(place, content.len())?;
            total += content.len();
        }
        if total > MAX_TOTAL_BYTES {
            return Err(ToolRefusal(format!(
                "the files of the patch are larger than {MAX_TOTAL_BYTES} bytes together"
            )));
        }
        contents.push(content);
    }
    Ok(contents)
}

impl StagedChange<'_> {
    fn commit(self, holders: &HashSet<FileIdentity>) -> Result<(), PathError> {
        let ResolvedChange { change, source: place, target } = self.resolved;
        if let Some(staged) = self.staged {
            let over = if matches!(change, FileChange::Add { .. }) {
                OverwriteMode::NoReplace
            } else {
                OverwriteMode::Replace
            };
            staged.commit(over)?;
        }
        match (change, target) {
            (FileChange::Delete { .. }, _) => place.delete(holders),
            (FileChange::Update { .. }, Some(target)) => place.move_to(target, holders),
            (FileChange::Add { .. } | FileChange::Update { .. }, _) => Ok(()),
        }
    }
}
