//! One run of the server process: launch, handshake, output capture, shutdown.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::command::{ProgramPurpose, clean_command};
use super::tail::OutputTail;
use super::{Error, PreparedServer};

/// Cache of prompts of idle conversations; the oldest are evicted first.
const PROMPT_CACHE_MIB: u32 = 256;
/// An announcement is one short line.
const MAX_ANNOUNCEMENT_BYTES: u64 = 4096;
/// A process that closed its output without an announcement normally exits at once.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// Input of the launcher; the key is passed on stdin because arguments and environment variables are easier to read for
/// others.
#[derive(Serialize)]
struct LauncherSettings<'a> {
    weights: &'a str,
    model_name: &'a str,
    api_key: &'a str,
    context_tokens: u32,
    parallel: u8,
    threads: Option<u16>,
    prompt_cache_mib: u32,
}

/// The launcher's announcement that the server is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct LauncherReady {
    port: u16,
    pub(super) context_tokens: u32,
    pub(super) tools: bool,
}

impl LauncherReady {
    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

#[derive(Debug)]
pub(super) struct ServerProcess {
    process: Child,
    /// Held open for the lifetime of this process: the launcher exits when it closes, even after SIGKILL.
    input: ChildStdin,
    stderr: StderrCapture,
    pub(super) announcement: LauncherReady,
}

impl ServerProcess {
    /// Returns when the server is ready; on any failure the process has ended.
    pub(super) async fn launch(
        prepared: &PreparedServer,
        api_key: &SecretString,
        stop: &CancellationToken,
        tracker: &TaskTracker,
    ) -> Result<Self, Error> {
        let mut command = clean_command(&prepared.python, ProgramPurpose::Serve);
        command.arg("-I").arg(&prepared.launcher).current_dir(&prepared.directory).stdin(Stdio::piped());
        let mut process = command.spawn().map_err(|source| Error::Spawn {
            step: "the model server",
            program: prepared.python.clone(),
            source,
        })?;
        let mut words = StderrCapture::start(process.stderr.take(), tracker);
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::Announcement { output: String::new() });
        };
        let opening = handshake(&mut process, input, output, prepared, api_key);
        let opened = tokio::select! {
            opened = tokio::time::timeout(prepared.startup_timeout, opening) => opened,
            () = stop.cancelled() => {
                kill(&mut process).await;
                return Err(Error::Stopped);
            }
        };
        match opened {
            Ok(Ok((input, output, announcement))) => {
                tracker.spawn(words.tail.clone().drain(output));
                Ok(Self { process, input, stderr: words, announcement })
            }
            Ok(Err(LaunchError::Ended(status))) => {
                Err(Error::Startup { status: status.to_string(), output: words.finish().await })
            }
            Ok(Err(LaunchError::Announcement)) => {
                kill(&mut process).await;
                Err(Error::Announcement { output: words.finish().await })
            }
            Err(_elapsed) => {
                kill(&mut process).await;
                Err(Error::StartupTimeout { limit: prepared.startup_timeout, output: words.finish().await })
            }
        }
    }

    /// Resolves when the process has exited by itself, with its status and last output.
    pub(super) async fn wait_for_exit(&mut self) -> (String, String) {
        let status = match self.process.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        (status, self.stderr.finish().await)
    }

    /// Closes the input to request the exit, then kills after `farewell`.
    pub(super) async fn shut_down(self, farewell: Duration) {
        let Self { mut process, input, .. } = self;
        drop(input);
        if tokio::time::timeout(farewell, process.wait()).await.is_err() {
            kill(&mut process).await;
        }
    }
}

/// Captured stderr, complete once the process has exited.
#[derive(Debug)]
struct StderrCapture {
    tail: OutputTail,
    drain_task: Option<JoinHandle<()>>,
}

impl StderrCapture {
    fn start(stderr: Option<ChildStderr>, tracker: &TaskTracker) -> Self {
        let tail = OutputTail::default();
        let listening = stderr.map(|stderr| tracker.spawn(tail.clone().drain(stderr)));
        Self { tail, drain_task: listening }
    }

    /// Waits for the rest of the pipe's content; bounded, because a stray process may hold the pipe open.
    async fn finish(&mut self) -> String {
        if let Some(listening) = self.drain_task.take()
            && tokio::time::timeout(EXIT_GRACE, listening).await.is_err()
        {
            tracing::debug!("the output of the model server does not end");
        }
        self.tail.text()
    }
}

enum LaunchError {
    Ended(ExitStatus),
    Announcement,
}

/// Sends the settings and waits for the announcement.
async fn handshake(
    process: &mut Child,
    mut input: ChildStdin,
    output: ChildStdout,
    prepared: &PreparedServer,
    api_key: &SecretString,
) -> Result<(ChildStdin, BufReader<ChildStdout>, LauncherReady), LaunchError> {
    let mut output = BufReader::new(output);
    let announced = async {
        let settings = LauncherSettings {
            weights: prepared.weights.to_str()?,
            model_name: &prepared.model_name,
            api_key: api_key.expose_secret(),
            context_tokens: prepared.context_tokens.get(),
            parallel: prepared.parallel.get(),
            threads: prepared.threads.map(Into::into),
            prompt_cache_mib: PROMPT_CACHE_MIB,
        };
        let mut line = serde_json::to_vec(&settings).ok()?;
        line.push(b'\n');
        input.write_all(&line).await.ok()?;
        let mut answer = Vec::new();
        (&mut output).take(MAX_ANNOUNCEMENT_BYTES).read_until(b'\n', &mut answer).await.ok()?;
        serde_json::from_slice(&answer).ok()
    }
    .await;
    match announced {
        Some(announcement) => Ok((input, output, announcement)),
        None => {
            // Usually the process is exiting by itself, and its status says more than the missing line. Its input stays
            // open meanwhile, because closing it would be another reason to exit.
            let _open = input;
            match tokio::time::timeout(EXIT_GRACE, process.wait()).await {
                Ok(Ok(status)) => Err(LaunchError::Ended(status)),
                Ok(Err(_)) | Err(_) => Err(LaunchError::Announcement),
            }
        }
    }
}

async fn kill(process: &mut Child) {
    if let Err(error) = process.kill().await {
        tracing::debug!(%error, "the model server could not be killed");
    }
}
