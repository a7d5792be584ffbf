//! The target of a change: an open directory and a name in it.
//!
//! Every change goes through that descriptor by name, so it happens in that directory or not at all, even if the entry
//! is replaced concurrently. Files are written to a temporary file beside the target and renamed.

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

use super::dir::{DirHandle, EntryKind, OverwriteMode, StepError};
use super::path_error::PathError;
use super::protected::{FileIdentity, ProtectedSnapshot};
use crate::text::quoted;

/// A folder with more entries is not deleted in one call.
const MAX_DELETED: usize = 50_000;
/// Every level keeps a directory open.
const MAX_DEPTH: usize = 128;
const WRITE_CHUNK_BYTES: usize = 1024 * 1024;
/// Names tried for a temporary file; some may be left over from a crash.
const MAX_TRIES: usize = 100;
/// The mode bits that a write preserves. The kernel, too, clears the set-id bits of a file that is written.
const PRESERVED_MODE: u32 = 0o777;

#[derive(Debug)]
pub(crate) struct PathTarget {
    dir: Arc<DirHandle>,
    /// From `dir` to the target: all but the last are folders that do not exist yet.
    names: Vec<OsString>,
    /// Path from the working folder, for messages.
    path: PathBuf,
    kind: Option<EntryKind>,
    snapshot: Arc<ProtectedSnapshot>,
}

/// New content in a temporary file beside its target. Dropping it removes the temporary file.
#[derive(Debug)]
pub(crate) struct StagedFile {
    dir: Arc<DirHandle>,
    temporary: OsString,
    name: OsString,
    display_path: String,
    is_committed: bool,
}

impl PathTarget {
    pub(super) fn new(
        dir: Arc<DirHandle>,
        names: Vec<OsString>,
        path: PathBuf,
        kind: Option<EntryKind>,
        snapshot: Arc<ProtectedSnapshot>,
    ) -> Self {
        Self { dir, names, path, kind, snapshot }
    }

    /// A protected file stays closed under each of its names.
    pub(super) fn check_protected(self) -> Result<Self, PathError> {
        match self.identity()? {
            Some(identity) if self.snapshot.contains(identity) => {
                Err(PathError::Protected { path: self.display_path() })
            }
            Some(_) | None => Ok(self),
        }
    }

    /// Kind of the entry when the path was resolved.
    pub(crate) fn kind(&self) -> Option<EntryKind> {
        self.kind
    }

    /// The path in backticks, for messages.
    pub(crate) fn display_path(&self) -> String {
        quoted(&self.path)
    }

