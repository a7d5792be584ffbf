//! A socket in the file system, for processes of the same user.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Bound, and gone from the file system when it is dropped.
#[derive(Debug)]
pub struct UnixSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's name, which may be another one's by the time this one goes.
    file: (u64, u64),
}

impl UnixSocket {
    /// A name that a server left behind is taken over; one that is answered at, or is no socket, is not. To be called
    /// within a runtime.
    pub fn bind(path: &Path) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of that name"));
            }
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
            }
            Ok(_) => std::fs::remove_file(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(path)?;
        // Until here others can reach it as far as the folder lets them; who connects is looked at in any case.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let file = std::fs::symlink_metadata(path)?;
        Ok(Self { listener, path: path.to_owned(), file: (file.dev(), file.ino()) })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let is_ours = |file: std::fs::Metadata| (file.dev(), file.ino()) == self.file;
        if std::fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            // It may be gone by now; nothing is left to do then.
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// Does the other end belong to that user?
pub(super) fn is_owned_by(stream: &UnixStream, user: u32) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == user)
}
