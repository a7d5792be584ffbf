//! What a process could do to a guarded file or folder.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use patchboard_tools::guard::{FileSealing, WriteReach};
use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::path_resolution::PathResolution;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileReach {
    /// Nothing: the file is outside its roots.
    Outside,
    /// Nothing, provided this file is mounted read-only.
    Holdable(PathBuf),
    /// The process could write, replace or create it.
    Open,
}

/// `path` must be absolute and need not exist.
pub(super) fn file_reach(path: &Path, reach: &WriteReach) -> FileReach {
    let trail = PathResolution::of(path);
    let has_detour = has_detour(&trail, reach);
    if !has_detour && !can_change(&trail.target, reach) {
        return FileReach::Outside;
    }
    // A read-only mount at this path would not protect the other path.
    if reach.sealed_by != FileSealing::Existing || has_detour || lies_in_another_mount(&trail.target, reach) {
        return FileReach::Open;
    }
    match fs::symlink_metadata(&trail.target) {
        // A second hard link could be written to beneath the roots, and folders are not mounted.
        Ok(found) if found.is_file() && found.nlink() == 1 => FileReach::Holdable(trail.target),
        Ok(_) | Err(_) => FileReach::Open,
    }
}

/// Folders are never mounted read-only: agents work in them.
pub(super) fn can_change_folder(folder: &Path, reach: &WriteReach) -> bool {
    let trail = PathResolution::of(folder);
    let lies_above = reach.roots.iter().any(|root| root.starts_with(&trail.target));
    lies_above || has_detour(&trail, reach) || can_change(&trail.target, reach)
}

/// The directories to pin between the roots and a file, outermost first.
pub(super) fn pinned_ancestors(file: &Path, reach: &WriteReach) -> Vec<PathBuf> {
    let above = file.ancestors().skip(1).filter(|folder| reach.contains(folder) && *folder != Path::new("/"));
    let mut pinned: Vec<PathBuf> = above.map(Path::to_owned).collect();
    pinned.reverse();
    pinned
}

/// Whether the process could redirect the path by a name in a directory that is not an ancestor of the target.
fn has_detour(trail: &PathResolution, reach: &WriteReach) -> bool {
    trail.detour_folders().any(|folder| can_change(folder, reach))
}

/// A process may write beneath its roots what this user may: the file itself or a directory on its path.
fn can_change(real: &Path, reach: &WriteReach) -> bool {
    real.ancestors().filter(|part| reach.contains(part)).any(may_write) || lies_in_another_mount(real, reach)
}

/// The same folder may be mounted a second time, so paths alone do not show that it is reachable.
fn lies_in_another_mount(real: &Path, reach: &WriteReach) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let roots: Vec<_> =
        reach.roots.iter().filter(|root| !real.starts_with(root)).filter_map(|root| identity(root)).collect();
    !roots.is_empty() && real.ancestors().filter_map(identity).any(|part| roots.contains(&part))
}

/// The owner of a file can grant itself write permission.
fn may_write(path: &Path) -> bool {
    let is_own = || fs::metadata(path).is_ok_and(|found| found.uid() == geteuid().as_raw());
    geteuid().is_root() || access(path, Access::WRITE_OK).is_ok() || is_own()
}

#[cfg(test)]
mod tests;
