//! Masks paths by mounts, in the mount namespace of this process.
//!
//! Landlock cannot take back what it grants; a mount namespace can: a masked folder appears as an empty, unwritable one
//! and a masked file as `/dev/null`. Everything around them is unaffected, including files created later. A jailed
//! process cannot remove a mask: that takes a capability which is dropped before the command starts, and in a namespace
//! made by the command itself the masks stay locked.
//!
//! Limitation: a mask applies to an existing inode. A file that is replaced from outside is no longer masked.

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
    /// Nothing is masked: not requested, or not allowed by the kernel.
    None,
    /// Every path that existed is masked.
    Applied,
}

/// Mounts needed in addition to the masks.
#[derive(Debug, Default)]
pub(super) struct MaskPlan {
    /// Folders on the way to masked paths, outermost first. They become mount points, so that a masked folder cannot be
    /// moved away with its parent.
    pub(super) pinned: Vec<PathBuf>,
    /// Folders beneath masked ones that stay visible.
    pub(super) exposed_folders: Vec<PathBuf>,
}

/// A folder that stays visible in a masked one, opened before the mask is mounted.
struct ExposedFolder {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl MaskState {
    /// Masks the existing ones of `paths`. The process must have entered its working folder by path: a folder entered
    /// through an older descriptor lies outside the namespace. The error is a message.
    pub(super) fn apply<'a>(
        private_mounts: PrivateMounts,
        paths: impl IntoIterator<Item = &'a Path>,
        plan: MaskPlan,
    ) -> Result<Self, String> {
        let found = existing(paths).map_err(|error| format!("cannot inspect a protected path: {error}"))?;
        match apply_all(private_mounts, &found, &plan) {
            Ok(()) => Ok(Self::Applied),
            // Some systems allow namespaces but no mounts in them.
            Err(_) => Ok(Self::None),
        }
    }
}

/// The existing paths without symlinks; paths that lie in another of them are dropped.
fn existing<'a>(paths: impl IntoIterator<Item = &'a Path>) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = Vec::new();
    for path in paths {
        match path.canonicalize() {
            Ok(resolved) => found.push(resolved),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort();
    found.dedup_by(|later, earlier| later.starts_with(earlier));
    Ok(found)
}

fn apply_all(private_mounts: PrivateMounts, paths: &[PathBuf], plan: &MaskPlan) -> io::Result<()> {
    keep_mounts_inside(private_mounts)?;
    for folder in &plan.pinned {
        // Recursive: without privileges in the outer namespace, a tree cannot be bound without the mounts inside it.
        mount_bind_recursive(folder, folder)?;
    }
    let exposed =
        plan.exposed_folders.iter().map(|folder| ExposedFolder::open(folder)).collect::<io::Result<Vec<_>>>()?;
    for path in paths {
        if path.is_dir() {
            mask_folder(path, exposed.iter().filter(|folder| folder.path.starts_with(path)).collect())?;
        } else {
            mount_bind("/dev/null", path)?;
        }
    }
    // The current folder stays the unmasked one even if it is masked now, so it is entered again by its path.
    let folder = std::fs::read_link("/proc/self/cwd")?;
    chdir(&folder).or_else(|_| chdir(OsStr::new("/")))?;
    Ok(())
}

/// If folders stay visible, the mask contains the empty folders that lead to them.
fn mask_folder(path: &Path, exposed: Vec<&ExposedFolder>) -> io::Result<()> {
    let base_flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if exposed.is_empty() {
        return Ok(mount("tmpfs", path, "tmpfs", base_flags | MountFlags::RDONLY, c"mode=000,size=4k")?);
    }
    mount("tmpfs", path, "tmpfs", base_flags, c"mode=711,size=64k")?;
    for folder in exposed {
        std::fs::create_dir_all(&folder.path)?;
        mount_bind_recursive(format!("/proc/self/fd/{}", folder.descriptor.as_raw_fd()), &folder.path)?;
    }
    Ok(mount_remount(path, base_flags | MountFlags::RDONLY, c"mode=711,size=64k")?)
}

impl ExposedFolder {
    fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Self { path, descriptor })
    }
}

#[cfg(test)]
mod tests;
