//! The last part of a program's output, kept for error reports.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Older bytes are dropped, so memory stays bounded however long a program prints.
const KEPT_BYTES: usize = 8 * 1024;
const SHOWN_LINES: usize = 20;
/// Longer lines are cut; nothing readable on a terminal is lost.
const SHOWN_LINE_CHARS: usize = 400;

#[derive(Debug, Clone, Default)]
pub(super) struct OutputTail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
}

impl OutputTail {
    pub(super) fn push(&self, read: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend(read);
        let surplus = bytes.len().saturating_sub(KEPT_BYTES);
        bytes.drain(..surplus);
    }

    pub(super) fn text(&self) -> String {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        clean_lines(&String::from_utf8_lossy(bytes.make_contiguous()))
    }

    /// Reads to the end, so that the writer never blocks on a full pipe. A broken pipe counts as the end.
    pub(super) async fn drain(self, mut reader: impl AsyncRead + Unpin) {
        // On the heap, because futures that contain this one are moved.
        let mut buffer = vec![0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut buffer).await {
            self.push(buffer.get(..count).unwrap_or_default());
        }
    }
}

/// The last non-blank lines, without characters that could control a terminal.
pub(super) fn clean_lines(text: &str) -> String {
    let mut lines: Vec<String> = text
        .lines()
        .rev()
        .map(|line| line.chars().filter(|char| !char.is_control()).take(SHOWN_LINE_CHARS).collect::<String>())
        .filter(|line| !line.trim().is_empty())
        .take(SHOWN_LINES)
        .collect();
    lines.reverse();
    lines.join("\n")
}

pub(super) fn last_line(output: &str) -> &str {
    output.lines().next_back().unwrap_or("it printed nothing")
}
