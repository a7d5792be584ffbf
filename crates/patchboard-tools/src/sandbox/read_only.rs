//! Bind-mounts files read-only onto themselves in the jail's mount namespace. Such a file cannot be written, truncated,
//! replaced or removed there. The directories on the way to it become mount points too, so that none of them can be
//! renamed to put another tree in its place.
//!
//! Unlike masking, this must succeed: the server has recorded that the files are protected.

use std::io;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, mount_bind, mount_bind_recursive, mount_remount};
use rustix::process::chdir;

use super::namespace::{PrivateMounts, keep_mounts_inside};

/// Call after the working folder was entered by its path.
pub(super) fn mount_read_only<'a>(
    private_mounts: PrivateMounts,
    pinned: impl IntoIterator<Item = &'a Path>,
    files: impl IntoIterator<Item = &'a Path>,
) -> Result<(), String> {
    let mount_error = |path: &Path, error: io::Error| format!("cannot keep {} read-only: {error}", path.display());
    keep_mounts_inside(private_mounts).map_err(|error| mount_error(Path::new("/"), error.into()))?;
    for folder in pinned {
        // Recursive: without privileges in the outer namespace, a tree cannot be bound without the mounts inside it.
        mount_bind_recursive(folder, folder).map_err(|error| mount_error(folder, error.into()))?;
    }
    for file in files {
        bind_read_only(file).map_err(|error| mount_error(file, error))?;
    }
    // The current folder now lies beneath the new mounts, so it is entered again by its path.
    std::fs::read_link("/proc/self/cwd")
        .and_then(|folder| Ok(chdir(&folder)?))
        .map_err(|error| format!("cannot enter the working folder again: {error}"))
}

fn bind_read_only(file: &Path) -> io::Result<()> {
    mount_bind(file, file)?;
    // In a user namespace the flags that the mount already has are locked: a remount must repeat them.
    let current_flags = statvfs(file)?.f_flag;
    let locked_flags = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let preserved = locked_flags.into_iter().filter(|(held, _)| current_flags.contains(*held)).map(|(_, flag)| flag);
    let flags = preserved.fold(MountFlags::BIND | MountFlags::RDONLY, |all, flag| all | flag);
    Ok(mount_remount(file, flags, "")?)
}
