//! Keeps the end of a guest's output, for the log and to explain a panic.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Bytes kept per stream; earlier output is dropped.
const TAIL_BYTES: usize = 8 * 1024;
/// Bytes accepted per write.
const WRITE_PERMIT_BYTES: usize = 16 * 1024;

/// The end of an output stream, shared by all of the guest's handles to it. Allocates on the first write.
#[derive(Debug, Clone, Default)]
pub(crate) struct GuestOutputTail {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl GuestOutputTail {
    fn push(&self, more: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let more = &more[more.len().saturating_sub(TAIL_BYTES)..];
        bytes.extend_from_slice(more);
        // Trims only at twice the size, so that a guest that prints byte by byte costs amortised constant time per
        // byte.
        if bytes.len() > 2 * TAIL_BYTES {
            let surplus = bytes.len() - TAIL_BYTES;
            bytes.drain(..surplus);
        }
    }

    /// The kept output as text.
    pub(crate) fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]).into_owned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl IsTerminal for GuestOutputTail {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestOutputTail {
    /// WASI 0.2 components do not use it; writes are discarded.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for GuestOutputTail {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.push(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_PERMIT_BYTES)
    }
}

impl Pollable for GuestOutputTail {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests;
