//! Confined child processes that leave nothing running behind.
//!
//! The server never starts a command itself. It starts its own program again as a supervisor (`supervisor`), which
//! makes a jail, starts the command in it and stays its parent. The two talk over a socket: when the server's end
//! closes, on purpose or because the server died, the supervisor kills every descendant of the command, whatever
//! session or process group it moved to, and then exits.
//!
//! * `jail` – what a command may access: the part that callers fill in.
//! * `spawner` – starts supervisors, from one long-lived thread; `jailed` – the handle of a running command.
//! * `supervisor` – the other end, in the other process; `confine` makes the jail out of `namespace`, `mount_mask`,
//!   `hard_links`, `read_only`, `protect`, `landlock_rules` and `seccomp`; `scratch` – the private folder;
//!   `process_tree` kills descendants.
//! * `kernel` – what the kernel can enforce, as text.
//! * `protocol` – the messages between the two processes.
//!
//! A jail consists of: Landlock for files, TCP ports, signals and abstract sockets; where the kernel allows them, a PID
//! and a mount namespace, in which outside processes have no pid and protected paths are masked; a seccomp filter for
//! what these leave open; no new privileges; no capabilities beyond those of an ordinary root; resource limits; a
//! session of its own without a terminal; an environment of named variables; no inherited descriptors; a private folder
//! for temporary files.
//!
//! Not covered: UDP is not restricted, nor, before Landlock ABI 9, sockets with a path, for programs that may use Unix
//! sockets. The number of processes is not limited: the kernel counts them per user, so any useful limit would depend
//! on what else that user runs.
//!
//! This module deals with processes; it must not depend on tools.

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

/// The first argument that makes this program a supervisor.
pub const EXEC_VERB: &str = "__exec";

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("cannot start the supervisor of a command")]
    SupervisorStart(#[source] io::Error),
    #[error("cannot talk to the supervisor of a command")]
    Protocol(#[source] io::Error),
    #[error("the supervisor of a command does not answer")]
    NoReply,
    /// The supervisor ended before its command did. Descendants of the command were killed as far as they could be
    /// found.
    #[error("the supervisor of a command died")]
    Lost,
    #[error("{0}")]
    Refused(String),
    #[error("the command is too large: {size} bytes of at most {limit}")]
    TooLarge { size: usize, limit: usize },
    #[error("this is started by the server, not by hand")]
    StartedByHand(#[source] io::Error),
}