    /// Identifies the target independently of the path that led to it, as long as it is resolved through the same
    /// directories.
    pub(crate) fn lock_key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.dir.identity(), &self.names).hash(&mut hasher);
        hasher.finish()
    }

    pub(crate) fn open(&self) -> Result<File, PathError> {
        let opened = self.dir.open_file(self.name(), &self.snapshot);
        opened.map_err(|step| step.into_error_for(self.display_path(), "opened"))
    }

    /// Writes `content` to a temporary file beside the target, creating missing parent folders. The mode of an existing
    /// file is preserved; the file must be writable.
    pub(crate) fn stage(&self, content: &[u8], stop: &CancellationToken) -> Result<StagedFile, PathError> {
        let path_error = |step: StepError| step.into_error_for(self.display_path(), "written");
        let mode = match self.kind {
            Some(EntryKind::File) => {
                let existing = self.dir.open_to_replace(self.name(), &self.snapshot).map_err(path_error)?;
                let mode = existing.metadata().map_err(|error| path_error(error.into()))?.permissions().mode();
                Some(Permissions::from_mode(mode & PRESERVED_MODE))
            }
            Some(EntryKind::Folder) => return Err(PathError::IsAFolder { path: self.display_path() }),
            Some(EntryKind::Special(kind)) => return Err(PathError::Special { path: self.display_path(), kind }),
            Some(EntryKind::Symlink) | None => None,
        };
        let dir = self.create_parents()?;
        let (temporary, mut file) = temporary_file(&dir).map_err(path_error)?;
        let (name, display_path) = (self.name().to_owned(), self.display_path());
        // From here on, an error drops `staged`, which removes the temporary file.
        let staged = StagedFile { dir, temporary, name, display_path, is_committed: false };
        for chunk in content.chunks(WRITE_CHUNK_BYTES) {
            if stop.is_cancelled() {
                return Err(PathError::Cancelled);
            }
            file.write_all(chunk).map_err(|error| path_error(error.into()))?;
        }
        if let Some(mode) = mode {
            file.set_permissions(mode).map_err(|error| path_error(error.into()))?;
        }
        // Ensures that a power failure after the rename does not leave the name without its content.
        file.sync_data().map_err(|error| path_error(error.into()))?;
        Ok(staged)
    }

    /// Creates the folder and its missing parents.
    pub(crate) fn make_folder(&self) -> Result<(), PathError> {
        let dir = self.create_parents()?;
        dir.make_folder(self.name()).map_err(|step| step.into_error_for(self.display_path(), "made"))
    }

    /// Moves the entry to `target`, which must not exist.
    pub(crate) fn move_to(
        &self,
        target: &PathTarget,
        protected_ancestors: &HashSet<FileIdentity>,
    ) -> Result<(), PathError> {
        self.refuse_protected_ancestor(protected_ancestors)?;
        let dir = target.create_parents()?;
        let moved = self.dir.rename(self.name(), &dir, target.name(), OverwriteMode::NoReplace);
        let Err(StepError::Os(error)) = moved else {
            return moved.map_err(|step| step.into_error_for(self.display_path(), "moved"));
        };
        Err(match error {
            Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR => {
                PathError::Exists { path: target.display_path() }
            }
            Errno::INVAL => self.move_error("a folder cannot be moved into itself"),
            Errno::XDEV => self.move_error("the target lies on another file system"),
            other => StepError::Os(other).into_error_for(self.display_path(), "moved"),
        })
    }

    /// Deletes a file, a symlink itself, or an empty folder.
    pub(crate) fn delete(&self, protected_ancestors: &HashSet<FileIdentity>) -> Result<(), PathError> {
        self.refuse_protected_ancestor(protected_ancestors)?;
        let kind = self.kind.unwrap_or(EntryKind::File);
        self.dir.unlink(self.name(), kind).map_err(|step| step.into_error_for(self.display_path(), "deleted"))
    }

    /// Deletes a folder and its content. Visits everything first, so that a folder that is too large or contains a
    /// protected path is refused as a whole.
    pub(crate) fn delete_tree(
        &self,
        protected_ancestors: &HashSet<FileIdentity>,
        stop: &CancellationToken,
    ) -> Result<(), PathError> {
        self.refuse_protected_ancestor(protected_ancestors)?;
        let mut tree = TreeDeletion { target: self, stop, remaining: MAX_DELETED };
        tree.visit(&self.dir, self.name(), MAX_DEPTH, DeletionPass::Check)?;
        tree.remaining = MAX_DELETED;
        tree.visit(&self.dir, self.name(), MAX_DEPTH, DeletionPass::Delete)
    }

    fn refuse_protected_ancestor(&self, protected_ancestors: &HashSet<FileIdentity>) -> Result<(), PathError> {
        match self.identity()? {
            Some(identity) if protected_ancestors.contains(&identity) => {
                Err(PathError::HoldsProtected { path: self.display_path() })
            }
            Some(_) => Ok(()),
            None => Err(PathError::Missing { path: self.display_path() }),
        }
    }

    fn identity(&self) -> Result<Option<FileIdentity>, PathError> {
        if self.kind.is_none() {
            return Ok(None);
        }
        match self.dir.identity_of(self.name()) {
            Ok(identity) => Ok(Some(identity)),
            Err(StepError::Os(Errno::NOENT)) => Ok(None),
            Err(other) => Err(other.into_error_for(self.display_path(), "opened")),
        }
    }

    /// Opens the target's directory, creating it if needed. Each new directory is entered as what is there after its
    /// creation.
    fn create_parents(&self) -> Result<Arc<DirHandle>, PathError> {
        let mut dir = self.dir.clone();
        for name in self.names.iter().take(self.names.len().saturating_sub(1)) {
            let made = match dir.make_folder(name) {
                // Created concurrently.
                Ok(()) | Err(StepError::Os(Errno::EXIST)) => dir.enter(name, &self.snapshot),
                Err(other) => Err(other),
            };
            dir = Arc::new(made.map_err(|step| step.into_error_for(self.display_path(), "made"))?);
        }
        Ok(dir)
    }

    fn name(&self) -> &OsStr {
        // A target always has a name; every step would refuse the empty one.
        self.names.last().map_or(OsStr::new(""), OsString::as_os_str)
    }

    fn move_error(&self, reason: &str) -> PathError {
        PathError::Failed { path: self.display_path(), operation: "moved", reason: reason.to_owned() }
    }
}

