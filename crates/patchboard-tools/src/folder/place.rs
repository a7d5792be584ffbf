//! A place in the folder that is going to change: a directory that is open, and a name in it.
//!
//! Every change is made through that descriptor by name, so whatever takes the name's place meanwhile, the change happens
//! in that directory or not at all. Files are written beside their place and moved into it whole.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::protected::{Identity, Snapshot};
use super::refusal::PathError;
use super::spot::{EntryKind, Over, Spot, StepError};
use crate::words::quoted;

/// A folder with more in it is not deleted in one go.
const MAX_DELETED: usize = 50_000;
/// Every level keeps a directory open.
const MAX_DEPTH: usize = 128;
const WRITTEN_AT_ONCE: usize = 1024 * 1024;
/// Names tried for a file that is being written; others were left behind by a crash.
const MAX_TRIES: usize = 100;
/// What a write keeps of a file's mode. The kernel, too, takes the set-id bits from a file that is written.
const KEPT_MODE: u32 = 0o777;

#[derive(Debug)]
pub(crate) struct Place {
    spot: Arc<Spot>,
    /// From `spot` to the place: all but the last are folders that do not exist yet.
    names: Vec<OsString>,
    /// From the working folder, for messages.
    path: PathBuf,
    kind: Option<EntryKind>,
    snapshot: Arc<Snapshot>,
}

/// New content beside its place. Dropped, it is gone without a trace.
#[derive(Debug)]
pub(crate) struct Staged {
    spot: Arc<Spot>,
    temporary: OsString,
    name: OsString,
    shown: String,
    is_settled: bool,
}

impl Place {
    pub(super) fn new(
        spot: Arc<Spot>,
        names: Vec<OsString>,
        path: PathBuf,
        kind: Option<EntryKind>,
        snapshot: Arc<Snapshot>,
    ) -> Self {
        Self { spot, names, path, kind, snapshot }
    }

    /// A protected file stays closed under each of its names.
    pub(super) fn judged(self) -> Result<Self, PathError> {
        match self.identity()? {
            Some(identity) if self.snapshot.holds(identity) => Err(PathError::Protected { path: self.shown() }),
            Some(_) | None => Ok(self),
        }
    }

    /// What was there when the place was looked up.
    pub(crate) fn kind(&self) -> Option<EntryKind> {
        self.kind
    }

    /// The path in backticks, for messages.
    pub(crate) fn shown(&self) -> String {
        quoted(&self.path)
    }

    /// Names the place whatever path led to it, as long as it is looked up from the same directories.
    pub(crate) fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.spot.identity(), &self.names).hash(&mut hasher);
        hasher.finish()
    }

    pub(crate) fn open(&self) -> Result<File, PathError> {
        let opened = self.spot.open_file(self.name(), &self.snapshot);
        opened.map_err(|step| step.told_as(self.shown(), "opened"))
    }

    /// Writes `content` beside the place, making the folders on the way. An existing file gives its mode, if it may be
    /// written at all.
    pub(crate) fn stage(&self, content: &[u8], stop: &CancellationToken) -> Result<Staged, PathError> {
        let failed = |step: StepError| step.told_as(self.shown(), "written");
        let mode = match self.kind {
            Some(EntryKind::File) => {
                let existing = self.spot.open_to_replace(self.name(), &self.snapshot).map_err(failed)?;
                let mode = existing.metadata().map_err(|error| failed(error.into()))?.permissions().mode();
                Some(Permissions::from_mode(mode & KEPT_MODE))
            }
            Some(EntryKind::Folder) => return Err(PathError::IsAFolder { path: self.shown() }),
            Some(EntryKind::Special(kind)) => return Err(PathError::Special { path: self.shown(), kind }),
            Some(EntryKind::Symlink) | None => None,
        };
        let spot = self.make_way()?;
        let (temporary, mut file) = temporary_file(&spot).map_err(failed)?;
        let (name, shown) = (self.name().to_owned(), self.shown());
        // From here on whatever fails takes the temporary file away.
        let staged = Staged { spot, temporary, name, shown, is_settled: false };
        for piece in content.chunks(WRITTEN_AT_ONCE) {
            if stop.is_cancelled() {
                return Err(PathError::Cancelled);
            }
            file.write_all(piece).map_err(|error| failed(error.into()))?;
        }
        if let Some(mode) = mode {
            file.set_permissions(mode).map_err(|error| failed(error.into()))?;
        }
        // A power cut after the renaming must not find the name without its content.
        file.sync_data().map_err(|error| failed(error.into()))?;
        Ok(staged)
    }

    /// Makes the folder, and those on the way.
    pub(crate) fn make_folder(&self) -> Result<(), PathError> {
        let spot = self.make_way()?;
        spot.make_folder(self.name()).map_err(|step| step.told_as(self.shown(), "made"))
    }

    /// Moves what is here to `target`, where nothing may be.
    pub(crate) fn move_to(&self, target: &Place, holders: &HashSet<Identity>) -> Result<(), PathError> {
        self.refuse_holder(holders)?;
        let spot = target.make_way()?;
        let moved = self.spot.rename(self.name(), &spot, target.name(), Over::Nothing);
        let Err(StepError::Os(error)) = moved else { return moved.map_err(|step| step.told_as(self.shown(), "moved")) };
        Err(match error {
            Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR => PathError::Exists { path: target.shown() },
            Errno::INVAL => self.not_moved("a folder cannot be moved into itself"),
            Errno::XDEV => self.not_moved("the target lies on another file system"),
            other => StepError::Os(other).told_as(self.shown(), "moved"),
        })
    }

    /// Deletes a file, a symlink itself, or an empty folder.
    pub(crate) fn delete(&self, holders: &HashSet<Identity>) -> Result<(), PathError> {
        self.refuse_holder(holders)?;
        let kind = self.kind.unwrap_or(EntryKind::File);
        self.spot.unlink(self.name(), kind).map_err(|step| step.told_as(self.shown(), "deleted"))
    }

    /// Deletes a folder with all that lies in it. Looks at everything first, so that a folder too large, or one that
    /// holds what is protected, is refused whole.
    pub(crate) fn delete_tree(&self, holders: &HashSet<Identity>, stop: &CancellationToken) -> Result<(), PathError> {
        self.refuse_holder(holders)?;
        let mut tree = Tree { place: self, stop, left: MAX_DELETED };
        tree.visit(&self.spot, self.name(), MAX_DEPTH, Deed::Look)?;
        tree.left = MAX_DELETED;
        tree.visit(&self.spot, self.name(), MAX_DEPTH, Deed::Delete)
    }

    fn refuse_holder(&self, holders: &HashSet<Identity>) -> Result<(), PathError> {
        match self.identity()? {
            Some(identity) if holders.contains(&identity) => Err(PathError::HoldsProtected { path: self.shown() }),
            Some(_) => Ok(()),
            None => Err(PathError::Missing { path: self.shown() }),
        }
    }

    fn identity(&self) -> Result<Option<Identity>, PathError> {
        if self.kind.is_none() {
            return Ok(None);
        }
        match self.spot.identity_of(self.name()) {
            Ok(identity) => Ok(Some(identity)),
            Err(StepError::Os(Errno::NOENT)) => Ok(None),
            Err(other) => Err(other.told_as(self.shown(), "opened")),
        }
    }

    /// The directory of the place, made if need be. Each new directory is entered as what was made, or found, there.
    fn make_way(&self) -> Result<Arc<Spot>, PathError> {
        let mut spot = self.spot.clone();
        for name in self.names.iter().take(self.names.len().saturating_sub(1)) {
            let made = match spot.make_folder(name) {
                // Somebody was faster.
                Ok(()) | Err(StepError::Os(Errno::EXIST)) => spot.enter(name, &self.snapshot),
                Err(other) => Err(other),
            };
            spot = Arc::new(made.map_err(|step| step.told_as(self.shown(), "made"))?);
        }
        Ok(spot)
    }

    fn name(&self) -> &OsStr {
        // A place always has a name; the empty one would be refused by every step.
        self.names.last().map_or(OsStr::new(""), OsString::as_os_str)
    }

    fn not_moved(&self, reason: &str) -> PathError {
        PathError::Failed { path: self.shown(), deed: "moved", reason: reason.to_owned() }
    }
}

