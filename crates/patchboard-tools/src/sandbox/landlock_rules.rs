//! Selects the files and directories to grant so that a protected path beneath them stays closed.
//!
//! A Landlock rule applies to everything beneath a directory and cannot be narrowed. So the directories on the way to a
//! protected path get no rule of their own; each entry beside the path gets one.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Further entries beside protected paths are not examined and stay closed.
const MAX_ENTRIES: usize = 20_000;

const PATH_FLAGS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Paths that stay closed, as resolved now.
#[derive(Debug, Default)]
pub(super) struct ClosedPaths {
    /// Without symlinks, as far as they exist.
    paths: Vec<PathBuf>,
    /// Device and inode of the existing paths: other names of the same file stay closed too if they are encountered.
    identities: HashSet<(u64, u64)>,
}

/// A file or directory to grant.
#[derive(Debug)]
pub(super) struct GrantTarget {
    pub(super) descriptor: OwnedFd,
    pub(super) is_directory: bool,
}

/// How much of a tree could be granted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct GrantSummary {
    /// A part of the tree stays closed, so it could not be granted as a whole.
    pub(super) has_closed_parts: bool,
    /// Entries that stay closed because there were too many of them or because they could not be examined.
    pub(super) skipped_entries: usize,
    seen_entries: usize,
}

impl ClosedPaths {
    /// Fails if a path exists, or may exist, but cannot be examined: it is safer to run no command than one that could
    /// read a key.
    pub(super) fn from_paths<'a>(paths: impl IntoIterator<Item = &'a Path>) -> io::Result<Self> {
        let mut closed = Self::default();
        for path in paths {
            let resolved = resolve_existing(path)?;
            if let Some(stat) = unless_absent(rustix::fs::stat(&resolved))? {
                closed.identities.insert(identity(&stat));
            }
            // If the path itself is a symlink, both its own name and its target stay closed.
            if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
                closed.paths.push(self::resolve_existing(parent)?.join(name));
            }
            closed.paths.push(resolved);
        }
        Ok(closed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Passes everything at and beneath `root` that is not closed to `grant`, in as few calls as possible.
    pub(super) fn grant_tree(
        &self,
        root: OwnedFd,
        grant: &mut dyn FnMut(GrantTarget) -> Result<(), String>,
    ) -> Result<GrantSummary, String> {
        let inspect_error = |error: io::Error| format!("cannot inspect a folder of the jail: {error}");
        let stat = rustix::fs::fstat(&root).map_err(|error| inspect_error(error.into()))?;
        // The current path of `root`, needed to find closed paths beneath it.
        let root_path = std::fs::read_link(format!("/proc/self/fd/{}", root.as_raw_fd())).map_err(inspect_error)?;
        let mut summary = GrantSummary::default();
        if self.identities.contains(&identity(&stat)) || self.paths.iter().any(|closed| root_path.starts_with(closed)) {
            summary.has_closed_parts = true;
            return Ok(summary);
        }
        let closed_suffixes: Vec<&Path> =
            self.paths.iter().filter_map(|closed| closed.strip_prefix(&root_path).ok()).collect();
        if closed_suffixes.is_empty() {
            grant(GrantTarget { descriptor: root, is_directory: is_directory(&stat) })?;
            return Ok(summary);
        }
        summary.has_closed_parts = true;
        self.grant_siblings(&root, &closed_suffixes, &mut summary, grant)?;
        Ok(summary)
    }

    /// Grants the entries of a directory on the way to protected paths; `closed_suffixes` are the remaining parts of
    /// those paths.
    fn grant_siblings(
        &self,
        directory: &OwnedFd,
        closed_suffixes: &[&Path],
        summary: &mut GrantSummary,
        grant: &mut dyn FnMut(GrantTarget) -> Result<(), String>,
    ) -> Result<(), String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = rustix::fs::openat(directory, c".", flags, Mode::empty()).and_then(Dir::read_from);
        let Ok(entries) = entries else {
            // For example `/home`, which may not be listable; the entries on the way are known nevertheless.
            summary.skipped_entries += 1;
            let names: HashSet<&OsStr> = closed_suffixes.iter().filter_map(|suffix| suffix.iter().next()).collect();
            return names
                .into_iter()
                .try_for_each(|name| self.grant_entry(directory, name, closed_suffixes, summary, grant));
        };
        for entry in entries {
            let Ok(entry) = entry else { break };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            summary.seen_entries += 1;
            if summary.seen_entries > MAX_ENTRIES {
                summary.skipped_entries += 1;
                continue;
            }
            self.grant_entry(directory, name, closed_suffixes, summary, grant)?;
        }
        Ok(())
    }

    /// Grants one entry of such a directory, or what lies in it beside protected paths.
    fn grant_entry(
        &self,
        directory: &OwnedFd,
        name: &OsStr,
        closed_suffixes: &[&Path],
        summary: &mut GrantSummary,
        grant: &mut dyn FnMut(GrantTarget) -> Result<(), String>,
    ) -> Result<(), String> {
        let remaining: Vec<&Path> =
            closed_suffixes.iter().filter_map(|suffix| suffix.strip_prefix(name).ok()).collect();
        if remaining.iter().any(|rest| rest.as_os_str().is_empty()) {
            return Ok(());
        }
        let (descriptor, stat) = match open_entry(directory, name) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            Err(_) => {
                summary.skipped_entries += 1;
                return Ok(());
            }
        };
        // Following a symlink needs no right; its target does.
        if self.identities.contains(&identity(&stat)) || FileType::from_raw_mode(stat.st_mode).is_symlink() {
            return Ok(());
        }
        if remaining.is_empty() {
            grant(GrantTarget { descriptor, is_directory: is_directory(&stat) })
        } else if is_directory(&stat) {
            self.grant_siblings(&descriptor, &remaining, summary, grant)
        } else {
            Ok(())
        }
    }
}

impl GrantSummary {
    pub(super) fn add(&mut self, other: Self) {
        self.has_closed_parts |= other.has_closed_parts;
        self.skipped_entries += other.skipped_entries;
    }
}

/// Opens one entry without following it; `None` if it has disappeared.
fn open_entry(directory: impl AsFd, name: &OsStr) -> io::Result<Option<(OwnedFd, Stat)>> {
    let descriptor = match rustix::fs::openat(directory, name, PATH_FLAGS, Mode::empty()) {
        Ok(descriptor) => descriptor,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = rustix::fs::statat(&descriptor, c"", AtFlags::EMPTY_PATH)?;
    Ok(Some((descriptor, stat)))
}

/// Resolves symlinks; the part that does not exist is kept as it is.
fn resolve_existing(path: &Path) -> io::Result<PathBuf> {
    let mut missing: Vec<OsString> = Vec::new();
    for ancestor in path.ancestors() {
        if let Some(mut resolved) = unless_absent(ancestor.canonicalize())? {
            resolved.extend(missing.iter().rev());
            return Ok(resolved);
        }
        missing.extend(ancestor.file_name().map(OsStr::to_owned));
    }
    Ok(path.to_owned())
}

fn unless_absent<T, E: Into<io::Error>>(result: Result<T, E>) -> io::Result<Option<T>> {
    match result.map_err(Into::into) {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_dir()
}

#[cfg(test)]
mod tests;
