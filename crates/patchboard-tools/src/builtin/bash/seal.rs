//! Files that no command may change although they lie where commands work: the server's own configuration, which the
//! next start would obey. Landlock cannot take one file out of a folder without taking the folder, so they are looked at
//! before a command and, when it has changed them, put back after it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// A longer file is not the configuration of anything.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Names tried for what a command made of a sealed file.
const NAMES_TRIED: u32 = 1000;

/// The sealed files, and how they were before the commands that run now.
#[derive(Debug)]
pub(super) struct Seals {
    paths: Vec<PathBuf>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Commands at work. What the first of them found holds for all: a later one may find what an earlier one made.
    commands: usize,
    before: Vec<Sealed>,
}

#[derive(Debug)]
struct Sealed {
    path: PathBuf,
    /// The folder it lies in, whatever becomes of its name.
    folder: OwnedFd,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Missing,
    File {
        content: Vec<u8>,
        mode: u32,
    },
    /// Not a plain file: known by what it is, not by what it holds.
    Other {
        device: u64,
        inode: u64,
        changed: (i64, u64),
    },
}

/// Held while a command runs. Dropping it puts back what the command changed.
#[derive(Debug)]
pub(super) struct Held(Arc<Seals>);

impl Seals {
    pub(super) fn new(paths: Vec<PathBuf>) -> Arc<Self> {
        Arc::new(Self { paths, kept: Mutex::default() })
    }

    pub(super) fn hold(self: &Arc<Self>) -> Held {
        let mut kept = self.kept();
        if kept.commands == 0 {
            // A folder that cannot be opened has no file to be obeyed.
            kept.before = self.paths.iter().filter_map(|path| Sealed::look(path).ok()).collect();
        }
        kept.commands += 1;
        Held(self.clone())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Puts back what was changed so far and says what was done about it, in words for the model.
    pub(super) fn put_back(&self) -> Vec<String> {
        self.0.kept().before.iter().filter_map(Sealed::put_back).collect()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.put_back();
        let mut kept = self.0.kept();
        kept.commands -= 1;
        if kept.commands == 0 {
            kept.before.clear();
        }
    }
}

impl Sealed {
    fn look(path: &Path) -> io::Result<Self> {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let folder = rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let state = state(&folder, path)?;
        Ok(Self { path: path.to_owned(), folder, state })
    }

    fn put_back(&self) -> Option<String> {
        match state(&self.folder, &self.path) {
            Ok(now) if now == self.state => return None,
            Ok(_) | Err(_) => {}
        }
        let shown = self.path.display();
        let done = self.move_aside().and_then(|aside| self.restore().map(|()| aside));
        tracing::warn!(path = %shown, failed = done.is_err(), "a command changed the server's configuration; it was put back");
        Some(match done {
            Ok(Some(aside)) => format!(
                "{shown} is the configuration of this server, which only its operator changes: it was put back, and what \
                 the command made of it is in {aside}"
            ),
            Ok(None) => format!("{shown} is the configuration of this server and was put back"),
            Err(error) => format!("{shown} is the configuration of this server and could not be put back: {error}"),
        })
    }

    /// Nothing is lost: what is there now gets another name.
    fn move_aside(&self) -> io::Result<Option<String>> {
        let name = name(&self.path);
        for number in 1..=NAMES_TRIED {
            let aside = format!("{}.by-a-command.{number}", String::from_utf8_lossy(name.as_bytes()));
            match rustix::fs::renameat_with(&self.folder, name, &self.folder, &aside, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(Some(aside)),
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("too many files were moved out of its way"))
    }

    fn restore(&self) -> io::Result<()> {
        let State::File { content, mode } = &self.state else { return Ok(()) };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o777);
        let opened = rustix::fs::openat(&self.folder, name(&self.path), flags, mode)?;
        let mut file = File::from(opened);
        file.write_all(content)?;
        file.sync_all()
    }
}

fn name(path: &Path) -> &std::ffi::OsStr {
    path.file_name().unwrap_or(path.as_os_str())
}

fn state(folder: &OwnedFd, path: &Path) -> io::Result<State> {
    let found = match rustix::fs::statat(folder, name(path), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(State::Missing),
        Err(error) => return Err(error.into()),
    };
    let is_plain = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if !is_plain || u64::try_from(found.st_size).unwrap_or(u64::MAX) > MAX_BYTES {
        let changed = (found.st_ctime, found.st_ctime_nsec);
        return Ok(State::Other { device: found.st_dev, inode: found.st_ino, changed });
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name(path), flags, Mode::empty())?);
    let mut content = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut content)?;
    Ok(State::File { content, mode: found.st_mode })
}

#[cfg(test)]
mod tests;
