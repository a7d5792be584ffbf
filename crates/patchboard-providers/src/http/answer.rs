//! The answer while it arrives, at the reader's pace.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt};
use patchboard_core::model::{ModelError, ModelEvent};
use reqwest::Response;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;

use crate::reader::{Parser, Progress, Reader};

/// How long figures are waited for when the answer itself is whole.
const AFTER_COMPLETE: Duration = Duration::from_secs(5);
/// How long, and how far, the end of a body is looked for to keep its connection.
const ENDING_PATIENCE: Duration = Duration::from_secs(1);
const ENDING_BYTES: usize = 64 * 1024;

type Body = Pin<Box<dyn Stream<Item = Result<Bytes, reqwest::Error>> + Send>>;

pub(super) struct Answer<P> {
    reader: Reader<P>,
    /// None when nothing more is wanted. Dropping it before its end closes the connection.
    body: Option<Body>,
    silence: Silence,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    endings: TaskTracker,
}

impl<P: Parser> Answer<P> {
    pub(super) fn new(
        response: Response,
        reader: Reader<P>,
        idle_timeout: Duration,
        stop: CancellationToken,
        endings: TaskTracker,
    ) -> Self {
        Self {
            reader,
            body: Some(Box::pin(response.bytes_stream())),
            silence: Silence::new(idle_timeout),
            stop: Box::pin(stop.cancelled_owned()),
            endings,
        }
    }

    /// Reads on. `Ready` when the reader has something new to look at.
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
                self.silence.broken();
                self.reader.push(&bytes);
                return Poll::Ready(());
            }
            Poll::Ready(Some(Err(_)) | None) => {
                self.reader.end();
                return Poll::Ready(());
            }
            Poll::Pending => {}
        }
        let complete = self.reader.progress() == Progress::Complete;
        let limit = if complete { AFTER_COMPLETE.min(self.silence.limit) } else { self.silence.limit };
        if self.silence.poll_longer_than(limit, cx).is_pending() {
            return Poll::Pending;
        }
        match complete {
            true => self.reader.end(),
            false => self.reader.fail(ModelError::Timeout(format!("provider stream idle timeout after {limit:?}"))),
        }
        Poll::Ready(())
    }

    /// A connection can serve again only when its body was read to the end. That is usually there already; where it
    /// is not, somebody else waits for it, so that the reader need not.
    fn leave_body(&mut self, cx: &mut Context<'_>, ended: Ended) {
        let Some(mut body) = self.body.take() else { return };
        if ended == Ended::Badly || matches!(body.poll_next_unpin(cx), Poll::Ready(None | Some(Err(_)))) {
            return;
        }
        self.endings.spawn(tokio::time::timeout(ENDING_PATIENCE, async move {
            let mut seen = 0;
            while let Some(Ok(bytes)) = body.next().await {
                seen += bytes.len();
                if seen > ENDING_BYTES {
                    break;
                }
            }
        }));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Well,
    Badly,
}

impl<P: Parser> Stream for Answer<P> {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let answer = &mut *self;
        loop {
            let next = answer.reader.next();
            if answer.reader.progress() == Progress::Done && answer.body.is_some() {
                let ended = if matches!(next, Some(Err(_))) { Ended::Badly } else { Ended::Well };
                answer.leave_body(cx, ended);
            }
            if next.is_some() || answer.reader.progress() == Progress::Done {
                return Poll::Ready(next);
            }
            if answer.poll_body(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<P> fmt::Debug for Answer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

/// Watches how long nothing has come. The timer is set again only when it goes off, not for every piece.
struct Silence {
    limit: Duration,
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Silence {
    fn new(limit: Duration) -> Self {
        Self { limit, since: Instant::now(), timer: Box::pin(tokio::time::sleep(limit)) }
    }

    fn broken(&mut self) {
        self.since = Instant::now();
    }

    fn poll_longer_than(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<()> {
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
