//! A streamed response, read at the consumer's pace.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt};
use patchboard_core::model::{ModelError, ModelEvent};
use patchboard_http::Response;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;

use crate::event_reader::{EventParser, ModelEventReader, ParseProgress};

/// How long to wait for the usage figures after the answer is complete.
const USAGE_WAIT: Duration = Duration::from_secs(5);
/// Limits on draining a body to reuse its connection.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_DRAIN_BYTES: usize = 64 * 1024;

type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, patchboard_http::Error>> + Send>>;

pub(super) struct ModelResponseStream<P> {
    reader: ModelEventReader<P>,
    /// `None` when no more is needed. Dropping it before its end closes the connection.
    body: Option<ByteStream>,
    idle: IdleTimer,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    drain_tasks: TaskTracker,
}

impl<P: EventParser> ModelResponseStream<P> {
    pub(super) fn new(
        response: Response,
        reader: ModelEventReader<P>,
        idle_timeout: Duration,
        stop: CancellationToken,
        endings: TaskTracker,
    ) -> Self {
        Self {
            reader,
            body: Some(Box::pin(response.bytes_stream())),
            idle: IdleTimer::new(idle_timeout),
            stop: Box::pin(stop.cancelled_owned()),
            drain_tasks: endings,
        }
    }

    /// Reads more of the body. `Ready` when the reader has new input.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.stop.poll_unpin(cx).is_ready() {
            self.reader.fail(ModelError::Cancelled);
            return Poll::Ready(());
        }
        let Some(body) = &mut self.body else {
            self.reader.end();
            return Poll::Ready(());
        };
        match body.poll_next_unpin(cx) {
            Poll::Ready(Some(Ok(bytes))) => {
                self.idle.reset();
                self.reader.push(&bytes);
                return Poll::Ready(());
            }
            Poll::Ready(Some(Err(_)) | None) => {
                self.reader.end();
                return Poll::Ready(());
            }
            Poll::Pending => {}
        }
        let complete = self.reader.progress() == ParseProgress::Complete;
        let limit = if complete { USAGE_WAIT.min(self.idle.limit) } else { self.idle.limit };
        if self.idle.poll_idle(limit, cx).is_pending() {
            return Poll::Pending;
        }
        match complete {
            true => self.reader.end(),
            false => self.reader.fail(ModelError::Timeout(format!("provider stream idle timeout after {limit:?}"))),
        }
        Poll::Ready(())
    }

    /// A connection can be reused only after its body was read to the end. The end has usually arrived; otherwise a task
    /// reads it, so that the consumer need not wait.
    fn drain_body(&mut self, cx: &mut Context<'_>, ended: StreamOutcome) {
        let Some(mut body) = self.body.take() else { return };
        if ended == StreamOutcome::Failed || matches!(body.poll_next_unpin(cx), Poll::Ready(None | Some(Err(_)))) {
            return;
        }
        self.drain_tasks.spawn(tokio::time::timeout(DRAIN_TIMEOUT, async move {
            let mut seen = 0;
            while let Some(Ok(bytes)) = body.next().await {
                seen += bytes.len();
                if seen > MAX_DRAIN_BYTES {
                    break;
                }
            }
        }));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamOutcome {
    Completed,
    Failed,
}

impl<P: EventParser> Stream for ModelResponseStream<P> {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let answer = &mut *self;
        loop {
            let next = answer.reader.next();
            if answer.reader.progress() == ParseProgress::Done && answer.body.is_some() {
                let ended = if matches!(next, Some(Err(_))) { StreamOutcome::Failed } else { StreamOutcome::Completed };
                answer.drain_body(cx, ended);
            }
            if next.is_some() || answer.reader.progress() == ParseProgress::Done {
                return Poll::Ready(next);
            }
            if answer.poll_body(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<P> fmt::Debug for ModelResponseStream<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelResponseStream").finish_non_exhaustive()
    }
}

/// Detects silence. The timer is reset only when it fires, not for every chunk.
struct IdleTimer {
    limit: Duration,
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl IdleTimer {
    fn new(limit: Duration) -> Self {
        Self { limit, since: Instant::now(), timer: Box::pin(tokio::time::sleep(limit)) }
    }

    fn reset(&mut self) {
        self.since = Instant::now();
    }

    fn poll_idle(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.since + limit;
        if self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
        loop {
            if self.timer.poll_unpin(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(due);
        }
    }
}
