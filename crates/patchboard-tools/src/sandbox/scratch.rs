//! The private folder of one command: its home and its temporary files.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Names tried before giving up.
const MAX_ATTEMPTS: u32 = 1000;

/// Removed when dropped.
#[derive(Debug)]
pub(super) struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// `owner` must be unique among running supervisors.
    pub(super) fn make(parent: &Path, owner: &str) -> io::Result<Self> {
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700);
        for number in 0..MAX_ATTEMPTS {
            let scratch = Self(parent.join(format!("patchboard-{owner}-{number}")));
            match builder.create(&scratch.0) {
                Ok(()) => {
                    builder.create(scratch.home())?;
                    builder.create(scratch.temporary())?;
                    return Ok(scratch);
                }
                // Left behind by an earlier process with the same pid.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn home(&self) -> PathBuf {
        self.0.join("home")
    }

    pub(super) fn temporary(&self) -> PathBuf {
        self.0.join("tmp")
    }

    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.0, flags, Mode::empty())?)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // A folder that cannot be removed is left to the system's cleanup of temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
