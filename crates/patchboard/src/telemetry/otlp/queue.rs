//! Spans that wait to be sent: as many as there are places for, so that a collector that is gone costs no memory.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{FinishedSpan, IdSource};
use crate::telemetry::metric;

/// Spans that wait at most; a further one is dropped and counted. They take some two megabytes.
pub(super) const QUEUE_CAPACITY: usize = 2048;

/// Cheap to clone. Never waits: whoever ends a span has other things to do.
#[derive(Debug, Clone)]
pub(crate) struct SpanQueue {
    sender: mpsc::Sender<FinishedSpan>,
    ids: Arc<IdSource>,
}

impl SpanQueue {
    pub(crate) fn new(ids: IdSource) -> (Self, mpsc::Receiver<FinishedSpan>) {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        (Self { sender, ids: Arc::new(ids) }, receiver)
    }

    pub(crate) fn push(&self, span: FinishedSpan) {
        if self.sender.try_send(span).is_err() {
            metric::spans_dropped("full", 1);
        }
    }

    pub(crate) fn ids(&self) -> &IdSource {
        &self.ids
    }
}
