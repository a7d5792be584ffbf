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
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::process::chdir;

use super::namespace::keep_mounts_inside;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cover {
    /// Nothing is covered: not asked for, or the kernel does not allow it.
    None,
    /// Every path that existed is covered.
    Laid,
}

impl Cover {
    /// Covers what exists of `paths`. The process must be in its working folder already: a folder that is entered by an
    /// older descriptor lies outside of the namespace. `Err` is in words.
    pub(super) fn lay<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Self, String> {
        let found = existing(paths).map_err(|error| format!("cannot inspect a protected path: {error}"))?;
        match lay_all(&found) {
            Ok(()) => Ok(Self::Laid),
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

fn lay_all(paths: &[PathBuf]) -> io::Result<()> {
    keep_mounts_inside()?;
    let inert = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    for path in paths {
        if path.is_dir() {
            mount("tmpfs", path, "tmpfs", inert, c"mode=000,size=4k")?;
        } else {
            mount_bind("/dev/null", path)?;
        }
    }
    // A folder that was entered before stays what it was, even under a cover; by its path it is entered anew.
    let folder = std::fs::read_link("/proc/self/cwd")?;
    chdir(&folder).or_else(|_| chdir(OsStr::new("/")))?;
    Ok(())
}

#[cfg(test)]
mod tests;
