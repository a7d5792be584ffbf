//! Covers paths with nothing, in a mount namespace that this process is in.
//!
//! Landlock cannot take back what it grants; a mount namespace can: where a folder was, there is an empty one that cannot
//! be written to, and where a file was, `/dev/null`. Everything around them is as usual, also what others make later.
//! Whoever is inside cannot lift a cover: that takes a privilege which is dropped before the command starts, and a
//! namespace made by the command itself keeps the covers, locked.
//!
//! What a cover cannot do: it lies on what exists. A file that is replaced from outside comes out from under it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, mount, mount_bind, mount_bind_recursive, mount_remount};
use rustix::process::chdir;

use super::namespace::{PrivateMounts, keep_mounts_inside};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MaskState {
    /// Nothing is covered: not asked for, or the kernel does not allow it.
    None,
    /// Every path that existed is covered.
    Applied,
}

/// What belongs to a cover.
#[derive(Debug, Default)]
pub(super) struct MaskPlan {
    /// Folders that lead to what is covered, outermost first: without them held, a covered folder could be moved away with
    /// the one it lies in.
    pub(super) pinned: Vec<PathBuf>,
    /// Folders beneath covered ones that show through.
    pub(super) exposed_folders: Vec<PathBuf>,
}

/// A folder that shows through a cover, opened before that was laid.
struct ExposedFolder {
    path: PathBuf,
    opened: OwnedFd,
}

impl MaskState {
    /// Covers what exists of `paths`. The process must be in its working folder already: a folder that is entered by an
    /// older descriptor lies outside of the namespace. `Err` is in words.
    pub(super) fn apply<'a>(
        own: PrivateMounts,
        paths: impl IntoIterator<Item = &'a Path>,
        plan: MaskPlan,
    ) -> Result<Self, String> {
        let found = existing(paths).map_err(|error| format!("cannot inspect a protected path: {error}"))?;
        match apply_all(own, &found, &plan) {
            Ok(()) => Ok(Self::Applied),
            // Some systems allow namespaces and then nothing in them.
            Err(_) => Ok(Self::None),
        }
    }
}

/// Those that exist, without symlinks, and of those that lie in another one only the other one.
fn existing<'a>(paths: impl IntoIterator<Item = &'a Path>) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths {
        match path.canonicalize() {
            Ok(real) => found.push(real),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort();
    found.dedup_by(|later, earlier| later.starts_with(earlier));
    Ok(found)
}

fn apply_all(own: PrivateMounts, paths: &[PathBuf], plan: &MaskPlan) -> io::Result<()> {
    keep_mounts_inside(own)?;
    for folder in &plan.pinned {
        // Recursive: without privileges outside, a tree cannot be bound without the mounts inside it.
        mount_bind_recursive(folder, folder)?;
    }
    let shown =
        plan.exposed_folders.iter().map(|folder| ExposedFolder::open(folder)).collect::<io::Result<Vec<_>>>()?;
    for path in paths {
        if path.is_dir() {
            mask_folder(path, shown.iter().filter(|folder| folder.path.starts_with(path)).collect())?;
        } else {
            mount_bind("/dev/null", path)?;
        }
    }
    // A folder that was entered before stays what it was, even under a cover; by its path it is entered anew.
    let folder = std::fs::read_link("/proc/self/cwd")?;
    chdir(&folder).or_else(|_| chdir(OsStr::new("/")))?;
    Ok(())
}

/// Where folders show through, the cover has the empty folders that lead to them.
fn mask_folder(path: &Path, shown: Vec<&ExposedFolder>) -> io::Result<()> {
    let inert = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if shown.is_empty() {
        return Ok(mount("tmpfs", path, "tmpfs", inert | MountFlags::RDONLY, c"mode=000,size=4k")?);
    }
    mount("tmpfs", path, "tmpfs", inert, c"mode=711,size=64k")?;
    for folder in shown {
        std::fs::create_dir_all(&folder.path)?;
        mount_bind_recursive(format!("/proc/self/fd/{}", folder.opened.as_raw_fd()), &folder.path)?;
    }
    Ok(mount_remount(path, inert | MountFlags::RDONLY, c"mode=711,size=64k")?)
}

impl ExposedFolder {
    fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Self { path, opened })
    }
}

#[cfg(test)]
mod tests;
