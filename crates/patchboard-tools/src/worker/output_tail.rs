//! The tail of a worker's standard output and standard error, for error messages.

use patchboard_core::extensions::WorkerLine;
use patchboard_core::text::controls_as_spaces;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::mpsc;

/// Of both streams together; older output is dropped.
const TAIL_BYTES: usize = 4096;
/// Numbered lines that are kept to be read, and their bytes; older ones are dropped.
const MAX_LINES: usize = 500;
const MAX_LINES_BYTES: usize = 64 * 1024;
/// Longer lines are split.
const MAX_LINE: usize = 1024;
/// Length of the summary for error messages: the last lines, which in most languages name the error.
const SUMMARY_BYTES: usize = 600;
const SUMMARY_LINES: usize = 4;
/// Lines a listener may lag behind; further lines are not delivered to it.
const LISTENER_BACKLOG: usize = 1024;

/// Clones share the buffer.
#[derive(Debug, Clone, Default)]
pub(super) struct StdioTail(Arc<Mutex<StdioBuffer>>);

#[derive(Debug, Default)]
struct StdioBuffer {
    bytes: VecDeque<u8>,
    lines: VecDeque<String>,
    /// Of `lines`, in bytes.
    line_bytes: usize,
    /// The number of the newest line.
    line_count: u64,
    listener: Option<mpsc::Sender<String>>,
}

impl StdioTail {
    /// Reads until the end of the stream, so that the program never blocks on a full pipe.
    pub(super) async fn drain(self, program: Arc<str>, stream: impl AsyncRead + Unpin) {
        let mut reader = BufReader::new(stream);
        let mut line: Vec<u8> = Vec::new();
        loop {
            let available = match reader.fill_buf().await {
                Ok(available) if !available.is_empty() => available,
                Ok(_) | Err(_) => break,
            };
            let limit = MAX_LINE.saturating_sub(line.len()).min(available.len());
            let chunk = available.get(..limit).unwrap_or_default();
            let end = chunk.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
            let consumed = end.unwrap_or(limit);
            line.extend(chunk.iter().take(consumed));
            reader.consume(consumed);
            if end.is_some() || line.len() >= MAX_LINE {
                self.push_line(&program, &line);
                line.clear();
            }
        }
        if !line.is_empty() {
            self.push_line(&program, &line);
        }
    }

    /// Returns the lines written from now on. There is only one listener; a second call replaces it.
    pub(super) fn subscribe(&self) -> mpsc::Receiver<String> {
        let (listener, lines) = mpsc::channel(LISTENER_BACKLOG);
        self.buffer().listener = Some(listener);
        lines
    }

    /// The whole buffer.
    pub(super) fn text(&self) -> String {
        let mut buffer = self.buffer();
        String::from_utf8_lossy(buffer.bytes.make_contiguous()).into_owned()
    }

    /// The kept lines after the one with that number.
    pub(super) fn lines_after(&self, number: u64) -> Vec<WorkerLine> {
        let buffer = self.buffer();
        let first = buffer.line_count - buffer.lines.len() as u64 + 1;
        let lines = (first..).zip(&buffer.lines).filter(|(line, _)| *line > number);
        lines.map(|(number, text)| WorkerLine { number, text: text.clone() }).collect()
    }

    /// The last lines joined into one, for an error message; empty if there was no output.
    pub(super) fn summary(&self) -> String {
        let text = self.text();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let last: Vec<&str> = lines.rev().take(SUMMARY_LINES).collect();
        let joined = last.into_iter().rev().collect::<Vec<_>>().join(" | ");
        let start = joined.ceil_char_boundary(joined.len().saturating_sub(SUMMARY_BYTES));
        let excerpt = joined.get(start..).unwrap_or_default();
        controls_as_spaces(excerpt)
    }

    fn push_line(&self, program: &str, line: &[u8]) {
        let mut buffer = self.buffer();
        let excess = (buffer.bytes.len() + line.len()).saturating_sub(TAIL_BYTES).min(buffer.bytes.len());
        buffer.bytes.drain(..excess);
        buffer.bytes.extend(line);
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        buffer.keep_line(text);
        if let Some(listener) = &buffer.listener {
            // The listener is gone, or its channel is full: see `LISTENER_BACKLOG`.
            drop(listener.try_send(text.to_owned()));
        }
        drop(buffer);
        tracing::debug!(program, "output: {}", text.escape_debug());
    }

    fn buffer(&self) -> MutexGuard<'_, StdioBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StdioBuffer {
    fn keep_line(&mut self, text: &str) {
        self.line_count += 1;
        self.line_bytes += text.len();
        self.lines.push_back(text.to_owned());
        while self.lines.len() > MAX_LINES || self.line_bytes > MAX_LINES_BYTES {
            let Some(oldest) = self.lines.pop_front() else { return };
            self.line_bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests;
