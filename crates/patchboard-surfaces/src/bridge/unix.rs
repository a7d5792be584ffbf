//! A Unix socket for processes of the server's own user.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// A bound socket; its file is removed on drop.
#[derive(Debug)]
pub struct UnixSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket file: another server may have replaced it before this one is dropped.
    file: (u64, u64),
}

impl UnixSocket {
    /// Replaces a stale socket file; fails if another server accepts connections on it, or if it is not a socket. Must
    /// be called within a runtime.
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
        // Until this line other users may connect as far as the directory permits; the peer's user is checked in any
        // case.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let file = std::fs::symlink_metadata(path)?;
        Ok(Self { listener, path: path.to_owned(), file: (file.dev(), file.ino()) })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let is_ours = |file: std::fs::Metadata| (file.dev(), file.ino()) == self.file;
        if std::fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            // The file may already be removed.
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// Whether the peer's process belongs to `user`.
pub(super) fn is_owned_by(stream: &UnixStream, user: u32) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == user)
}
