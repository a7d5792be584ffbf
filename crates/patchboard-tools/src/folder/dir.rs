//! One open directory and single steps from it. Every step names one entry and follows no symlink.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use cap_std::fs::{Dir, MetadataExt};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::path_error::PathError;
use super::protected::{FileIdentity, ProtectedSnapshot};
use crate::text::quoted;

#[derive(Debug)]
pub(crate) struct DirHandle {
    dir: Dir,
    identity: FileIdentity,
}

#[derive(Debug)]
pub(crate) struct FolderEntry {
    pub(crate) name: OsString,
    pub(crate) kind: EntryKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Folder,
    File,
    Symlink,
    /// A FIFO, socket or device, described in words.
    Special(&'static str),
}

/// Whether a rename may replace an existing entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverwriteMode {
    Replace,
    NoReplace,
}

/// Why one step failed.
#[derive(Debug)]
pub(crate) enum StepError {
    /// The entry changed concurrently; the caller should look again.
    Changed,
    Protected,
    Special(&'static str),
    Os(Errno),
}

/// With `O_PATH`, a directory can be traversed without the right to list it.
#[cfg(target_os = "linux")]
const PASS_THROUGH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASS_THROUGH: OFlags = OFlags::RDONLY;

impl DirHandle {
    pub(crate) fn new(dir: Dir) -> io::Result<Self> {
        let file = dir.into_std_file();
        let identity = FileIdentity::of(&file.metadata()?);
        Ok(Self { dir: Dir::from_std_file(file), identity })
    }

    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// The root of the file system.
    pub(crate) fn filesystem_root() -> Result<Self, StepError> {
        let flags = PASS_THROUGH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, "/", flags, Mode::empty()).map_err(StepError::Os)?;
        Ok(Self::new(Dir::from_std_file(File::from(opened)))?)
    }

    /// Current kind of the entry `name`. Only a hint for the next step, which checks what it opened.
    pub(crate) fn kind(&self, name: &OsStr) -> Result<EntryKind, StepError> {
        let stat =
            rustix::fs::statat(&self.dir, single_name(name)?, AtFlags::SYMLINK_NOFOLLOW).map_err(StepError::Os)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => EntryKind::Folder,
            FileType::RegularFile => EntryKind::File,
            FileType::Symlink => EntryKind::Symlink,
            FileType::Fifo => EntryKind::Special("a FIFO"),
            FileType::Socket => EntryKind::Special("a socket"),
            FileType::CharacterDevice | FileType::BlockDevice => EntryKind::Special("a device"),
            FileType::Unknown => EntryKind::Special("of an unknown kind"),
        })
    }

    pub(crate) fn enter(&self, name: &OsStr, snapshot: &ProtectedSnapshot) -> Result<Self, StepError> {
        let file = self.open(name, PASS_THROUGH | OFlags::DIRECTORY, snapshot)?;
        Ok(Self::new(Dir::from_std_file(file))?)
    }

    pub(crate) fn open_file(&self, name: &OsStr, snapshot: &ProtectedSnapshot) -> Result<File, StepError> {
        // If a FIFO or terminal has replaced the file, opening must neither block nor make it the controlling terminal.
        let file = self.open(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, snapshot)?;
        let metadata = file.metadata()?;
        if metadata.is_file() { Ok(file) } else { Err(StepError::Changed) }
    }

    /// Opens a file only to verify that it is writable; its content is unchanged.
    pub(super) fn open_to_replace(&self, name: &OsStr, snapshot: &ProtectedSnapshot) -> Result<File, StepError> {
        let file = self.open(name, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY, snapshot)?;
        let metadata = file.metadata()?;
        if metadata.is_file() { Ok(file) } else { Err(StepError::Changed) }
    }

    /// Creates a file; fails if any entry of that name exists.
    pub(super) fn create_file(&self, name: &OsStr) -> Result<File, StepError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.dir, single_name(name)?, flags, Mode::from_raw_mode(0o666));
        opened.map(File::from).map_err(StepError::Os)
    }

    pub(super) fn make_folder(&self, name: &OsStr) -> Result<(), StepError> {
        rustix::fs::mkdirat(&self.dir, single_name(name)?, Mode::from_raw_mode(0o777)).map_err(StepError::Os)
    }

    /// Renames `name` to `new_name` in `other`. A symlink at the target is replaced, not followed.
    pub(super) fn rename(
        &self,
        name: &OsStr,
        other: &DirHandle,
        new_name: &OsStr,
        mode: OverwriteMode,
    ) -> Result<(), StepError> {
        let (name, new_name) = (single_name(name)?, single_name(new_name)?);
        match mode {
            OverwriteMode::Replace => {
                rustix::fs::renameat(&self.dir, name, &other.dir, new_name).map_err(StepError::Os)
            }
            OverwriteMode::NoReplace => rename_to_nothing(&self.dir, name, &other.dir, new_name).map_err(StepError::Os),
        }
    }

    pub(super) fn unlink(&self, name: &OsStr, kind: EntryKind) -> Result<(), StepError> {
        let flags = if kind == EntryKind::Folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&self.dir, single_name(name)?, flags).map_err(StepError::Os)
    }

    /// Identity of the entry itself; a symlink is not followed.
    pub(super) fn identity_of(&self, name: &OsStr) -> Result<FileIdentity, StepError> {
        let metadata = self.dir.symlink_metadata(single_name(name)?)?;
        Ok(FileIdentity::new(metadata.dev(), metadata.ino()))
    }

    pub(super) fn modified(&self, name: &OsStr) -> Result<SystemTime, StepError> {
        let metadata = self.dir.symlink_metadata(single_name(name)?)?;
        Ok(metadata.modified()?.into_std())
    }

    pub(crate) fn read_link(&self, name: &OsStr) -> Result<PathBuf, StepError> {
        match rustix::fs::readlinkat(&self.dir, single_name(name)?, Vec::new()) {
            Ok(target) => Ok(OsString::from_vec(target.into_bytes()).into()),
            Err(Errno::INVAL) => Err(StepError::Changed),
            Err(error) => Err(StepError::Os(error)),
        }
    }

    pub(crate) fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<FolderEntry>>> {
        let entries = self.dir.entries()?;
        Ok(entries.map(|entry| {
            let entry = entry?;
            let (name, file_type) = (entry.file_name(), entry.file_type()?);
            let kind = if file_type.is_dir() {
                EntryKind::Folder
            } else if file_type.is_file() {
                EntryKind::File
            } else if file_type.is_symlink() {
                EntryKind::Symlink
            } else {
                // Some file systems do not report types in listings; then the entry itself is queried.
                self.kind(&name).unwrap_or(EntryKind::Special("of an unknown kind"))
            };
            Ok(FolderEntry { name, kind })
        }))
    }

    /// Opens one entry, then checks whether the opened file is protected.
    fn open(&self, name: &OsStr, flags: OFlags, snapshot: &ProtectedSnapshot) -> Result<File, StepError> {
        if snapshot.contains_name(self.identity, name) {
            return Err(StepError::Protected);
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened =
            rustix::fs::openat(&self.dir, single_name(name)?, flags, Mode::empty()).map_err(|error| match error {
                // A symlink or an entry of another type has replaced the entry.
                Errno::LOOP | Errno::NOTDIR | Errno::NXIO => StepError::Changed,
                other => StepError::Os(other),
            })?;
        let file = File::from(opened);
        let identity = FileIdentity::of(&file.metadata()?);
        let elsewhere = identity.device != self.identity.device;
        if snapshot.contains(identity) || (elsewhere && is_kernel_state(&file)) {
            return Err(StepError::Protected);
        }
        Ok(file)
    }
}

