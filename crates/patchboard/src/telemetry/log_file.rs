//! `logs/patchboard.log` in the data directory: one JSON object per line, at most five files of 10 MiB each.
//!
//! Nothing here follows a symlink, and no failure reaches the logging code: lines that cannot be written are counted,
//! and the count is written when writing works again. The reading side is in `cli/logs`.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The log folder in the data directory.
pub(crate) const LOG_FOLDER: &str = "logs";
/// The newest file; `patchboard.log.1` is the one before it.
pub(crate) const LOG_NAME: &str = "patchboard.log";
/// Number of files, including the newest.
pub(crate) const LOG_FILES: usize = 5;
const FILE_BYTES: u64 = 10 * 1024 * 1024;
/// Lines logged before the file is opened are buffered up to this size; the rest goes to standard error only.
const MAX_BUFFERED_BYTES: usize = 64 * 1024;
/// While writing fails, only one line in this many retries.
const RETRY_EVERY_LINES: u64 = 256;
const PRIVATE_FILE: Mode = Mode::from_raw_mode(0o600);
const PRIVATE_FOLDER: Mode = Mode::from_raw_mode(0o700);

/// The name of a file by age: 0 is the newest.
pub(crate) fn log_name(age: usize) -> String {
    match age {
        0 => LOG_NAME.to_owned(),
        age => format!("{LOG_NAME}.{age}"),
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LogFileError {
    #[error("cannot use `{}`: {source}", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("`{}` is not a plain file or folder of this user: move it away", .0.display())]
    Suspicious(PathBuf),
}

/// Limits of log rotation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RotationLimits {
    pub(crate) file_bytes: u64,
    pub(crate) files: usize,
}

impl Default for RotationLimits {
    fn default() -> Self {
        Self { file_bytes: FILE_BYTES, files: LOG_FILES }
    }
}

/// The target of log lines; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogFile(Arc<Mutex<LogTarget>>);

#[derive(Debug)]
enum LogTarget {
    /// There is no data directory yet.
    Buffered(Vec<u8>),
    Open(RotatingFile),
    Off,
}

impl Default for LogTarget {
    fn default() -> Self {
        Self::Buffered(Vec::new())
    }
}

impl LogFile {
    /// Directs lines to the file, buffered ones first. After an error no line is written to a file.
    pub(crate) fn open(&self, data_dir: &Path) -> Result<(), LogFileError> {
        let opened = RotatingFile::open(data_dir, RotationLimits::default());
        let mut target = self.target();
        match opened {
            Ok(mut file) => {
                if let LogTarget::Buffered(buffered) = &*target {
                    buffered.split_inclusive(|&byte| byte == b'\n').for_each(|line| file.write_line(line));
                }
                *target = LogTarget::Open(file);
                Ok(())
            }
            Err(error) => {
                *target = LogTarget::Off;
                Err(error)
            }
        }
    }

    /// Writes one whole line, including its line break.
    pub(super) fn write_line(&self, line: &[u8]) {
        match &mut *self.target() {
            LogTarget::Buffered(buffered) if buffered.len() + line.len() <= MAX_BUFFERED_BYTES => {
                buffered.extend_from_slice(line);
            }
            LogTarget::Buffered(_) | LogTarget::Off => {}
            LogTarget::Open(file) => file.write_line(line),
        }
    }

    fn target(&self) -> MutexGuard<'_, LogTarget> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The newest file and the state of rotation.
#[derive(Debug)]
struct RotatingFile {
    folder: OwnedFd,
    shown: PathBuf,
    file: Option<File>,
    size: u64,
    rotation: RotationLimits,
    /// Lines lost since the last successful write.
    dropped_lines: u64,
    /// The last line was written partially.
    has_partial_line: bool,
}

impl RotatingFile {
    fn open(data_dir: &Path, rotation: RotationLimits) -> Result<Self, LogFileError> {
        let shown = data_dir.join(LOG_FOLDER);
        let unusable = |errno: Errno| LogFileError::Unusable { path: shown.clone(), source: errno.into() };
        let folder_flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::openat(CWD, data_dir, folder_flags, Mode::empty()).map_err(unusable)?;
        match rustix::fs::mkdirat(&parent, LOG_FOLDER, PRIVATE_FOLDER) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(unusable(errno)),
        }
        let opened = rustix::fs::openat(&parent, LOG_FOLDER, folder_flags | OFlags::NOFOLLOW, Mode::empty());
        let folder = match opened {
            Ok(folder) => folder,
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(LogFileError::Suspicious(shown)),
            Err(errno) => return Err(unusable(errno)),
        };
        let mut file = Self { folder, shown, file: None, size: 0, rotation, dropped_lines: 0, has_partial_line: false };
        file.open_newest()?;
        Ok(file)
    }

    fn open_newest(&mut self) -> Result<(), LogFileError> {
        let path = self.shown.join(LOG_NAME);
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
        // Opening must not block, even if the path is a pipe.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = match rustix::fs::openat(&self.folder, LOG_NAME, flags, PRIVATE_FILE) {
            Ok(opened) => File::from(opened),
            Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Err(LogFileError::Suspicious(path)),
            Err(errno) => return Err(LogFileError::Unusable { path, source: errno.into() }),
        };
        let found = opened.metadata().map_err(|source| LogFileError::Unusable { path: path.clone(), source })?;
        // A file with a second hard link could be read or filled through the other name.
        let is_own = found.is_file() && found.nlink() == 1 && found.uid() == rustix::process::geteuid().as_raw();
        if !is_own {
            return Err(LogFileError::Suspicious(path));
        }
        if found.mode() & 0o777 != 0o600 {
            rustix::fs::fchmod(&opened, PRIVATE_FILE)
                .map_err(|errno| LogFileError::Unusable { path, source: errno.into() })?;
        }
        self.size = found.size();
        self.file = Some(opened);
        Ok(())
    }

    fn write_line(&mut self, line: &[u8]) {
        if self.dropped_lines > 0 && !self.dropped_lines.is_multiple_of(RETRY_EVERY_LINES) {
            self.dropped_lines += 1;
            return;
        }
        match self.try_write_line(line) {
            Ok(()) => {}
            Err(error) => {
                if self.dropped_lines == 0 {
                    report_write_failure(&self.shown, &error);
                }
                self.dropped_lines += 1;
            }
        }
    }

    fn try_write_line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.is_none() || (self.size > 0 && self.size + line.len() as u64 > self.rotation.file_bytes) {
            self.rotate()?;
        }
        if self.has_partial_line {
            self.write_bytes(b"\n")?;
            self.has_partial_line = false;
        }
        if self.dropped_lines > 0 {
            let lost = format!(
                "{{\"level\":\"WARN\",\"message\":\"{} lines could not be written here\"}}\n",
                self.dropped_lines
            );
            self.write_bytes(lost.as_bytes())?;
            self.dropped_lines = 0;
        }
        self.write_bytes(line)
    }

    fn write_bytes(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        while !bytes.is_empty() {
            match file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.size += written as u64;
                    bytes = bytes.get(written..).unwrap_or_default();
                    self.has_partial_line = !bytes.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Renames every file to the next age and removes the oldest. Renaming replaces any existing name and follows no
    /// symlink.
    fn rotate(&mut self) -> io::Result<()> {
        if self.file_exists(LOG_NAME)? {
            for age in (0..self.rotation.files.saturating_sub(1)).rev() {
                let (from, to) = (log_name(age), log_name(age + 1));
                match rustix::fs::renameat(&self.folder, &from, &self.folder, &to) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        self.file = None;
        self.open_newest().map_err(io::Error::other)
    }

    /// Distinguishes a file that has grown from one that was removed; only the former is rotated.
    fn file_exists(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {
                Err(io::Error::other(LogFileError::Suspicious(self.shown.join(name))))
            }
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Reports on standard error only: logging the failure would recurse.
fn report_write_failure(folder: &Path, error: &io::Error) {
    let line =
        format!("the log file in {} cannot be written: {error}; logging to standard error only\n", folder.display());
    drop(io::stderr().lock().write_all(line.as_bytes()));
}

#[cfg(test)]
mod tests;
