//! A server that runs as a local program: started with a clean environment, standard error captured, and ended with its
//! children.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

#[cfg(target_os = "linux")]
mod jailed;
mod plain;
mod stderr;

pub(super) use stderr::ExitReport;

use crate::launch::LaunchMode;
use plain::PlainServer;
use stderr::StderrTail;

/// After its standard input is closed, a server may take this long to exit by itself.
const EXIT_GRACE: Duration = Duration::from_millis(700);
const STDERR_WAIT: Duration = Duration::from_millis(200);

/// A running server. Dropping it kills its process tree.
#[derive(Debug)]
pub(super) struct ServerProcess {
    running: RunningServer,
    stderr_tail: StderrTail,
    stderr_task: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum RunningServer {
    Plain(PlainServer),
    #[cfg(target_os = "linux")]
    Jailed(Box<jailed::JailedServer>),
}

/// The streams of a server that was just started.
struct ServerStreams {
    input: pipe::Sender,
    output: ChildStdout,
    errors: Option<ChildStderr>,
}

/// What to start.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerCommand<'a> {
    pub(super) program: &'a str,
    pub(super) arguments: &'a [String],
    pub(super) env: &'a BTreeMap<String, SecretString>,
    pub(super) working_folder: Option<&'a Path>,
    pub(super) private: Option<&'a Path>,
}

/// Starts the program. The error is a message for the log.
pub(super) async fn spawn(
    server: &Arc<str>,
    command: ServerCommand<'_>,
    launch: &LaunchMode,
    tasks: &TaskTracker,
) -> Result<(ServerProcess, pipe::Sender, ChildStdout), String> {
    let (running, streams) = match launch {
        LaunchMode::Plain => plain::start(command).map(|(plain, streams)| (RunningServer::Plain(plain), streams))?,
        #[cfg(target_os = "linux")]
        LaunchMode::Jailed(jail_config) => {
            let (jailed, streams) = jailed::start(server, command, jail_config).await?;
            (RunningServer::Jailed(Box::new(jailed)), streams)
        }
    };
    let stderr_tail = StderrTail::default();
    let drain = |errors| tasks.spawn(stderr_tail.clone().drain(server.clone(), errors));
    let stderr_task = streams.errors.map(drain);
    Ok((ServerProcess { running, stderr_tail, stderr_task }, streams.input, streams.output))
}

impl ServerProcess {
    /// Returns when the program has exited by itself; its remaining children are ended too. Cancel-safe: may be dropped
    /// and called again.
    pub(super) async fn exited(&mut self) -> String {
        match &mut self.running {
            RunningServer::Plain(plain) => plain.exited().await,
            #[cfg(target_os = "linux")]
            RunningServer::Jailed(jailed) => jailed.exited().await,
        }
    }

    /// Waits for the program to exit, then kills it. Its standard input must be closed before. Returns the exit status,
    /// if it exited by itself, and the end of its standard error.
    pub(super) async fn end(mut self) -> ExitReport {
        let status = tokio::time::timeout(EXIT_GRACE, self.exited()).await.ok();
        if status.is_none() {
            match &mut self.running {
                RunningServer::Plain(plain) => plain.kill().await,
                #[cfg(target_os = "linux")]
                RunningServer::Jailed(jailed) => jailed.kill().await,
            }
        }
        // Its last output may still be in the pipe.
        if let Some(stderr_task) = self.stderr_task.take()
            && tokio::time::timeout(STDERR_WAIT, stderr_task).await.is_err()
        {
            tracing::debug!("the standard error of an MCP server does not end");
        }
        ExitReport { status, stderr: self.stderr_tail.summary() }
    }
}

#[cfg(test)]
mod tests;
