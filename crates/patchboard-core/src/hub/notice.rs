//! What apps and the hub have to say to the user, brought to every sink in bearable amounts and never swallowed.
//!
//! [`tray`] decides what is shown when and knows nothing of sinks or clocks; [`outlet`] feeds one sink. What is posted
//! is shown, merged visibly with its like, summed up in a digest, or counted in one: nothing disappears.

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

/// How long sinks have for what is left when the desk closes. After it they are stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// What the operator decides.
#[derive(Debug, Clone)]
pub struct NoticeOptions {
    /// Notices of one app, or of the hub, in a minute; so many may also come at once. At least 1.
    pub per_minute: u32,
    /// When only notices of high priority are shown.
    pub quiet: Option<QuietHours>,
    /// Where the user's clock stands.
    pub zone: TimeZone,
}

impl Default for NoticeOptions {
    fn default() -> Self {
        Self { per_minute: 10, quiet: None, zone: TimeZone::UTC }
    }
}

/// Takes notices from everybody and hands them to the sinks.
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
        let tray = Mutex::new(NoticeQueue::new(options));
        Self { queue: tray, posted: Notify::new(), sinks, clock, opened: Instant::now() }
    }

    /// Never waits, whatever the sinks do. What is posted before [`run`](Self::run) is kept for it, within the bounds.
    pub fn post(&self, notice: UserNotice) {
        let now = self.now();
        self.lock_queue().post(notice, now);
        self.posted.notify_one();
    }

    /// Shows what is posted until `stop`; then what still waits, as far as sinks are quick about it. Run it once.
    pub async fn run(&self, stop: CancellationToken) {
        // Sinks outlive `stop` by the farewell.
        let cut = CancellationToken::new();
        let (outlets, feeds): (Vec<SinkWorker>, Vec<_>) =
            self.sinks.iter().map(|sink| SinkWorker::new(sink.clone(), self.clock.clone(), cut.clone())).unzip();
        let showing = join_all(outlets.into_iter().map(SinkWorker::run));
        let handing_out = async {
            loop {
                let (ready, next) = {
                    let mut tray = self.lock_queue();
                    let now = self.now();
                    (tray.take(now), tray.next_due(now))
                };
                for notice in ready.into_iter().map(Arc::new) {
                    feeds.iter().for_each(|feed| feed.try_send(notice.clone()));
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
                feeds.iter().for_each(|feed| feed.try_send(notice.clone()));
            }
            // Without feeds the outlets end when they have shown what they have.
            drop(feeds);
            tokio::time::sleep(SHUTDOWN_TIMEOUT).await;
            cut.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = showing => {}
            () = handing_out => {}
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
