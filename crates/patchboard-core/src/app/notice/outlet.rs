//! One sink and what it has yet to show. Sinks do not wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::words;
use crate::app::{Notice, Priority};
use crate::port::{Clock, NoticeSink};

/// Notices that may wait for a slow sink. More are counted, and the count is shown when the sink is back.
pub(super) const MAX_QUEUED: usize = 256;

#[derive(Debug)]
pub(super) struct Outlet {
    sink: Arc<dyn NoticeSink>,
    queue: mpsc::Receiver<Arc<Notice>>,
    missed: Arc<AtomicU64>,
    clock: Arc<dyn Clock>,
    cut: CancellationToken,
}

/// Where an outlet gets its notices from. It ends when this is dropped and everything is shown.
#[derive(Debug)]
pub(super) struct Feed {
    queue: mpsc::Sender<Arc<Notice>>,
    missed: Arc<AtomicU64>,
}

impl Feed {
    pub(super) fn offer(&self, notice: Arc<Notice>) {
        if self.queue.try_send(notice).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Outlet {
    pub(super) fn new(sink: Arc<dyn NoticeSink>, clock: Arc<dyn Clock>, cut: CancellationToken) -> (Self, Feed) {
        let (sender, queue) = mpsc::channel(MAX_QUEUED);
        let missed = Arc::new(AtomicU64::new(0));
        let feed = Feed { queue: sender, missed: missed.clone() };
        (Self { sink, queue, missed, clock, cut }, feed)
    }

    /// Shows one after the other.
    pub(super) async fn run(mut self) {
        let mut health = Health::Fine;
        while let Some(notice) = self.queue.recv().await {
            if self.cut.is_cancelled() {
                self.missed.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.show(notice, 1, &mut health).await;
            if self.queue.is_empty() && health == Health::Fine {
                self.tell_missed(&mut health).await;
            }
        }
        let missed = self.missed.load(Ordering::Relaxed);
        if missed > 0 {
            tracing::warn!(
                sink = self.sink.name(),
                notices = missed,
                "notices were not shown before the server stopped"
            );
        }
    }

    /// `stands_for` so many notices, if it cannot be shown.
    async fn show(&self, notice: Arc<Notice>, stands_for: u64, health: &mut Health) {
        match self.sink.show(notice, self.cut.clone()).await {
            Ok(()) => *health = Health::Fine,
            Err(error) => {
                self.missed.fetch_add(stands_for, Ordering::Relaxed);
                // Once is enough until it works again: a dead webhook must not fill the log.
                match std::mem::replace(health, Health::Failing) {
                    Health::Fine => tracing::warn!(sink = self.sink.name(), error, "a notice could not be shown"),
                    Health::Failing => tracing::debug!(sink = self.sink.name(), error, "a notice could not be shown"),
                }
            }
        }
    }

    async fn tell_missed(&self, health: &mut Health) {
        let missed = self.missed.swap(0, Ordering::Relaxed);
        if missed == 0 {
            return;
        }
        let (title, body) = words::missed(missed);
        let at = self.clock.now();
        let notice = Notice { app: None, title, body, priority: Priority::Normal, message: None, at };
        self.show(Arc::new(notice), missed, health).await;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Fine,
    Failing,
}
