//! A server's standard error, and the report of its exit.

use patchboard_core::text::controls_as_spaces;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

const MAX_LINE: usize = 500;
const MAX_LINES: usize = 20;

/// How a server ended.
#[derive(Debug, Default)]
pub(in crate::mcp) struct ExitReport {
    /// `None` if it had to be killed.
    pub(in crate::mcp) status: Option<String>,
    pub(in crate::mcp) stderr: String,
}

impl ExitReport {
    /// Suffix for an error message; starts with `: ` unless it is empty.
    pub(in crate::mcp) fn message_suffix(&self) -> String {
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

/// The last lines of a server's standard error.
#[derive(Debug, Clone, Default)]
pub(super) struct StderrTail(Arc<Mutex<VecDeque<String>>>);

impl StderrTail {
    pub(super) async fn drain(self, server: Arc<str>, stderr: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(stderr);
        let mut line: Vec<u8> = Vec::new();
        loop {
            let available = match reader.fill_buf().await {
                Ok(available) if !available.is_empty() => available,
                Ok(_) | Err(_) => break,
            };
            let end = available.iter().position(|&byte| byte == b'\n');
            let chunk = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            let limit = MAX_LINE.saturating_sub(line.len());
            line.extend(chunk.iter().take(limit));
            let consumed = chunk.len() + usize::from(end.is_some());
            reader.consume(consumed);
            if end.is_some() {
                self.push_line(&server, &line);
                line.clear();
            }
        }
        if !line.is_empty() {
            self.push_line(&server, &line);
        }
    }

    fn push_line(&self, server: &str, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = controls_as_spaces(text.trim_end());
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

    /// The last lines joined into one, for an error message.
    pub(super) fn summary(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let skipped = lines.len().saturating_sub(3);
        lines.iter().skip(skipped).map(String::as_str).collect::<Vec<_>>().join(" | ")
    }
}
