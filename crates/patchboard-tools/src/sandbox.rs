//! Child processes that can do little and leave nothing behind.
//!
//! The server never starts a command itself. It starts this program again as a supervisor (`supervisor`), which makes a
//! jail, starts the command in it, and stays its parent. The two talk over a socket, which is also the leash: when the
//! server's end closes, by intent or because the server died, the supervisor ends every descendant of the command,
//! whatever sessions or groups they fled to, and then itself.
//!
//! * `jail` – what a command may touch: the part that callers fill in.
//! * `spawner` – starts supervisors, from one thread that lasts, and `jailed`, the handle of a running one.
//! * `supervisor` – the other end, in the other process; `confine` makes the jail, of `namespace`, `cover`, `links`,
//!   `read_only`,
//!   `protect`, `ground` and `filter`; `kin` ends descendants.
//! * `kernel` – what the kernel can enforce, in words.
//! * `order` – what the two processes say to each other.
//!
//! What a jail is made of: Landlock for files, TCP ports, signals and abstract sockets; a PID and a mount namespace, if
//! the kernel allows them, in which nobody else has a number and what is protected is covered; a filter of system calls for
//! what these leave open; no new privileges; no capabilities beyond those of an ordinary root; resource limits; a session of
//! its own without a terminal; an environment of named variables; no inherited descriptors; a private folder for temporary
//! files.
//!
//! What it is not, so that nobody relies on it: UDP is not restricted, nor, before Landlock ABI 9, sockets that have a
//! path for programs that may use such sockets. The number of processes is not limited: the kernel counts them per user, so
//! any useful limit would depend on what else that user runs.
//!
//! This module knows processes; it must not know tools.

mod confine;
mod hard_links;
mod jail;
mod jailed;
mod kernel;
mod landlock_rules;
mod mount_mask;
mod namespace;
mod process_tree;
mod protect;
mod protocol;
mod read_only;
mod scratch;
mod seccomp;
mod spawner;
mod supervisor;

pub use jail::{
    CommandSpec, FilesystemView, Jail, NetworkAccess, ResourceLimits, StdinMode, TcpAccess, default_environment,
};
pub use jailed::JailedCommand;
pub use kernel::{JailLayer, LandlockSupport};
pub use namespace::Namespaces;
pub(crate) use process_tree::{descendants_of, outer_pid};
pub use protocol::{CommandExit, Confinement};
pub use spawner::Spawner;
pub use supervisor::exec_main;

use std::io;

/// The argument that makes this program a supervisor.
pub const EXEC_VERB: &str = "__exec";

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("cannot start the supervisor of a command")]
    SupervisorStart(#[source] io::Error),
    #[error("cannot talk to the supervisor of a command")]
    Protocol(#[source] io::Error),
    #[error("the supervisor of a command does not answer")]
    NoReply,
    /// The supervisor ended before its command did. What the command had started was ended as far as it could be found.
    #[error("the supervisor of a command died")]
    Lost,
    #[error("{0}")]
    Refused(String),
    #[error("the command is too large: {size} bytes of at most {limit}")]
    TooLarge { size: usize, limit: usize },
    #[error("this is started by the server, not by hand")]
    StartedByHand(#[source] io::Error),
}
