//! Bytes that have been read and not yet understood.

use anyhow::{Context, ensure};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Small, because there may be ten thousand; it doubles whenever a read fills it.
const FIRST: usize = 4 * 1024;
/// Nothing in a measurement is larger; a peer that sends more is broken.
const LARGEST: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        Inbox { bytes: vec![0; FIRST], start: 0, end: 0 }
    }

    pub(super) fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// The next `count` bytes, or as many as there are; they count as read.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let from = self.start;
        self.start = (from + count).min(self.end);
        self.bytes.get(from..self.start).unwrap_or_default()
    }

    /// Waits for more bytes.
    pub(super) async fn fill(&mut self, stream: &mut TcpStream) -> anyhow::Result<()> {
        let room = self.room()?;
        let read = stream.read(room).await.context("cannot read from a connection")?;
        ensure!(read > 0, "the other side closed the connection");
        self.end += read;
        Ok(())
    }

    /// Space behind what is unread; never empty.
    fn room(&mut self) -> anyhow::Result<&mut [u8]> {
        if self.start == self.end {
            self.start = 0;
            if self.end == self.bytes.len() {
                self.grow()?;
            }
            self.end = 0;
        } else if self.end == self.bytes.len() {
            if self.start == 0 {
                self.grow()?;
            } else {
                self.bytes.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
        }
        Ok(self.bytes.get_mut(self.end..).unwrap_or_default())
    }

    fn grow(&mut self) -> anyhow::Result<()> {
        ensure!(self.bytes.len() < LARGEST, "the other side sent more than {LARGEST} bytes in one piece");
        self.bytes.resize(self.bytes.len() * 2, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
