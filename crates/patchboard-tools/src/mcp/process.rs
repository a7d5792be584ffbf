//! A server that is a program of this machine: started with a clean environment in a group of its own, heard on
//! standard error, and gone with all its children in the end.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// After its input is closed a server may take this long to end by itself.
const FAREWELL: Duration = Duration::from_millis(700);
const LAST_BREATH: Duration = Duration::from_millis(200);
const MAX_LINE: usize = 500;
const MAX_LINES: usize = 20;

/// A running server. Dropped, it is killed with everything it started and did not send away from its group.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
    /// Until it was killed: its number may belong to somebody else later.
    group: Option<Pid>,
    words: Words,
    listening: Option<JoinHandle<()>>,
}

/// Starts the program: the one place to change when servers run jailed.
pub(super) fn spawn(
    program: &str,
    arguments: &[String],
    env: &BTreeMap<String, SecretString>,
) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(inherited())
        .envs(env.iter().map(|(name, value)| (name, value.expose_secret())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(input), Some(output)) => Ok((child, input, output)),
        _ => Err(io::Error::other("its standard input and output cannot be had")),
    }
}

/// Where programs are, where the user is at home, and which language to speak; nothing else of the server's.
fn inherited() -> Vec<(OsString, OsString)> {
    #[expect(clippy::disallowed_methods, reason = "passes a named few variables on and means nothing by them")]
    let variables = std::env::vars_os();
    let is_seen = |name: &OsString| {
        name.to_str()
            .is_some_and(|name| matches!(name, "PATH" | "HOME" | "LANG" | "LANGUAGE") || name.starts_with("LC_"))
    };
    variables.filter(|(name, _)| is_seen(name)).collect()
}

impl ServerProcess {
    pub(super) fn new(server: Arc<str>, mut child: Child, tasks: &TaskTracker) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let words = Words::default();
        let listening = child.stderr.take().map(|stderr| tasks.spawn(words.clone().drain(server, stderr)));
        Self { child, group, words, listening }
    }

    /// Returns when it has ended by itself; what it leaves behind goes with it. May be dropped and called again.
    pub(super) async fn exited(&mut self) -> String {
        let status = self.child.wait().await;
        self.kill_group();
        match status {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Gives it a moment to end by itself, then kills it. Its input has to be closed before. Answers how it ended, if by
    /// itself, and with which last words.
    pub(super) async fn end(mut self) -> LastWords {
        let status = tokio::time::timeout(FAREWELL, self.exited()).await.ok();
        if status.is_none() {
            self.kill_group();
            self.exited().await;
        }
        // What it said last may still be in the pipe.
        if let Some(listening) = self.listening.take()
            && tokio::time::timeout(LAST_BREATH, listening).await.is_err()
        {
            tracing::debug!("the standard error of an MCP server does not end");
        }
        LastWords { status, stderr: self.words.text() }
    }

    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            // Nobody left to kill is what is wanted.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// How a server went.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    /// `None` when it did not end by itself.
    pub(super) status: Option<String>,
    pub(super) stderr: String,
}

impl LastWords {
    /// What to add to a report; starts with `: ` unless there is nothing to add.
    pub(super) fn report(&self) -> String {
        let mut report = String::new();
        if let Some(status) = &self.status {
            report.push_str(": it ended with ");
            report.push_str(status);
        }
        if !self.stderr.is_empty() {
            report.push_str(": ");
            report.push_str(&self.stderr);
        }
        report
    }
}

/// The last lines of what a server wrote on standard error.
#[derive(Debug, Clone, Default)]
struct Words(Arc<Mutex<VecDeque<String>>>);

impl Words {
    async fn drain(self, server: Arc<str>, stderr: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(stderr);
        let mut line: Vec<u8> = Vec::new();
        loop {
            let available = match reader.fill_buf().await {
                Ok(available) if !available.is_empty() => available,
                Ok(_) | Err(_) => break,
            };
            let end = available.iter().position(|&byte| byte == b'\n');
            let piece = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            let room = MAX_LINE.saturating_sub(line.len());
            line.extend(piece.iter().take(room));
            let used = piece.len() + usize::from(end.is_some());
            reader.consume(used);
            if end.is_some() {
                self.note(&server, &line);
                line.clear();
            }
        }
        if !line.is_empty() {
            self.note(&server, &line);
        }
    }

    fn note(&self, server: &str, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text: String = text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if text.is_empty() {
            return;
        }
        tracing::debug!(mcp.server = server, "stderr: {text}");
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(text);
    }

    /// The last lines on one, for a report.
    fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = lines.len().saturating_sub(3);
        lines.iter().skip(shown).map(String::as_str).collect::<Vec<_>>().join(" | ")
    }
}

#[cfg(test)]
mod tests;
