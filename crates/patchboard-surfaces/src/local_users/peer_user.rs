//! Finds the user at the other end of a local TCP connection. The kernel is queried for this one connection
//! (`NETLINK_SOCK_DIAG`), which takes microseconds however many connections exist; the tables in `/proc/net` have to be
//! read whole.

use std::io;
use std::net::SocketAddr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerUser {
    Known(u32),
    /// No such connection exists, or no process holds its other end any more. The kernel attributes a socket that is
    /// closed but still has data in flight to root, so it must not be accepted.
    NotFound,
}

#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    #[error("this system has no such request")]
    NotLinux,
    #[error(transparent)]
    Kernel(#[from] io::Error),
}

/// The user who connected from `client` to `server`.
#[cfg(target_os = "linux")]
pub(super) fn find(client: SocketAddr, server: SocketAddr) -> Result<PeerUser, LookupError> {
    Ok(linux::find(client, server)?)
}

/// The user who listens at `address`.
#[cfg(target_os = "linux")]
pub(super) fn find_listener(address: SocketAddr) -> Result<PeerUser, LookupError> {
    Ok(linux::find_listener(address)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn find_listener(_address: SocketAddr) -> Result<PeerUser, LookupError> {
    Err(LookupError::NotLinux)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn find(_client: SocketAddr, _server: SocketAddr) -> Result<PeerUser, LookupError> {
    Err(LookupError::NotLinux)
}

#[cfg(target_os = "linux")]
mod linux;
