//! What clients send and are sent, counted while it is in hand: a client may send a large message or get one, but many
//! clients cannot fill the memory with large messages, whether these ever end or are ever taken.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;
use tonic::Status;

/// What all requests together may hold; past this, large ones are refused.
const LIMIT: u64 = 512 * 1024 * 1024;
/// A request up to this size is small: it is refused only when small ones alone hold as much again.
const SMALL: u64 = 64 * 1024;
/// Answers leave in pieces of this size, so that what is not taken yet is still in hand.
const PIECE: usize = 256 * 1024;
/// A message that does not go on for this long is given up.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Uploads {
    held: AtomicU64,
    limit: u64,
}

impl Uploads {
    /// Two of the largest messages always fit.
    pub(super) fn new(largest_message: usize) -> Self {
        let limit = LIMIT.max(2 * u64::try_from(largest_message).unwrap_or(u64::MAX / 4));
        Self { held: AtomicU64::new(0), limit }
    }
}

/// What one request holds, until everything that has it is gone.
#[derive(Debug)]
pub(super) struct Charge {
    uploads: Arc<Uploads>,
    held: AtomicU64,
}

impl Charge {
    pub(super) fn new(uploads: Arc<Uploads>) -> Self {
        Self { uploads, held: AtomicU64::new(0) }
    }

    /// What was sent has been used; now this much of an answer is held instead.
    pub(super) fn turn_into(&self, answer: usize) -> Result<(), Status> {
        let before = self.held.swap(0, Ordering::Relaxed);
        self.uploads.held.fetch_sub(before, Ordering::Relaxed);
        self.add(answer as u64)
    }

    /// Is there enough of it to be kept until it has gone out?
    pub(super) fn is_large(&self) -> bool {
        self.held.load(Ordering::Relaxed) > SMALL
    }

    fn add(&self, bytes: u64) -> Result<(), Status> {
        let mine = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let all = self.uploads.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let limit = self.uploads.limit;
        if all <= limit || (mine <= SMALL && all <= limit.saturating_mul(2)) {
            return Ok(());
        }
        Err(Status::resource_exhausted("too much is on its way through this server; try again in a few seconds"))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        if held > 0 {
            self.uploads.held.fetch_sub(held, Ordering::Relaxed);
        }
    }
}

/// The body of a request, counted.
pub(super) struct Upload {
    body: Incoming,
    /// Left out for streams, whose messages are small and come one after the other.
    charge: Option<Arc<Charge>>,
    /// Runs while nothing comes.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Upload {
    pub(super) fn whole(body: Incoming, charge: Arc<Charge>) -> Self {
        Self { body, charge: Some(charge), waiting: None }
    }

    pub(super) fn stream(body: Incoming) -> Self {
        Self { body, charge: None, waiting: None }
    }
}

impl Body for Upload {
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
                let waiting = this.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE)));
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
                this.waiting = None;
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

/// A large answer, counted until its client has taken it.
pub(super) struct Download {
    body: tonic::body::Body,
    /// Of the last piece.
    rest: Bytes,
    _charge: Arc<Charge>,
}

impl Download {
    pub(super) fn new(body: tonic::body::Body, charge: Arc<Charge>) -> Self {
        Self { body, rest: Bytes::new(), _charge: charge }
    }
}

impl Body for Download {
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
        let size = PIECE.min(self.rest.len());
        let piece = self.rest.split_to(size);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests;
