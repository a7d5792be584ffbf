//! Decides which notices are shown when. Pure: the caller passes the time.
//!
//! Every app has two lanes, urgent and ordinary, each with its own rate limit. A notice is shown at once if its lane is
//! empty and within its rate; else it is queued. When the lane may be shown, it is drained as a whole: a single notice
//! as it is, several as one digest.

mod app_queue;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{NoticeOptions, text};
use crate::app::{NoticePriority, UserNotice};
use app_queue::{AppQueue, PriorityRates, QueueCapacity};

/// Apps with a queue of their own. If this many were active within the last minute, notices of further apps are only
/// counted, and the hub posts the count.
const MAX_APP_QUEUES: usize = 256;
/// Queued notices of all apps together. Past it, they are counted in the digest of their app.
const MAX_WAITING: usize = 500;
/// Notices ready for the sinks but not taken yet. Past it, notices are queued.
const MAX_READY: usize = 256;

/// Time since the start, for rates, and wall-clock time, for quiet hours.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockReading {
    pub(super) uptime: Duration,
    pub(super) wall: Timestamp,
}

#[derive(Debug)]
pub(super) struct NoticeQueue {
    options: NoticeOptions,
    rates: PriorityRates,
    /// The hub's own queue is under `None`.
    app_queues: BTreeMap<Option<Arc<str>>, AppQueue>,
    ready: Vec<UserNotice>,
    /// Notices of apps for which there was no queue.
    overflow_count: u64,
}

impl NoticeQueue {
    pub(super) fn new(options: NoticeOptions) -> Self {
        let rates = PriorityRates::new(options.per_minute);
        Self { options, rates, app_queues: BTreeMap::new(), ready: Vec::new(), overflow_count: 0 }
    }

    pub(super) fn post(&mut self, notice: UserNotice, now: ClockReading) {
        let notice = text::sanitize(notice);
        let capacity = QueueCapacity {
            can_queue: self.queued_count() < MAX_WAITING,
            can_show: self.ready.len() < MAX_READY,
            is_quiet: self.is_quiet(now),
        };
        if !self.app_queues.contains_key(&notice.app) && notice.app.is_some() && self.app_queues.len() >= MAX_APP_QUEUES
        {
            self.app_queues.retain(|_, app_queue| !app_queue.is_idle(now.uptime));
            if self.app_queues.len() >= MAX_APP_QUEUES {
                self.overflow_count += 1;
                return;
            }
        }
        let app_queue = self.app_queues.entry(notice.app.clone()).or_default();
        app_queue.post(notice, now.uptime, self.rates, capacity, &mut self.ready);
    }

    /// Takes the notices to be shown now, in order.
    pub(super) fn take(&mut self, now: ClockReading) -> Vec<UserNotice> {
        let is_quiet = self.is_quiet(now);
        for app_queue in self.app_queues.values_mut() {
            app_queue.take(now.uptime, self.rates, is_quiet, &mut self.ready);
        }
        self.post_overflow(now);
        self.app_queues.retain(|_, app_queue| !app_queue.is_idle(now.uptime));
        std::mem::take(&mut self.ready)
    }

    /// When to call `take` next; never in the past right after a `take`. `None`: not before the next post.
    pub(super) fn next_due(&self, now: ClockReading) -> Option<Duration> {
        let pause = match (&self.options.quiet, self.is_quiet(now)) {
            (Some(quiet), true) => Some(now.uptime + quiet.wait(now.wall, &self.options.zone)),
            (Some(_) | None, _) => None,
        };
        let lane_due_times = self.app_queues.values().filter_map(|app_queue| app_queue.next_due(self.rates, pause));
        let overflow_due = (self.overflow_count > 0).then(|| {
            let hub = self.app_queues.get(&None).map_or(Duration::ZERO, |hub| hub.ready_at(self.rates));
            pause.unwrap_or_default().max(hub)
        });
        let ready_due = (!self.ready.is_empty()).then_some(now.uptime);
        lane_due_times.chain(overflow_due).chain(ready_due).min()
    }

    /// Drains all queued notices regardless of rates, for shutdown. In quiet hours only the urgent ones.
    pub(super) fn close(&mut self, now: ClockReading) -> Vec<UserNotice> {
        let is_quiet = self.is_quiet(now);
        for app_queue in self.app_queues.values_mut() {
            app_queue.close(is_quiet, &mut self.ready);
        }
        if self.overflow_count > 0 && !is_quiet {
            let notice = self.overflow_notice(now);
            self.ready.push(notice);
        }
        let unshown = self.overflow_count + self.app_queues.values().map(AppQueue::unshown_count).sum::<u64>();
        if unshown > 0 {
            tracing::info!(notices = unshown, "notices of quiet hours are not shown; see `patchboard hub messages`");
        }
        std::mem::take(&mut self.ready)
    }

    fn post_overflow(&mut self, now: ClockReading) {
        if self.overflow_count == 0 || self.is_quiet(now) {
            return;
        }
        let hub = self.app_queues.entry(None).or_default();
        if hub.ready_at(self.rates) > now.uptime {
            return;
        }
        hub.record_shown(now.uptime, self.rates);
        let notice = self.overflow_notice(now);
        self.ready.push(notice);
    }

    fn overflow_notice(&mut self, now: ClockReading) -> UserNotice {
        let (title, body) = text::overflow_text(std::mem::take(&mut self.overflow_count));
        UserNotice { app: None, title, body, priority: NoticePriority::Normal, message: None, at: now.wall }
    }

    fn is_quiet(&self, now: ClockReading) -> bool {
        self.options.quiet.is_some_and(|quiet| quiet.contain(now.wall, &self.options.zone))
    }

    fn queued_count(&self) -> usize {
        self.app_queues.values().map(AppQueue::queued_count).sum()
    }
}

#[cfg(test)]
mod tests;
