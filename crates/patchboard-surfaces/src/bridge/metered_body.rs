//! Accounts for the memory of requests and responses in flight: one client may send or receive a large message, but
//! many clients cannot exhaust the memory with messages that never end or are never read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;
use tonic::Status;

/// Limit for all requests together; past it, large ones are refused.
const MAX_BYTES_IN_FLIGHT: u64 = 512 * 1024 * 1024;
/// Requests up to this size are small: they are refused only past twice the limit.
const SMALL_MESSAGE_BYTES: u64 = 64 * 1024;
/// Responses are sent in chunks of this size, so that unread parts stay accounted for.
const CHUNK_BYTES: usize = 256 * 1024;
/// Longest pause within a message; then the request fails.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct MessageMemory {
    charged_bytes: AtomicU64,
    limit: u64,
}

impl MessageMemory {
    /// The limit is at least twice the largest message.
    pub(super) fn new(largest_message: usize) -> Self {
        let limit = MAX_BYTES_IN_FLIGHT.max(2 * u64::try_from(largest_message).unwrap_or(u64::MAX / 4));
        Self { charged_bytes: AtomicU64::new(0), limit }
    }
}

/// The memory of one request, released when its last owner drops it.
#[derive(Debug)]
pub(super) struct MemoryCharge {
    memory: Arc<MessageMemory>,
    charged_bytes: AtomicU64,
}

impl MemoryCharge {
    pub(super) fn new(uploads: Arc<MessageMemory>) -> Self {
        Self { memory: uploads, charged_bytes: AtomicU64::new(0) }
    }

    /// Replaces the request's charge by that of the response.
    pub(super) fn replace_with(&self, answer: usize) -> Result<(), Status> {
        let before = self.charged_bytes.swap(0, Ordering::Relaxed);
        self.memory.charged_bytes.fetch_sub(before, Ordering::Relaxed);
        self.add(answer as u64)
    }

    /// Whether the response must stay accounted for until it is sent.
    pub(super) fn is_large(&self) -> bool {
        self.charged_bytes.load(Ordering::Relaxed) > SMALL_MESSAGE_BYTES
    }

    fn add(&self, bytes: u64) -> Result<(), Status> {
        let own_total = self.charged_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let total = self.memory.charged_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let limit = self.memory.limit;
        if total <= limit || (own_total <= SMALL_MESSAGE_BYTES && total <= limit.saturating_mul(2)) {
            return Ok(());
        }
        Err(Status::resource_exhausted("too much is on its way through this server; try again in a few seconds"))
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        let charged_bytes = *self.charged_bytes.get_mut();
        if charged_bytes > 0 {
            self.memory.charged_bytes.fetch_sub(charged_bytes, Ordering::Relaxed);
        }
    }
}

/// A request body that charges its bytes.
pub(super) struct UploadBody {
    body: Incoming,
    /// `None` for streams, whose messages are small and processed one at a time.
    charge: Option<Arc<MemoryCharge>>,
    /// Runs while no data arrives.
    timeout: Option<Pin<Box<Sleep>>>,
}

impl UploadBody {
    pub(super) fn unary(body: Incoming, charge: Arc<MemoryCharge>) -> Self {
        Self { body, charge: Some(charge), timeout: None }
    }

    pub(super) fn stream(body: Incoming) -> Self {
        Self { body, charge: None, timeout: None }
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.body).poll_frame(context);
        let Some(charge) = &this.charge else {
            return polled.map_err(|error| Status::from_error(Box::new(error)));
        };
        match polled {
            Poll::Pending => {
                // Started only while the body is idle and cleared by the next frame.
                let waiting = this.timeout.get_or_insert_with(|| Box::pin(tokio::time::sleep(IDLE_TIMEOUT)));
                match waiting.as_mut().poll(context) {
                    Poll::Ready(()) => {
                        let late = Status::deadline_exceeded("the message did not arrive in time");
                        Poll::Ready(Some(Err(late)))
                    }
                    Poll::Pending => Poll::Pending,
                }
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(Status::from_error(Box::new(error))))),
            Poll::Ready(Some(Ok(frame))) => {
                this.timeout = None;
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                Poll::Ready(Some(charge.add(bytes).map(|()| frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A large response body, charged until its client has read it.
pub(super) struct DownloadBody {
    body: tonic::body::Body,
    /// The unsent rest of the current frame.
    rest: Bytes,
    _charge: Arc<MemoryCharge>,
}

impl DownloadBody {
    pub(super) fn new(body: tonic::body::Body, charge: Arc<MemoryCharge>) -> Self {
        Self { body, rest: Bytes::new(), _charge: charge }
    }
}

impl Body for DownloadBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other @ (Poll::Pending | Poll::Ready(None | Some(Err(_)))) => return other,
            }
        }
        let size = CHUNK_BYTES.min(self.rest.len());
        let piece = self.rest.split_to(size);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests;
