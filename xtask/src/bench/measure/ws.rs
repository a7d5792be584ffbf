//! A WebSocket client that costs as little as possible: what is measured is the server.
//!
//! It masks with zeros, which leaves frames as they are and lets them be made once; the protocol allows any key.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::inbox::Inbox;

/// Where the gateway answers, and the bare echo like it.
pub(super) const GATEWAY: &str = "/ws";
/// Where runs are asked for.
pub(super) const RUNS: &str = "/";
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
/// An empty, masked pong.
const PONG_FRAME: &[u8] = &[0x8a, 0x80, 0, 0, 0, 0];

#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    inbox: Inbox,
}

/// The first bytes of a frame from a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    opcode: u8,
    size: usize,
    payload: usize,
}

impl Socket {
    pub(super) async fn connect(address: SocketAddr, path: &str) -> anyhow::Result<Socket> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
        let mut socket = Socket { stream, inbox: Inbox::new() };
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        socket.send(head.as_bytes()).await?;
        let length = loop {
            if let Some(length) = head_length(socket.inbox.unread()) {
                break length;
            }
            socket.fill().await?;
        };
        let answer = socket.inbox.take(length);
        ensure!(answer.starts_with(b"HTTP/1.1 101 "), "no WebSocket: {}", String::from_utf8_lossy(answer));
        Ok(socket)
    }

    /// Writes bytes that are frames already.
    pub(super) async fn send(&mut self, frames: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(frames).await.context("cannot write to a connection")
    }

    /// Waits for more bytes.
    pub(super) async fn fill(&mut self) -> anyhow::Result<()> {
        self.inbox.fill(&mut self.stream).await
    }

    /// The next text; pings on the way are answered.
    pub(super) async fn next(&mut self) -> anyhow::Result<&[u8]> {
        let header = loop {
            match whole_frame(self.inbox.unread()) {
                Some(Header { opcode: TEXT, size, payload }) => break (size, payload),
                Some(Header { opcode: PING, size, payload }) => {
                    self.inbox.take(size + payload);
                    self.send(PONG_FRAME).await?;
                }
                Some(Header { opcode: CLOSE, size, payload }) => {
                    let reason = self.inbox.take(size + payload).get(size + 2..).unwrap_or_default();
                    bail!("the server closed the connection: {}", String::from_utf8_lossy(reason));
                }
                Some(Header { opcode, .. }) => bail!("unexpected frame with opcode {opcode}"),
                None => self.fill().await?,
            }
        };
        let (size, payload) = header;
        self.inbox.take(size);
        Ok(self.inbox.take(payload))
    }

    /// Counts and takes the whole frames at hand, all of which must be exactly these bytes.
    pub(super) fn take_equal(&mut self, frame: &[u8]) -> anyhow::Result<usize> {
        let count = self.inbox.unread().len() / frame.len();
        let taken = self.inbox.take(count * frame.len());
        if let Some(other) = taken.chunks_exact(frame.len()).find(|bytes| *bytes != frame) {
            bail!("unexpected frame: {}", String::from_utf8_lossy(other));
        }
        Ok(count)
    }
}

/// A text frame as a client sends it.
pub(super) fn client_frame(text: &str) -> Vec<u8> {
    frame(text, Masked::WithZeros)
}

/// A text frame as a server sends it.
pub(super) fn server_frame(text: &str) -> Vec<u8> {
    frame(text, Masked::No)
}

#[derive(Clone, Copy)]
enum Masked {
    No,
    WithZeros,
}

fn frame(text: &str, masked: Masked) -> Vec<u8> {
    let (mask_bit, mask): (u8, &[u8]) = match masked {
        Masked::No => (0, &[]),
        Masked::WithZeros => (0x80, &[0; 4]),
    };
    let mut bytes = vec![0x80 | TEXT];
    match (u8::try_from(text.len()), u16::try_from(text.len())) {
        (Ok(short @ ..=125), _) => bytes.push(mask_bit | short),
        (_, Ok(medium)) => {
            bytes.push(mask_bit | 126);
            bytes.extend(medium.to_be_bytes());
        }
        (_, Err(_)) => {
            bytes.push(mask_bit | 127);
            bytes.extend((text.len() as u64).to_be_bytes());
        }
    }
    bytes.extend(mask);
    bytes.extend(text.as_bytes());
    bytes
}

/// The header of the first frame, once all of the frame is there.
fn whole_frame(bytes: &[u8]) -> Option<Header> {
    let (&[first, second], rest) = bytes.split_first_chunk()?;
    let (size, payload) = match second & 0x7f {
        126 => (4, usize::from(u16::from_be_bytes(*rest.first_chunk()?))),
        127 => (10, usize::try_from(u64::from_be_bytes(*rest.first_chunk()?)).unwrap_or(usize::MAX)),
        short => (2, usize::from(short)),
    };
    let header = Header { opcode: first & 0x0f, size, payload };
    (bytes.len() - size >= payload).then_some(header)
}

/// The length of a response head, its empty line included.
fn head_length(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

#[cfg(test)]
mod tests;
