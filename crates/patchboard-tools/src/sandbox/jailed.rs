//! A running command, seen from the server.

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

/// A supervisor that was told to end everything and does not is stuck, or its command is in the hands of the kernel.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A command in its jail. Dropping this ends the command and everything it started.
#[derive(Debug)]
pub struct JailedCommand {
    /// As the jail's own processes see it.
    pub(super) pid_inside: i32,
    pub(super) confinement: Confinement,
    pub(super) scratch: PathBuf,
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
    /// Its end tells the supervisor to end everything.
    pub(super) control_socket: Option<OwnedWriteHalf>,
    pub(super) reports: ReportReader,
    pub(super) process: Child,
    /// The thread that started the supervisor must outlive it.
    pub(super) _thread: Box<dyn Any + Send + Sync>,
}

impl JailedCommand {
    /// Of the command, which leads a process group of that number; `None` once it has ended.
    pub fn pid(&self) -> Option<u32> {
        let inside = self.pid_inside.try_into().ok()?;
        if !self.confinement.namespaces.processes {
            return Some(inside);
        }
        process_tree::outer_pid(self.supervisor_pid()?, inside)
    }

    /// The supervisor, if the command's processes have other numbers inside than here.
    pub fn namespace_supervisor(&self) -> Option<u32> {
        self.confinement.namespaces.processes.then_some(self.supervisor_pid()?)
    }

    pub fn supervisor_pid(&self) -> Option<u32> {
        self.process.id()
    }

    pub fn confinement(&self) -> Confinement {
        self.confinement
    }

    /// There is one if the program was started with `Input::Piped`.
    pub fn take_stdin(&mut self) -> Option<pipe::Sender> {
        self.stdin.take()
    }

    /// Ends when the command and everything it started have ended.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// Waits until the command and everything it started have ended. Once the command ends by itself, what it left
    /// running is ended too.
    pub async fn wait(&mut self) -> Result<CommandExit, SandboxError> {
        match self.reports.next().await {
            Ok(SupervisorReport::Ended(ending)) => Ok(ending),
            Ok(SupervisorReport::Started { .. } | SupervisorReport::Refused { .. })
            | Err(SandboxError::Protocol(_))
            | Err(SandboxError::Lost) => {
                self.kill_orphans().await;
                Err(SandboxError::Lost)
            }
            Err(error) => Err(error),
        }
    }

    /// Asks the command to end, with SIGTERM to its process group. Whether it does is its own choice.
    pub async fn request_stop(&mut self) {
        if let Some(leash) = &mut self.control_socket {
            // Nobody at the other end: it has ended.
            drop(leash.write_all(&[STOP_REQUEST]).await);
        }
    }

    /// Ends the command and everything it started. Returns at once; `wait` says when it is done.
    pub fn start_kill(&mut self) {
        self.control_socket = None;
    }

    /// Ends everything and waits for it.
    pub async fn kill(&mut self) -> Result<CommandExit, SandboxError> {
        self.start_kill();
        match tokio::time::timeout(END_TIMEOUT, self.wait()).await {
            Ok(ending) => ending,
            Err(_) => {
                // Its orphans are no worse off: the supervisor could not end them either.
                drop(self.process.start_kill());
                self.kill_orphans().await;
                Err(SandboxError::Lost)
            }
        }
    }

    /// Does what the supervisor can do no more, as far as it can be done from here.
    async fn kill_orphans(&self) {
        let session = self.process.id().and_then(|pid| pid.try_into().ok()).and_then(Pid::from_raw);
        let scratch = self.scratch.clone();
        let ending = tokio::task::spawn_blocking(move || {
            if let Some(session) = session {
                process_tree::kill_session(session);
            }
            drop(std::fs::remove_dir_all(scratch));
        });
        drop(ending.await);
    }
}

/// The supervisor's side of the conversation.
#[derive(Debug)]
pub(super) struct ReportReader {
    reader: BufReader<OwnedReadHalf>,
    /// Kept between calls, so that one that is dropped half-way loses nothing.
    line: Vec<u8>,
}

impl ReportReader {
    pub(super) fn new(socket: OwnedReadHalf) -> Self {
        Self { reader: BufReader::with_capacity(1024, socket), line: Vec::new() }
    }

    pub(super) async fn next(&mut self) -> Result<SupervisorReport, SandboxError> {
        let room = MAX_REPORT_BYTES.saturating_sub(self.line.len() as u64);
        (&mut self.reader).take(room).read_until(b'\n', &mut self.line).await.map_err(SandboxError::Protocol)?;
        let line = std::mem::take(&mut self.line);
        if !line.ends_with(b"\n") {
            return Err(SandboxError::Lost);
        }
        serde_json::from_slice(&line).map_err(|error| SandboxError::Protocol(error.into()))
    }
}
