//! Captures the output of a command.

use std::time::Duration;

use patchboard_core::port::ProgressSink;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::Instant;

use super::live_output::LiveOutput;
use crate::sandbox::JailedCommand;

/// This many bytes of the beginning and of the end of each stream are kept; the rest is only counted.
pub(super) const KEPT_BYTES: usize = 32 * 1024;
const READ_BYTES: usize = 8 * 1024;
/// Small pieces are combined and sent at most this much later.
const FLUSH_DELAY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Transcript {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    pub(super) from_stdout: StreamExcerpt,
    pub(super) from_stderr: StreamExcerpt,
    live: LiveOutput,
}

/// The beginning and the end of a stream.
#[derive(Debug, Default)]
pub(super) struct StreamExcerpt {
    head: Vec<u8>,
    tail: Vec<u8>,
    total: u64,
}

impl Transcript {
    pub(super) fn of(jailed: &mut JailedCommand) -> Self {
        Self {
            stdout: jailed.take_stdout(),
            stderr: jailed.take_stderr(),
            from_stdout: StreamExcerpt::default(),
            from_stderr: StreamExcerpt::default(),
            live: LiveOutput::default(),
        }
    }

    /// Reads both streams to their end and forwards them to `voice`. A slow receiver slows the command down. Cancelling
    /// loses at most the piece that is being sent.
    pub(super) async fn read(&mut self, voice: &ProgressSink) {
        let mut tell_at = None;
        let (mut out, mut err) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
        while self.stdout.is_some() || self.stderr.is_some() {
            tokio::select! {
                count = read_some(&mut self.stdout, &mut out), if self.stdout.is_some() => {
                    let read = out.get(..count).unwrap_or_default();
                    self.from_stdout.push(read);
                    self.live.push_stdout(read);
                }
                count = read_some(&mut self.stderr, &mut err), if self.stderr.is_some() => {
                    let read = err.get(..count).unwrap_or_default();
                    self.from_stderr.push(read);
                    self.live.push_stderr(read);
                }
                () = sleep_until(tell_at), if tell_at.is_some() => {}
            }
            let is_time = tell_at.is_some_and(|at| at <= Instant::now());
            if self.live.is_full() || is_time {
                tell_at = None;
                self.flush(voice).await;
            } else if tell_at.is_none() && self.live.has_pending() {
                tell_at = Some(Instant::now() + FLUSH_DELAY);
            }
        }
        self.live.end();
        self.flush(voice).await;
    }

    /// Reads the rest without sending progress.
    pub(super) async fn drain(&mut self) {
        self.read(&ProgressSink::default()).await;
    }

    async fn flush(&mut self, voice: &ProgressSink) {
        if let Some(piece) = self.live.take() {
            voice.send_text(piece).await;
        }
    }
}

impl StreamExcerpt {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (to_head, to_tail) = bytes.split_at(bytes.len().min(KEPT_BYTES - self.head.len()));
        self.head.extend_from_slice(to_head);
        self.tail.extend_from_slice(to_tail);
        // The buffer grows to twice the size before it is trimmed, so that not every push moves its bytes.
        if self.tail.len() > 2 * KEPT_BYTES {
            self.tail.drain(..self.tail.len() - KEPT_BYTES);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The text, or its two ends with a mark between them, in about `limit` bytes at most.
    pub(super) fn text(&self, limit: usize) -> String {
        let half = limit / 2;
        match self.complete_text() {
            Some(text) if text.len() <= limit => text,
            Some(text) => {
                let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
                joined(&text, head, &text, tail, (tail - head) as u64)
            }
            None => {
                let (start, end) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&self.tail));
                let (head, tail) =
                    (start.floor_char_boundary(half), end.ceil_char_boundary(end.len().saturating_sub(half)));
                let shown = (head + end.len() - tail) as u64;
                joined(&start, head, &end, tail, self.total.saturating_sub(shown))
            }
        }
    }

    /// Length of the text; `usize::MAX` if its middle was dropped.
    pub(super) fn size(&self) -> usize {
        self.complete_text().map_or(usize::MAX, |text| text.len())
    }

    fn complete_text(&self) -> Option<String> {
        let is_whole = self.total == (self.head.len() + self.tail.len()) as u64;
        is_whole.then(|| String::from_utf8_lossy(&[self.head.as_slice(), &self.tail].concat()).into_owned())
    }
}

fn joined(start: &str, head: usize, end: &str, tail: usize, left_out: u64) -> String {
    let (head, tail) = (start.get(..head).unwrap_or_default(), end.get(tail..).unwrap_or_default());
    format!("{head}\n[… {left_out} bytes left out …]\n{tail}")
}

/// Returns the number of bytes read. At the end of the stream returns 0 and clears `stream`.
async fn read_some<R: AsyncRead + Unpin>(stream: &mut Option<R>, buffer: &mut [u8]) -> usize {
    let Some(reader) = stream else { return 0 };
    match reader.read(buffer).await {
        Ok(0) | Err(_) => {
            *stream = None;
            0
        }
        Ok(count) => count,
    }
}

async fn sleep_until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests;
