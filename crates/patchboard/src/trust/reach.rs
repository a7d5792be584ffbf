//! What a process could change of an obeyed file or folder.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use patchboard_tools::guard::{HeldFiles, WriteReach};
use rustix::fs::{Access, access};
use rustix::process::geteuid;

/// What a process can do to an obeyed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileReach {
    /// Nothing: it lies elsewhere.
    Outside,
    /// Nothing, if this file is mounted read-only.
    Holdable(PathBuf),
    /// It could write, replace or create it.
    Open,
}

/// `path` is absolute and need not exist.
pub(super) fn file_reach(path: &Path, reach: &WriteReach) -> FileReach {
    let has_link = path.ancestors().any(|part| is_link_within(part, reach));
    let lies_within = existing(path).is_some_and(|real| can_change(&real, reach));
    if !has_link && !lies_within {
        return FileReach::Outside;
    }
    if reach.held != HeldFiles::Existing || has_link {
        return FileReach::Open;
    }
    match path.canonicalize().and_then(|real| Ok((fs::metadata(&real)?, real))) {
        // Another name of the same file could be written to beneath the roots, and a folder is not mounted.
        Ok((found, real)) if found.is_file() && found.nlink() == 1 => FileReach::Holdable(real),
        Ok(_) | Err(_) => FileReach::Open,
    }
}

/// Folders are never mounted read-only: they are where agents work.
pub(super) fn touches_folder(folder: &Path, reach: &WriteReach) -> bool {
    let has_link = folder.ancestors().any(|part| is_link_within(part, reach));
    let real = existing(folder).unwrap_or_else(|| folder.to_owned());
    has_link || can_change(&real, reach) || reach.roots.iter().any(|root| root.starts_with(&real))
}

/// The directories to pin on the way from the roots to a file, outermost first.
pub(super) fn pinned(file: &Path, reach: &WriteReach) -> Vec<PathBuf> {
    let above = file.ancestors().skip(1).filter(|folder| reach.contains(folder) && *folder != Path::new("/"));
    let mut pinned: Vec<PathBuf> = above.map(Path::to_owned).collect();
    pinned.reverse();
    pinned
}

/// A symbolic link whose own directory can be written to.
fn is_link_within(part: &Path, reach: &WriteReach) -> bool {
    let is_link = fs::symlink_metadata(part).is_ok_and(|found| found.is_symlink());
    is_link && part.parent().and_then(|parent| parent.canonicalize().ok()).is_some_and(|real| can_change(&real, reach))
}

/// The process may write beneath its roots what this user may: the file itself, or a directory that leads to it.
fn can_change(real: &Path, reach: &WriteReach) -> bool {
    real.ancestors().filter(|part| reach.contains(part)).any(is_permitted)
}

/// An owner can give itself the right to write.
fn is_permitted(path: &Path) -> bool {
    let is_own = || fs::metadata(path).is_ok_and(|found| found.uid() == geteuid().as_raw());
    geteuid().is_root() || access(path, Access::WRITE_OK).is_ok() || is_own()
}

/// The real path of the nearest part that exists, with the rest as it is.
fn existing(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|part| {
        let real = part.canonicalize().ok()?;
        Some(match path.strip_prefix(part) {
            Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
            Ok(_) | Err(_) => real,
        })
    })
}

#[cfg(test)]
mod tests;
