//! The machine workers run on, as the pool sees it: processes and connections. Tests bring a machine of their own.

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
    /// Starts a program. `Err` is a sentence for the log.
    fn launch(&self, order: LaunchSpec) -> BoxFuture<'_, Result<Box<dyn WorkerProcess>, String>>;

    fn connect<'a>(&'a self, address: &'a WorkerAddress) -> BoxFuture<'a, io::Result<Box<dyn WorkerStream>>>;

    /// What a process and everything it started hold in memory; `None` where nobody can tell.
    fn memory(&self, pid: u32) -> BoxFuture<'_, Option<u64>>;
}

/// What to start.
#[derive(Debug)]
pub(super) struct LaunchSpec {
    /// The pool it is for.
    pub(super) pool: Arc<str>,
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    /// All its variables.
    pub(super) environment: BTreeMap<String, SecretString>,
    pub(super) folder: PathBuf,
    /// Made for it alone.
    pub(super) private: PathBuf,
    /// What it may change besides its private folders. All exist.
    pub(super) writable: Vec<PathBuf>,
    /// A folder of its pool for compiled code.
    pub(super) bytecode_cache: Option<PathBuf>,
    pub(super) memory_limit: Option<u64>,
    /// Of the block of ports, those that it may connect to and bind. Those of others are closed to it.
    pub(super) ports: Vec<u16>,
    pub(super) stdin: WorkerStdin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerStdin {
    Null,
    Piped,
}

/// A program that was started. Dropped, it is killed with everything it started.
pub(super) trait WorkerProcess: Send + fmt::Debug {
    fn pid(&self) -> Option<u32>;

    /// Returns when it has ended, with how. May be dropped and called again.
    fn wait(&mut self) -> BoxFuture<'_, String>;

    /// Whether it does is its own choice.
    fn request_stop(&mut self) -> BoxFuture<'_, ()>;

    /// Ends it and everything it started, and waits for that.
    fn kill(&mut self) -> BoxFuture<'_, ()>;

    /// How its own processes are known here.
    fn pid_mapping(&self) -> PidMapping {
        PidMapping::default()
    }

    /// It has announced itself.
    fn set_announced_pid(&mut self, _pid: Option<u32>) {}

    fn take_stdin(&mut self) -> Option<pipe::Sender>;

    /// The end of what it said on standard output and standard error.
    fn output_tail(&self) -> StdioTail;
}

/// What a worker calls its processes, and what they are called here: in a PID namespace of its own it counts anew.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PidMapping {
    /// The process that made the namespace, if there is one.
    pub(super) supervisor: Option<u32>,
}

impl PidMapping {
    /// `None` when there is no such process.
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
