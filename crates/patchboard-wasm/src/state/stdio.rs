//! What a guest prints: the end of it is kept, for the log and to explain a panic.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Kept of one stream; what came before is forgotten.
const KEPT: usize = 8 * 1024;
/// Taken at a time.
const PERMIT: usize = 16 * 1024;

/// The end of an output stream, shared by all handles the guest has of it. Takes no memory until it is written to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Tail {
    fn push(&self, more: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let more = &more[more.len().saturating_sub(KEPT)..];
        bytes.extend_from_slice(more);
        // Twice the size before anything moves: a guest that prints byte by byte costs no more than its bytes.
        if bytes.len() > 2 * KEPT {
            let surplus = bytes.len() - KEPT;
            bytes.drain(..surplus);
        }
    }

    /// What is there, as text.
    pub(crate) fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(KEPT)..]).into_owned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl IsTerminal for Tail {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Tail {
    /// Never used by components of this generation of WASI; what is written there is lost.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Tail {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.push(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

impl Pollable for Tail {
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
