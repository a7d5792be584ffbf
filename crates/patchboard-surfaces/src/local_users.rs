//! Which users of this machine may use a listener that asks for no token: the server's own, root, and those the operator
//! names. Anybody who has an account on the machine can connect to a loopback port, so the address alone is no trust.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::telemetry;

mod peer_user;

pub use peer_user::{LookupError, PeerUser};

const ROOT: u32 = 0;
/// In a user namespace the kernel calls every user so that has no number there.
const OVERFLOW_USER: u32 = 65534;
/// Whether every user has a number here: outside user namespaces.
static KNOWS_ALL_USERS: LazyLock<bool> =
    LazyLock::new(|| std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_all_users(&map)));
/// A process that tries again and again gets a line in the log this often.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct LocalUsers {
    own: u32,
    trusted: Arc<[u32]>,
    last_logged: Arc<AtomicU64>,
}

/// Why a process of this machine is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserRejection {
    User(u32),
    /// The connection is closed on the other side, or is not known to the kernel any more.
    ConnectionClosed,
    /// The kernel does not tell.
    Unknown,
}

impl LocalUsers {
    /// The user this process runs as, root, and `trusted`.
    pub fn new(trusted: impl Into<Arc<[u32]>>) -> Self {
        Self { own: own_user(), trusted: trusted.into(), last_logged: Arc::default() }
    }

    /// Whether the process at the other end of an accepted connection may come in.
    pub fn check(&self, surface: &'static str, stream: &TcpStream) -> Result<(), UserRejection> {
        let checked = self.examine(stream);
        if let Err(stranger) = checked {
            telemetry::refused(surface, "user");
            // There is nothing to say of one that is gone, and it must not take the place of one that is not.
            if stranger != UserRejection::ConnectionClosed && self.may_log() {
                log_rejection(surface, stranger);
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
            // There is no such question on other systems.
            Err(LookupError::NotLinux) => return Ok(()),
            Err(LookupError::Kernel(error)) => {
                tracing::debug!(%error, "the kernel was asked whose a connection is, and did not answer");
                return Err(UserRejection::Unknown);
            }
        };
        // While this end is open its addresses cannot be anybody else's, so what was found is the other end of this very
        // connection and not of a later one from the same port.
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

    /// At most one line for each interval, whatever the number of refusals.
    fn may_log(&self) -> bool {
        static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
        let now = START.elapsed().as_secs() + 1;
        let last = self.last_logged.load(Ordering::Relaxed);
        let is_due = last == 0 || now - last >= LOG_INTERVAL.as_secs();
        is_due && self.last_logged.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

fn log_rejection(surface: &'static str, stranger: UserRejection) {
    match stranger {
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
    /// For whoever is refused.
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

/// Whether the kernel tells whose a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerLookupSupport {
    Supported,
    /// Listeners without a token refuse everybody.
    Failing,
    /// This system knows no such question: listeners without a token serve every user of the machine.
    Unavailable,
}

/// Asks about a connection of our own.
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

/// Who listens at an address of this machine; `None` where nobody does or the kernel does not tell.
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
