//! Notices of apps and of the hub, brought to every sink at a limited rate and never dropped silently.
//!
//! `queue` decides what is shown when and knows nothing of sinks or clocks; `sink_worker` feeds one sink. A posted
//! notice is shown, merged visibly with its repeats, listed in a digest, or counted in one.

mod queue;
mod quiet_hours;
mod rate_limit;
mod sink_worker;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::tz::TimeZone;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::app::UserNotice;
use crate::port::{Clock, NoticeSink};
use queue::{ClockReading, NoticeQueue};
use sink_worker::SinkWorker;

pub use quiet_hours::QuietHours;

/// How long sinks have to show the remaining notices at shutdown; then they are cancelled.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Options set by the operator.
#[derive(Debug, Clone)]
pub struct NoticeOptions {
    /// Notices per minute of one app, or of the hub; also the largest burst. At least 1.
    pub per_minute: u32,
    /// Hours in which only notices of high priority are shown.
    pub quiet: Option<QuietHours>,
    /// The time zone of the quiet hours.
    pub zone: TimeZone,
}

impl Default for NoticeOptions {
    fn default() -> Self {
        Self { per_minute: 10, quiet: None, zone: TimeZone::UTC }
    }
}

/// Accepts notices and distributes them to the sinks.
#[derive(Debug)]
pub struct Notifier {
    queue: Mutex<NoticeQueue>,
    posted: Notify,
    sinks: Vec<Arc<dyn NoticeSink>>,
    clock: Arc<dyn Clock>,
    opened: Instant,
}

impl Notifier {
    pub fn new(options: NoticeOptions, sinks: Vec<Arc<dyn NoticeSink>>, clock: Arc<dyn Clock>) -> Self {
        let queue = Mutex::new(NoticeQueue::new(options));
        Self { queue, posted: Notify::new(), sinks, clock, opened: Instant::now() }
    }

    /// Never blocks, whatever the sinks do. Notices posted before [`run`](Self::run) are queued, within the bounds.
    pub fn post(&self, notice: UserNotice) {
        let now = self.now();
        self.lock_queue().post(notice, now);
        self.posted.notify_one();
    }

    /// Shows notices until `stop`; then the queued rest, for as long as the shutdown timeout. Must run only once.
    pub async fn run(&self, stop: CancellationToken) {
        // Sinks keep running for the shutdown timeout after `stop`.
        let abort = CancellationToken::new();
        let (workers, senders): (Vec<SinkWorker>, Vec<_>) =
            self.sinks.iter().map(|sink| SinkWorker::new(sink.clone(), self.clock.clone(), abort.clone())).unzip();
        let showing = join_all(workers.into_iter().map(SinkWorker::run));
        let distributing = async {
            loop {
                let (ready, next) = {
                    let mut queue = self.lock_queue();
                    let now = self.now();
                    (queue.take(now), queue.next_due(now))
                };
                for notice in ready.into_iter().map(Arc::new) {
                    senders.iter().for_each(|sender| sender.try_send(notice.clone()));
                }
                tokio::select! {
                    () = self.posted.notified() => {}
                    () = sleep_until(next.map(|due| self.opened + due)) => {}
                    () = stop.cancelled() => break,
                }
            }
            let now = self.now();
            let rest = self.lock_queue().close(now);
            for notice in rest.into_iter().map(Arc::new) {
                senders.iter().for_each(|sender| sender.try_send(notice.clone()));
            }
            // Workers end when their senders are dropped and their queues are empty.
            drop(senders);
            tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
            abort.cancel();
            // `run` ends with `showing`, once all workers have stopped.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = showing => {}
            () = distributing => {}
        }
    }

    fn now(&self) -> ClockReading {
        ClockReading { uptime: self.opened.elapsed(), wall: self.clock.now() }
    }

    fn lock_queue(&self) -> MutexGuard<'_, NoticeQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