impl Staged {
    /// Puts the content in its place.
    pub(crate) fn settle(mut self, over: Over) -> Result<(), PathError> {
        let renamed = self.spot.rename(&self.temporary, &self.spot, &self.name, over);
        self.is_settled = renamed.is_ok();
        renamed.map_err(|step| step.told_as(std::mem::take(&mut self.shown), "written"))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_settled
            && let Err(error) = self.spot.unlink(&self.temporary, EntryKind::File)
        {
            tracing::warn!(?error, file = %self.shown, "temporary file stays behind");
        }
    }
}

fn temporary_file(spot: &Spot) -> Result<(OsString, File), StepError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut last = StepError::Changed;
    for _ in 0..MAX_TRIES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".patchboard-{}-{number}.tmp", std::process::id()));
        match spot.create_file(&name) {
            Ok(file) => return Ok((name, file)),
            Err(StepError::Os(Errno::EXIST)) => last = StepError::Os(Errno::EXIST),
            Err(other) => return Err(other),
        }
    }
    Err(last)
}

/// Going through a folder to delete it.
struct Tree<'a> {
    place: &'a Place,
    stop: &'a CancellationToken,
    left: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Look,
    Delete,
}

impl Tree<'_> {
    fn visit(&mut self, spot: &Spot, name: &OsStr, depth: usize, deed: Deed) -> Result<(), PathError> {
        let failed = |step: StepError| step.told_as(self.place.shown(), "deleted");
        let folder = spot.enter(name, &self.place.snapshot).map_err(failed)?;
        if depth == 0 {
            return Err(self.too_much());
        }
        let mut entries = Vec::new();
        for entry in folder.entries().map_err(|error| failed(error.into()))? {
            let entry = entry.map_err(|error| failed(error.into()))?;
            self.left = self.left.checked_sub(1).ok_or_else(|| self.too_much())?;
            entries.push(entry);
        }
        for entry in entries {
            if self.stop.is_cancelled() {
                return Err(PathError::Cancelled);
            }
            if self.place.snapshot.names(folder.identity(), &entry.name) {
                return Err(PathError::HoldsProtected { path: self.place.shown() });
            }
            match (entry.kind, deed) {
                (EntryKind::Folder, _) => self.visit(&folder, &entry.name, depth - 1, deed)?,
                (_, Deed::Look) => {}
                (kind, Deed::Delete) => folder.unlink(&entry.name, kind).map_err(failed)?,
            }
        }
        match deed {
            Deed::Look => Ok(()),
            Deed::Delete => spot.unlink(name, EntryKind::Folder).map_err(failed),
        }
    }

    fn too_much(&self) -> PathError {
        PathError::TooMuch { path: self.place.shown(), limit: MAX_DELETED }
    }
}
