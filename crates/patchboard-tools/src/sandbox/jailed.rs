//! Handle of a running command, on the server's side.

use std::any::Any;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdout};

use super::protocol::{CommandExit, Confinement, MAX_REPORT_BYTES, STOP_REQUEST, SupervisorReport};
use super::{SandboxError, process_tree};

/// A supervisor that does not finish the kill within this time is stuck, or its command is blocked in the kernel.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A command in its jail. Dropping this kills the command and its descendants.
#[derive(Debug)]
pub struct JailedCommand {
    /// The pid as the jail's own processes see it.
    pub(super) pid_inside: i32,
    pub(super) confinement: Confinement,
    pub(super) scratch: PathBuf,
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
    /// Closing it makes the supervisor kill everything.
    pub(super) control_socket: Option<OwnedWriteHalf>,
    pub(super) reports: ReportReader,
    pub(super) process: Child,
    /// The kernel treats the spawning thread as the supervisor's parent, so it must outlive the supervisor.
    pub(super) _thread: Box<dyn Any + Send + Sync>,
}

impl JailedCommand {
    /// Pid of the command, which is also its process group; `None` once it has ended.
    pub fn pid(&self) -> Option<u32> {
        let inside = self.pid_inside.try_into().ok()?;
        if !self.confinement.namespaces.processes {
            return Some(inside);
        }
        process_tree::outer_pid(self.supervisor_pid()?, inside)
    }

    /// Pid of the supervisor, if the jail has its own PID namespace.
    pub fn namespace_supervisor(&self) -> Option<u32> {
        self.confinement.namespaces.processes.then_some(self.supervisor_pid()?)
    }

    pub fn supervisor_pid(&self) -> Option<u32> {
        self.process.id()
    }

    pub fn confinement(&self) -> Confinement {
        self.confinement
    }

    /// Present if the program was started with `StdinMode::Piped`.
    pub fn take_stdin(&mut self) -> Option<pipe::Sender> {
        self.stdin.take()
    }

    /// Reaches its end when the command and all its descendants have ended.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// Waits until the command and all its descendants have ended. Descendants that outlive the command are killed.
    pub async fn wait(&mut self) -> Result<CommandExit, SandboxError> {
        match self.reports.next().await {
            Ok(SupervisorReport::Ended(exit)) => Ok(exit),
            Ok(SupervisorReport::Started { .. } | SupervisorReport::Refused { .. })
            | Err(SandboxError::Protocol(_))
            | Err(SandboxError::Lost) => {
                self.kill_orphans().await;
                Err(SandboxError::Lost)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends SIGTERM to the command's process group. The command may ignore it.
    pub async fn request_stop(&mut self) {
        if let Some(control_socket) = &mut self.control_socket {
            // A write error means that the supervisor has exited.
            drop(control_socket.write_all(&[STOP_REQUEST]).await);
        }
    }

    /// Kills the command and its descendants. Returns at once; `wait` reports the end.
    pub fn start_kill(&mut self) {
        self.control_socket = None;
    }

    /// Kills everything and waits for the end.
    pub async fn kill(&mut self) -> Result<CommandExit, SandboxError> {
        self.start_kill();
        match tokio::time::timeout(END_TIMEOUT, self.wait()).await {
            Ok(exit) => exit,
            Err(_) => {
                // Killing the supervisor loses nothing: it could not kill the descendants either.
                drop(self.process.start_kill());
                self.kill_orphans().await;
                Err(SandboxError::Lost)
            }
        }
    }

    /// Kills what a lost supervisor left behind, as far as it can be found from here.
    async fn kill_orphans(&self) {
        let session = self.process.id().and_then(|pid| pid.try_into().ok()).and_then(Pid::from_raw);
        let scratch = self.scratch.clone();
        let cleanup = tokio::task::spawn_blocking(move || {
            if let Some(session) = session {
                process_tree::kill_session(session);
            }
            drop(std::fs::remove_dir_all(scratch));
        });
        drop(cleanup.await);
    }
}

/// Reads the supervisor's reports.
#[derive(Debug)]
pub(super) struct ReportReader {
    reader: BufReader<OwnedReadHalf>,
    /// Kept between calls, so that `next` is cancel-safe.
    line: Vec<u8>,
}

impl ReportReader {
    pub(super) fn new(socket: OwnedReadHalf) -> Self {
        Self { reader: BufReader::with_capacity(1024, socket), line: Vec::new() }
    }

    pub(super) async fn next(&mut self) -> Result<SupervisorReport, SandboxError> {
        let limit = MAX_REPORT_BYTES.saturating_sub(self.line.len() as u64);
        (&mut self.reader).take(limit).read_until(b'\n', &mut self.line).await.map_err(SandboxError::Protocol)?;
        let line = std::mem::take(&mut self.line);
        if !line.ends_with(b"\n") {
            return Err(SandboxError::Lost);
        }
        serde_json::from_slice(&line).map_err(|error| SandboxError::Protocol(error.into()))
    }
}
