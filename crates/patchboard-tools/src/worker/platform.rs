//! The platform of a pool: processes and connections. Tests supply their own implementation.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use secrecy::SecretString;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;

use super::ready_file::WorkerAddress;

pub(super) trait WorkerPlatform: Send + Sync + fmt::Debug {
    /// Starts a program. The error is a message for the log.
    fn launch(&self, spec: LaunchSpec) -> BoxFuture<'_, Result<Box<dyn WorkerProcess>, String>>;

    fn connect<'a>(&'a self, address: &'a WorkerAddress) -> BoxFuture<'a, io::Result<Box<dyn WorkerStream>>>;

    /// Memory used by a process tree; `None` if unknown.
    fn memory(&self, pid: u32) -> BoxFuture<'_, Option<u64>>;
}

/// Describes the program to start.
#[derive(Debug)]
pub(super) struct LaunchSpec {
    /// The pool the program belongs to.
    pub(super) pool: Arc<str>,
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    /// The complete environment.
    pub(super) environment: BTreeMap<String, SecretString>,
    pub(super) folder: PathBuf,
    /// A folder created for this program only.
    pub(super) private: PathBuf,
    /// Paths it may write to besides its private folders. All exist.
    pub(super) writable: Vec<PathBuf>,
    /// Folder of the pool for compiled bytecode.
    pub(super) bytecode_cache: Option<PathBuf>,
    pub(super) memory_limit: Option<u64>,
    /// The ports of the block that it may connect to and bind. All other ports of the block are closed to it.
    pub(super) ports: Vec<u16>,
    pub(super) stdin: WorkerStdin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerStdin {
    Null,
    Piped,
}

/// A started program. Dropping it kills its process tree.
pub(super) trait WorkerProcess: Send + fmt::Debug {
    fn pid(&self) -> Option<u32>;

    /// Returns the exit status once the process has ended. Cancel-safe: may be dropped and called again.
    fn wait(&mut self) -> BoxFuture<'_, String>;

    /// Sends SIGTERM; the program may ignore it.
    fn request_stop(&mut self) -> BoxFuture<'_, ()>;

    /// Kills the process tree and waits for its end.
    fn kill(&mut self) -> BoxFuture<'_, ()>;

    /// How pids reported by the program map to pids of this process's namespace.
    fn pid_mapping(&self) -> PidMapping {
        PidMapping::default()
    }

    /// Called when the worker has announced its pid.
    fn set_announced_pid(&mut self, _pid: Option<u32>) {}

    fn take_stdin(&mut self) -> Option<pipe::Sender>;

    /// The tail of its standard output and standard error.
    fn output_tail(&self) -> StdioTail;
}

/// Maps pids inside the worker's PID namespace, if it has one, to pids here.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PidMapping {
    /// The supervisor process that created the namespace, if there is one.
    pub(super) supervisor: Option<u32>,
}

impl PidMapping {
    /// Returns `None` if there is no such process.
    pub(super) fn outer_pid(self, inside: u32) -> Option<u32> {
        match self.supervisor {
            #[cfg(target_os = "linux")]
            Some(supervisor) => crate::sandbox::outer_pid(supervisor, inside),
            #[cfg(not(target_os = "linux"))]
            Some(_) => None,
            None => Some(inside),
        }
    }
}

pub(super) trait WorkerStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> WorkerStream for T {}

pub(super) use super::output_tail::StdioTail;
