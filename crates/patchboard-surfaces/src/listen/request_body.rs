//! A request body that records whether it was read to its end: only then can its connection carry another request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

#[derive(Debug)]
pub(super) struct RequestBody {
    incoming: Incoming,
    progress: BodyProgress,
}

/// The state of one body; the connection reads it once the response is ready.
#[derive(Debug, Clone)]
pub(super) struct BodyProgress(Arc<AtomicBool>);

impl RequestBody {
    pub(super) fn new(incoming: Incoming) -> Self {
        let progress = BodyProgress(Arc::new(AtomicBool::new(incoming.is_end_stream())));
        Self { incoming, progress }
    }

    pub(super) fn progress(&self) -> BodyProgress {
        self.progress.clone()
    }
}

impl BodyProgress {
    pub(super) fn is_complete(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.incoming.is_end_stream() {
            self.progress.0.store(true, Ordering::Release);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
