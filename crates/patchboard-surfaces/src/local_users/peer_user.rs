//! Whose the other end of a TCP connection within this machine is. The kernel is asked about exactly this connection
//! (`NETLINK_SOCK_DIAG`), which takes microseconds however many there are; the tables in `/proc/net` have to be read whole.

use std::io;
use std::net::SocketAddr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerUser {
    Known(u32),
    /// There is no such connection, or no process holds its other end any more: a socket that is closed while its data
    /// is still on the way counts as root's, so it must not count at all.
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
