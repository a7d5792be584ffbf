//! One open directory, and the single steps from it. Every step names one entry and follows no symlink.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::protected::{Identity, Snapshot};
use super::refusal::PathError;
use crate::words::quoted;

#[derive(Debug)]
pub(crate) struct Spot {
    dir: Dir,
    identity: Identity,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: EntryKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Folder,
    File,
    Symlink,
    /// A FIFO, socket or device, in words.
    Special(&'static str),
}

/// Why one step failed.
#[derive(Debug)]
pub(crate) enum StepError {
    /// The entry is not what it was a moment ago: look again.
    Changed,
    Protected,
    Special(&'static str),
    Os(Errno),
}

/// Opening a directory to go on from it needs no right to list it, where the system has such descriptors.
#[cfg(target_os = "linux")]
const PASS_THROUGH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASS_THROUGH: OFlags = OFlags::RDONLY;

impl Spot {
    pub(crate) fn new(dir: Dir) -> io::Result<Self> {
        let file = dir.into_std_file();
        let identity = Identity::of(&file.metadata()?);
        Ok(Self { dir: Dir::from_std_file(file), identity })
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// The directory this one lies in; the root of all is its own parent. Only for judging a working folder.
    pub(crate) fn parent(&self) -> io::Result<Self> {
        Self::new(self.dir.open_parent_dir(ambient_authority())?)
    }

    pub(crate) fn is_kernel_state(&self) -> bool {
        is_kernel_state(&self.dir)
    }

    /// What `name` is now. Only a hint which step to take: the step itself judges what it opened.
    pub(crate) fn kind(&self, name: &OsStr) -> Result<EntryKind, StepError> {
        let stat = rustix::fs::statat(&self.dir, single(name)?, AtFlags::SYMLINK_NOFOLLOW).map_err(StepError::Os)?;
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

    pub(crate) fn enter(&self, name: &OsStr, snapshot: &Snapshot) -> Result<Self, StepError> {
        let file = self.open(name, PASS_THROUGH | OFlags::DIRECTORY, snapshot)?;
        Self::new(Dir::from_std_file(file)).map_err(step_error)
    }

    pub(crate) fn open_file(&self, name: &OsStr, snapshot: &Snapshot) -> Result<File, StepError> {
        // Should a FIFO or a terminal have taken the file's place, opening it neither waits nor adopts it.
        let file = self.open(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY, snapshot)?;
        let metadata = file.metadata().map_err(step_error)?;
        if metadata.is_file() { Ok(file) } else { Err(StepError::Changed) }
    }

    pub(crate) fn read_link(&self, name: &OsStr) -> Result<PathBuf, StepError> {
        match rustix::fs::readlinkat(&self.dir, single(name)?, Vec::new()) {
            Ok(target) => Ok(OsString::from_vec(target.into_bytes()).into()),
            Err(Errno::INVAL) => Err(StepError::Changed),
            Err(error) => Err(StepError::Os(error)),
        }
    }

    pub(crate) fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<Entry>>> {
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
                // Some file systems do not say in the listing; then the entry itself is asked.
                self.kind(&name).unwrap_or(EntryKind::Special("of an unknown kind"))
            };
            Ok(Entry { name, kind })
        }))
    }

    /// Opens one entry, then judges what was opened.
    fn open(&self, name: &OsStr, flags: OFlags, snapshot: &Snapshot) -> Result<File, StepError> {
        if snapshot.names(self.identity, name) {
            return Err(StepError::Protected);
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened =
            rustix::fs::openat(&self.dir, single(name)?, flags, Mode::empty()).map_err(|error| match error {
                // A symlink, or something that is no directory, stands where a directory or file stood.
                Errno::LOOP | Errno::NOTDIR | Errno::NXIO => StepError::Changed,
                other => StepError::Os(other),
            })?;
        let file = File::from(opened);
        let identity = Identity::of(&file.metadata().map_err(step_error)?);
        let elsewhere = identity.device != self.identity.device;
        if snapshot.holds(identity) || (elsewhere && is_kernel_state(&file)) {
            return Err(StepError::Protected);
        }
        Ok(file)
    }
}

impl StepError {
    /// The same in words. `path` is what to call the entry.
    pub(crate) fn told(self, path: impl AsRef<OsStr>) -> PathError {
        let path = quoted(path);
        match self {
            Self::Changed => PathError::Failed { path, reason: "it keeps changing".to_owned() },
            Self::Protected => PathError::Protected { path },
            Self::Special(kind) => PathError::Special { path, kind },
            Self::Os(Errno::NOENT) => PathError::Missing { path },
            Self::Os(Errno::ACCESS | Errno::PERM) => PathError::Denied { path },
            Self::Os(Errno::NAMETOOLONG) => PathError::Failed { path, reason: "a name in it is too long".to_owned() },
            Self::Os(error) => PathError::Failed { path, reason: io::Error::from(error).to_string() },
        }
    }
}

/// A name and not a path: what makes one step stay in its directory.
fn single(name: &OsStr) -> Result<&OsStr, StepError> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(StepError::Os(Errno::INVAL)),
    }
}

fn step_error(error: io::Error) -> StepError {
    StepError::Os(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// The process file system shows this server's own environment, memory and open files as if they were files.
#[cfg(target_os = "linux")]
fn is_kernel_state(file: impl AsFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|about| about.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_kernel_state(_file: impl AsFd) -> bool {
    false
}