impl StagedFile {
    /// Renames the temporary file to its target.
    pub(crate) fn commit(mut self, mode: OverwriteMode) -> Result<(), PathError> {
        let renamed = self.dir.rename(&self.temporary, &self.dir, &self.name, mode);
        self.is_committed = renamed.is_ok();
        renamed.map_err(|step| step.into_error_for(std::mem::take(&mut self.display_path), "written"))
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.is_committed
            && let Err(error) = self.dir.unlink(&self.temporary, EntryKind::File)
        {
            tracing::warn!(?error, file = %self.display_path, "temporary file stays behind");
        }
    }
}

fn temporary_file(dir: &DirHandle) -> Result<(OsString, File), StepError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut last = StepError::Changed;
    for _ in 0..MAX_TRIES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = OsString::from(format!(".patchboard-{}-{number}.tmp", std::process::id()));
        match dir.create_file(&name) {
            Ok(file) => return Ok((name, file)),
            Err(StepError::Os(Errno::EXIST)) => last = StepError::Os(Errno::EXIST),
            Err(other) => return Err(other),
        }
    }
    Err(last)
}

/// State of a recursive deletion.
struct TreeDeletion<'a> {
    target: &'a PathTarget,
    stop: &'a CancellationToken,
    remaining: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DeletionPass {
    Check,
    Delete,
}

impl TreeDeletion<'_> {
    fn visit(&mut self, dir: &DirHandle, name: &OsStr, depth: usize, pass: DeletionPass) -> Result<(), PathError> {
        let path_error = |step: StepError| step.into_error_for(self.target.display_path(), "deleted");
        let folder = dir.enter(name, &self.target.snapshot).map_err(path_error)?;
        if depth == 0 {
            return Err(self.too_many_entries());
        }
        let mut entries = Vec::new();
        for entry in folder.entries().map_err(|error| path_error(error.into()))? {
            let entry = entry.map_err(|error| path_error(error.into()))?;
            self.remaining = self.remaining.checked_sub(1).ok_or_else(|| self.too_many_entries())?;
            entries.push(entry);
        }
        for entry in entries {
            if self.stop.is_cancelled() {
                return Err(PathError::Cancelled);
            }
            if self.target.snapshot.contains_name(folder.identity(), &entry.name) {
                return Err(PathError::HoldsProtected { path: self.target.display_path() });
            }
            match (entry.kind, pass) {
                (EntryKind::Folder, _) => self.visit(&folder, &entry.name, depth - 1, pass)?,
                (_, DeletionPass::Check) => {}
                (kind, DeletionPass::Delete) => folder.unlink(&entry.name, kind).map_err(path_error)?,
            }
        }
        match pass {
            DeletionPass::Check => Ok(()),
            DeletionPass::Delete => dir.unlink(name, EntryKind::Folder).map_err(path_error),
        }
    }

    fn too_many_entries(&self) -> PathError {
        PathError::TooManyEntries { path: self.target.display_path(), limit: MAX_DELETED }
    }
}
