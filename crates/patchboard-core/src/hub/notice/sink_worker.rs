//! The worker of one sink, with its own queue, so that sinks do not wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::text;
use crate::app::{NoticePriority, UserNotice};
use crate::port::{Clock, NoticeSink};

/// Queue of a slow sink. Notices past it are counted, and the count is shown when the sink works again.
pub(super) const MAX_QUEUED: usize = 256;

#[derive(Debug)]
pub(super) struct SinkWorker {
    sink: Arc<dyn NoticeSink>,
    queue: mpsc::Receiver<Arc<UserNotice>>,
    missed_count: Arc<AtomicU64>,
    clock: Arc<dyn Clock>,
    abort: CancellationToken,
}

/// The sending side of a sink worker. The worker ends when it is dropped and the queue is empty.
#[derive(Debug)]
pub(super) struct SinkSender {
    queue: mpsc::Sender<Arc<UserNotice>>,
    missed_count: Arc<AtomicU64>,
}

impl SinkSender {
    pub(super) fn try_send(&self, notice: Arc<UserNotice>) {
        if self.queue.try_send(notice).is_err() {
            self.missed_count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl SinkWorker {
    pub(super) fn new(
        sink: Arc<dyn NoticeSink>,
        clock: Arc<dyn Clock>,
        abort: CancellationToken,
    ) -> (Self, SinkSender) {
        let (sender, queue) = mpsc::channel(MAX_QUEUED);
        let missed_count = Arc::new(AtomicU64::new(0));
        let sink_sender = SinkSender { queue: sender, missed_count: missed_count.clone() };
        (Self { sink, queue, missed_count, clock, abort }, sink_sender)
    }

    pub(super) async fn run(mut self) {
        let mut health = SinkHealth::Healthy;
        while let Some(notice) = self.queue.recv().await {
            if self.abort.is_cancelled() {
                self.missed_count.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.show(notice, 1, &mut health).await;
            if self.queue.is_empty() && health == SinkHealth::Healthy {
                self.show_missed_count(&mut health).await;
            }
        }
        let missed_count = self.missed_count.load(Ordering::Relaxed);
        if missed_count > 0 {
            tracing::warn!(
                sink = self.sink.name(),
                notices = missed_count,
                "notices were not shown before the server stopped"
            );
        }
    }

    /// `notice_count` is added to the missed count if the notice cannot be shown.
    async fn show(&self, notice: Arc<UserNotice>, notice_count: u64, health: &mut SinkHealth) {
        match self.sink.show(notice, self.abort.clone()).await {
            Ok(()) => *health = SinkHealth::Healthy,
            Err(error) => {
                self.missed_count.fetch_add(notice_count, Ordering::Relaxed);
                // Warn once until the sink works again: a dead webhook must not fill the log.
                match std::mem::replace(health, SinkHealth::Failing) {
                    SinkHealth::Healthy => {
                        tracing::warn!(sink = self.sink.name(), error, "a notice could not be shown");
                    }
                    SinkHealth::Failing => {
                        tracing::debug!(sink = self.sink.name(), error, "a notice could not be shown");
                    }
                }
            }
        }
    }

    async fn show_missed_count(&self, health: &mut SinkHealth) {
        let missed_count = self.missed_count.swap(0, Ordering::Relaxed);
        if missed_count == 0 {
            return;
        }
        let (title, body) = text::missed_text(missed_count);
        let at = self.clock.now();
        let notice = UserNotice { app: None, title, body, priority: NoticePriority::Normal, message: None, at };
        self.show(Arc::new(notice), missed_count, health).await;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SinkHealth {
    Healthy,
    Failing,
}
