//! A running command, seen from the server.

use std::any::Any;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdout};

use super::order::{ASK_TO_END, Confinement, Ending, MAX_REPORT_BYTES, Report};
use super::{Error, kin};

/// A supervisor that was told to end everything and does not is stuck, or its command is in the hands of the kernel.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A command in its jail. Dropping this ends the command and everything it started.
#[derive(Debug)]
pub struct Jailed {
    /// As the jail's own processes see it.
    pub(super) pid_inside: i32,
    pub(super) confinement: Confinement,
    pub(super) scratch: PathBuf,
    pub(super) stdin: Option<pipe::Sender>,
    pub(super) stdout: Option<ChildStdout>,
    pub(super) stderr: Option<ChildStderr>,
    /// Its end tells the supervisor to end everything.
    pub(super) leash: Option<OwnedWriteHalf>,
    pub(super) reports: Reports,
    pub(super) process: Child,
    /// The thread that started the supervisor must outlive it.
    pub(super) _thread: Box<dyn Any + Send + Sync>,
}

impl Jailed {
    /// Of the command, which leads a process group of that number; `None` once it has ended.
    pub fn pid(&self) -> Option<u32> {
        let inside = self.pid_inside.try_into().ok()?;
        if !self.confinement.namespaces.processes {
            return Some(inside);
        }
        kin::known_inside_as(self.supervisor_pid()?, inside)
    }

    /// The supervisor, if the command's processes have other numbers inside than here.
    pub fn namespace_maker(&self) -> Option<u32> {
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
    pub async fn wait(&mut self) -> Result<Ending, Error> {
        match self.reports.next().await {
            Ok(Report::Ended(ending)) => Ok(ending),
            Ok(Report::Started { .. } | Report::Refused { .. }) | Err(Error::Talk(_)) | Err(Error::Lost) => {
                self.end_orphans().await;
                Err(Error::Lost)
            }
            Err(error) => Err(error),
        }
    }

    /// Asks the command to end, with SIGTERM to its process group. Whether it does is its own choice.
    pub async fn ask_to_end(&mut self) {
        if let Some(leash) = &mut self.leash {
            // Nobody at the other end: it has ended.
            drop(leash.write_all(&[ASK_TO_END]).await);
        }
    }

    /// Ends the command and everything it started. Returns at once; `wait` says when it is done.
    pub fn kill_group(&mut self) {
        self.leash = None;
    }

    /// Ends everything and waits for it.
    pub async fn kill(&mut self) -> Result<Ending, Error> {
        self.kill_group();
        match tokio::time::timeout(END_TIMEOUT, self.wait()).await {
            Ok(ending) => ending,
            Err(_) => {
                // Its orphans are no worse off: the supervisor could not end them either.
                drop(self.process.start_kill());
                self.end_orphans().await;
                Err(Error::Lost)
            }
        }
    }

    /// Does what the supervisor can do no more, as far as it can be done from here.
    async fn end_orphans(&self) {
        let session = self.process.id().and_then(|pid| pid.try_into().ok()).and_then(Pid::from_raw);
        let scratch = self.scratch.clone();
        let ending = tokio::task::spawn_blocking(move || {
            if let Some(session) = session {
                kin::end_session(session);
            }
            drop(std::fs::remove_dir_all(scratch));
        });
        drop(ending.await);
    }
}

/// The supervisor's side of the conversation.
#[derive(Debug)]
pub(super) struct Reports {
    reader: BufReader<OwnedReadHalf>,
    /// Kept between calls, so that one that is dropped half-way loses nothing.
    line: Vec<u8>,
}

impl Reports {
    pub(super) fn new(socket: OwnedReadHalf) -> Self {
        Self { reader: BufReader::with_capacity(1024, socket), line: Vec::new() }
    }

    pub(super) async fn next(&mut self) -> Result<Report, Error> {
        let room = MAX_REPORT_BYTES.saturating_sub(self.line.len() as u64);
        (&mut self.reader).take(room).read_until(b'\n', &mut self.line).await.map_err(Error::Talk)?;
        let line = std::mem::take(&mut self.line);
        if !line.ends_with(b"\n") {
            return Err(Error::Lost);
        }
        serde_json::from_slice(&line).map_err(|error| Error::Talk(error.into()))
    }
}
