//! Decides which local users may use a listener that requires no token: the server's own user, root, and users the
//! operator lists. Every account on the machine can connect to a loopback port, so the address alone proves nothing.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::telemetry;

mod peer_user;

pub use peer_user::{LookupError, PeerUser};

const ROOT: u32 = 0;
/// The kernel reports this id for users that are not mapped in the current user namespace.
const OVERFLOW_USER: u32 = 65534;
/// Whether all user ids are mapped here, which holds outside user namespaces.
static KNOWS_ALL_USERS: LazyLock<bool> =
    LazyLock::new(|| std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_all_users(&map)));
/// A rejected process that keeps retrying is logged this often.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct LocalUsers {
    own: u32,
    trusted: Arc<[u32]>,
    last_logged: Arc<AtomicU64>,
}

/// Why a local process is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserRejection {
    User(u32),
    /// The peer has closed the connection, or the kernel no longer knows it.
    ConnectionClosed,
    /// The kernel does not report the user.
    Unknown,
}

impl LocalUsers {
    /// The user this process runs as, root, and `trusted`.
    pub fn new(trusted: impl Into<Arc<[u32]>>) -> Self {
        Self { own: own_user(), trusted: trusted.into(), last_logged: Arc::default() }
    }

    /// Checks whether the process at the other end of an accepted connection may use the listener.
    pub fn check(&self, surface: &'static str, stream: &TcpStream) -> Result<(), UserRejection> {
        let checked = self.examine(stream);
        if let Err(rejection) = checked {
            telemetry::refused(surface, "user");
            // A closed connection has no user to report, and logging it would use up the interval's only line.
            if rejection != UserRejection::ConnectionClosed && self.may_log() {
                log_rejection(surface, rejection);
            }
        }
        checked
    }

    fn examine(&self, stream: &TcpStream) -> Result<(), UserRejection> {
        let (Ok(server), Ok(client)) = (stream.local_addr(), stream.peer_addr()) else {
            return Err(UserRejection::ConnectionClosed);
        };
        let user = match peer_user::find(client, server) {
            Ok(PeerUser::Known(user)) => user,
            Ok(PeerUser::NotFound) => return Err(UserRejection::ConnectionClosed),
            // Other systems have no such lookup.
            Err(LookupError::NotLinux) => return Ok(()),
            Err(LookupError::Kernel(error)) => {
                tracing::debug!(%error, "looking up the user of a connection failed");
                return Err(UserRejection::Unknown);
            }
        };
        // While this socket is open its address pair cannot be reused, so the lookup found the peer of this connection
        // and not of a later one from the same port.
        if stream.peer_addr().is_err() {
            return Err(UserRejection::ConnectionClosed);
        }
        if !is_certain(user) {
            return Err(UserRejection::Unknown);
        }
        if self.admits(user) { Ok(()) } else { Err(UserRejection::User(user)) }
    }

    fn admits(&self, user: u32) -> bool {
        user == self.own || user == ROOT || self.trusted.contains(&user)
    }

    /// Limits the log to one line per interval, however many connections are rejected.
    fn may_log(&self) -> bool {
        static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
        let now = START.elapsed().as_secs() + 1;
        let last = self.last_logged.load(Ordering::Relaxed);
        let is_due = last == 0 || now - last >= LOG_INTERVAL.as_secs();
        is_due && self.last_logged.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

fn log_rejection(surface: &'static str, rejection: UserRejection) {
    match rejection {
        UserRejection::User(user) => tracing::warn!(
            surface,
            user,
            "a process of another user was refused: without a token only this server's own user may connect; set a token, \
             or name the user in `trusted_users`"
        ),
        UserRejection::Unknown => tracing::warn!(
            surface,
            "connections are refused: no token is set, and the kernel does not tell which user connects; set a token"
        ),
        UserRejection::ConnectionClosed => {}
    }
}

impl UserRejection {
    /// The response text for the rejected client.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::User(_) | Self::ConnectionClosed => {
                "this server asks for no token, so only processes of its own user may connect; its operator can set a \
                 token, or name your user in `trusted_users`"
            }
            Self::Unknown => {
                "this server asks for no token and cannot tell which user connects; its operator has to set a token"
            }
        }
    }
}

fn is_certain(user: u32) -> bool {
    user != OVERFLOW_USER || *KNOWS_ALL_USERS
}

fn maps_all_users(map: &str) -> bool {
    map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

/// Whether the kernel reports the user of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerLookupSupport {
    Supported,
    /// Listeners without a token refuse all clients.
    Failing,
    /// This system has no such lookup: listeners without a token serve every user of the machine.
    Unavailable,
}

/// Tests the lookup on a loopback connection of this process.
pub fn probe_peer_lookup() -> PeerLookupSupport {
    let ask = || {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        let server = listener.local_addr()?;
        let client = std::net::TcpStream::connect(server)?;
        peer_user::find(client.local_addr()?, server)
    };
    match ask() {
        Ok(PeerUser::Known(user)) if user == own_user() && is_certain(user) => PeerLookupSupport::Supported,
        Err(LookupError::NotLinux) => PeerLookupSupport::Unavailable,
        Ok(PeerUser::Known(_) | PeerUser::NotFound) | Err(LookupError::Kernel(_)) => PeerLookupSupport::Failing,
    }
}

/// The user who listens at a local address; `None` if no socket listens there or the kernel does not report its user.
pub fn listening_user(address: SocketAddr) -> Option<u32> {
    match peer_user::find_listener(address) {
        Ok(PeerUser::Known(user)) => Some(user),
        Ok(PeerUser::NotFound) | Err(_) => None,
    }
}

pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests;