impl AsFd for DirHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

impl StepError {
    /// Converts the error to a message; `path` is how the message names the entry.
    pub(crate) fn into_path_error(self, path: impl AsRef<OsStr>) -> PathError {
        self.into_error_for(quoted(path), "opened")
    }

    /// The same for an operation other than opening; `path` is already quoted.
    pub(crate) fn into_error_for(self, path: String, operation: &'static str) -> PathError {
        let path_error = |path, reason: &str| PathError::Failed { path, operation, reason: reason.to_owned() };
        match self {
            Self::Changed => path_error(path, "it keeps changing"),
            Self::Protected => PathError::Protected { path },
            Self::Special(kind) => PathError::Special { path, kind },
            Self::Os(Errno::NOENT) => PathError::Missing { path },
            Self::Os(Errno::ACCESS | Errno::PERM) => PathError::Denied { path, operation },
            Self::Os(Errno::EXIST) => PathError::Exists { path },
            Self::Os(Errno::ISDIR) => PathError::IsAFolder { path },
            Self::Os(Errno::NOTEMPTY) => PathError::NotEmpty { path },
            Self::Os(Errno::NAMETOOLONG) => path_error(path, "a name in it is too long"),
            Self::Os(error) => path_error(path, &io::Error::from(error).to_string()),
        }
    }
}

/// Accepts only a single path component: this is what keeps a step inside its directory.
fn single_name(name: &OsStr) -> Result<&OsStr, StepError> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(StepError::Os(Errno::INVAL)),
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn rename_to_nothing(from: &Dir, name: &OsStr, to: &Dir, new_name: &OsStr) -> Result<(), Errno> {
    use rustix::fs::RenameFlags;
    match rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
        // Some file systems do not support `RENAME_NOREPLACE`.
        Err(error @ (Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)) => {
            // Folders cannot be hard-linked; then the first error is returned.
            link_and_unlink(from, name, to, new_name).map_err(|other| if other == Errno::PERM { error } else { other })
        }
        done => done,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn rename_to_nothing(from: &Dir, name: &OsStr, to: &Dir, new_name: &OsStr) -> Result<(), Errno> {
    link_and_unlink(from, name, to, new_name)
}

/// Works only for files; a link never replaces an existing entry.
fn link_and_unlink(from: &Dir, name: &OsStr, to: &Dir, new_name: &OsStr) -> Result<(), Errno> {
    rustix::fs::linkat(from, name, to, new_name, AtFlags::empty())?;
    rustix::fs::unlinkat(from, name, AtFlags::empty())
}

impl From<io::Error> for StepError {
    fn from(error: io::Error) -> Self {
        Self::Os(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// The proc file system exposes this server's environment, memory and open files as files.
#[cfg(target_os = "linux")]
fn is_kernel_state(file: impl AsFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|about| about.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_kernel_state(_file: impl AsFd) -> bool {
    false
}
