//! The queue of finished spans. Bounded, so that an unreachable collector costs no memory.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{FinishedSpan, IdSource};
use crate::telemetry::metric;

/// Capacity; past it a span is dropped and counted. A full queue takes about two megabytes.
pub(super) const QUEUE_CAPACITY: usize = 2048;

/// Cheap to clone. `push` never waits, as it runs where a span ends.
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
