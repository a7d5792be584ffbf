//! The queued notices of one app, and those it has just shown.

use std::time::Duration;

use crate::app::{NoticePriority, UserNotice};
use crate::hub::notice::rate_limit::{RateLimit, RateState};
use crate::hub::notice::text::{self, RepeatCount};

/// A notice with the same text within this time is counted and shown as one.
const REPEAT_WINDOW: Duration = Duration::from_secs(5);
/// How long notices of low priority are held back, to be shown together with others.
const LOW_PRIORITY_DELAY: Duration = Duration::from_secs(30);
/// Queued notices in one lane. Past it, notices are counted in the app's digest.
const MAX_LANE_NOTICES: usize = 50;
/// Urgent notices of one app per minute. Past it they are queued for a digest, or one app could hide all others.
const URGENT_PER_MINUTE: u32 = 30;

#[derive(Debug, Clone, Copy)]
pub(super) struct PriorityRates {
    ordinary: RateLimit,
    urgent: RateLimit,
}

impl PriorityRates {
    pub(super) fn new(per_minute: u32) -> Self {
        Self {
            ordinary: RateLimit::per_minute(per_minute),
            urgent: RateLimit::per_minute(per_minute.max(URGENT_PER_MINUTE)),
        }
    }
}

/// What the bounds of the whole queue leave to one notice.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueCapacity {
    pub(super) can_queue: bool,
    pub(super) can_show: bool,
    pub(super) is_quiet: bool,
}

#[derive(Debug, Default)]
pub(super) struct AppQueue {
    urgent: PriorityLane,
    ordinary: PriorityLane,
    /// Shown within the repeat window. Bounded by the rate limits.
    recently_shown: Vec<RecentNotice>,
}

#[derive(Debug, Default)]
struct PriorityLane {
    rate_state: RateState,
    queued: Vec<QueuedNotice>,
    overflow: Option<LaneOverflow>,
}

#[derive(Debug)]
struct QueuedNotice {
    notice: UserNotice,
    repeat_count: RepeatCount,
    due_at: Duration,
}

/// Notices that did not fit.
#[derive(Debug)]
struct LaneOverflow {
    count: u64,
    /// The latest of them, for the digest's metadata; its text is not used.
    latest: UserNotice,
    due_at: Duration,
}

#[derive(Debug)]
struct RecentNotice {
    notice: UserNotice,
    at: Duration,
    /// Repeats since it was shown.
    repeats: u32,
}

impl AppQueue {
    pub(super) fn post(
        &mut self,
        notice: UserNotice,
        now: Duration,
        rates: PriorityRates,
        capacity: QueueCapacity,
        ready: &mut Vec<UserNotice>,
    ) {
        self.requeue_repeats(now);
        let Some((notice, repeat_count)) = self.merge_repeat(notice, now) else { return };
        let (lane, rate, must_wait) = match notice.priority {
            NoticePriority::High => (&mut self.urgent, rates.urgent, !capacity.can_show),
            NoticePriority::Normal => (&mut self.ordinary, rates.ordinary, !capacity.can_show || capacity.is_quiet),
            NoticePriority::Low => (&mut self.ordinary, rates.ordinary, true),
        };
        let must_wait = must_wait || lane.is_overdue(now) || lane.rate_state.ready_at(rate) > now;
        if must_wait {
            let due_at = match notice.priority {
                NoticePriority::Low => now + LOW_PRIORITY_DELAY,
                NoticePriority::Normal | NoticePriority::High => now,
            };
            lane.add(QueuedNotice { notice, repeat_count, due_at }, capacity);
            return;
        }
        lane.rate_state.record_shown(now, rate);
        let is_ordinary = notice.priority != NoticePriority::High;
        self.show(notice, repeat_count, now, ready);
        // Queued notices of low priority go out together with an ordinary one.
        if is_ordinary && self.ordinary.is_nonempty() && self.ordinary.rate_state.ready_at(rates.ordinary) <= now {
            self.flush_ordinary(now, rates.ordinary, ready);
        }
    }

    pub(super) fn take(&mut self, now: Duration, rates: PriorityRates, is_quiet: bool, ready: &mut Vec<UserNotice>) {
        self.requeue_repeats(now);
        if self.urgent.is_overdue(now) && self.urgent.rate_state.ready_at(rates.urgent) <= now {
            self.urgent.rate_state.record_shown(now, rates.urgent);
            let summary = self.urgent.drain_summary();
            self.show_summary(summary, now, ready);
        }
        if !is_quiet && self.ordinary.is_overdue(now) && self.ordinary.rate_state.ready_at(rates.ordinary) <= now {
            self.flush_ordinary(now, rates.ordinary, ready);
        }
    }

    /// `pause`: ordinary notices are due no earlier than this.
    pub(super) fn next_due(&self, rates: PriorityRates, pause: Option<Duration>) -> Option<Duration> {
        let urgent = self.urgent.due_at().map(|at| at.max(self.urgent.rate_state.ready_at(rates.urgent)));
        let ordinary = self.ordinary.due_at().map(|at| {
            let at = at.max(self.ordinary.rate_state.ready_at(rates.ordinary));
            pause.map_or(at, |pause| at.max(pause))
        });
        let repeats =
            self.recently_shown.iter().filter(|shown| shown.repeats > 0).map(|shown| shown.at + REPEAT_WINDOW);
        urgent.into_iter().chain(ordinary).chain(repeats).min()
    }

    pub(super) fn close(&mut self, is_quiet: bool, ready: &mut Vec<UserNotice>) {
        self.requeue_repeats(Duration::MAX);
        ready.extend(self.urgent.drain_summary().map(LaneSummary::into_notice));
        if !is_quiet {
            ready.extend(self.ordinary.drain_summary().map(LaneSummary::into_notice));
        }
    }

    /// When the app may next show an ordinary notice.
    pub(super) fn ready_at(&self, rates: PriorityRates) -> Duration {
        self.ordinary.rate_state.ready_at(rates.ordinary)
    }

    pub(super) fn record_shown(&mut self, now: Duration, rates: PriorityRates) {
        self.ordinary.rate_state.record_shown(now, rates.ordinary);
    }

    pub(super) fn queued_count(&self) -> usize {
        self.urgent.queued.len() + self.ordinary.queued.len()
    }

    /// Notices that were not shown yet.
    pub(super) fn unshown_count(&self) -> u64 {
        self.urgent.unshown_count() + self.ordinary.unshown_count()
    }

    /// Whether dropping this queue loses nothing.
    pub(super) fn is_idle(&self, now: Duration) -> bool {
        let is_lane_idle = |lane: &PriorityLane| !lane.is_nonempty() && lane.rate_state.is_idle(now);
        is_lane_idle(&self.urgent)
            && is_lane_idle(&self.ordinary)
            && self.recently_shown.iter().all(|shown| shown.is_expired(now))
    }

    /// Merges a repeat into the queued or shown notice. Returns what the caller must still queue or show.
    fn merge_repeat(&mut self, notice: UserNotice, now: Duration) -> Option<(UserNotice, RepeatCount)> {
        if let Some(duplicate) = self.urgent.find_duplicate(&notice) {
            duplicate.count_repeat(notice);
            return None;
        }
        if let Some(position) = self.ordinary.queued.iter().position(|one| one.has_same_text(&notice)) {
            if notice.priority == NoticePriority::High {
                // The repeat is urgent: it moves to the urgent lane, or is shown at once.
                let duplicate = self.ordinary.queued.remove(position);
                return Some((notice, duplicate.repeat_count.plus(1)));
            }
            if let Some(duplicate) = self.ordinary.queued.get_mut(position) {
                if notice.priority == NoticePriority::Normal {
                    duplicate.due_at = duplicate.due_at.min(now);
                }
                duplicate.count_repeat(notice);
            }
            return None;
        }
        let shown = self.recently_shown.iter_mut().find(|shown| same_text(&shown.notice, &notice));
        match shown {
            Some(shown) if notice.priority <= shown.notice.priority => {
                shown.repeats = shown.repeats.saturating_add(1);
                (shown.notice.at, shown.notice.message) = (notice.at, notice.message);
                None
            }
            // More urgent than the shown one, so it is shown again, together with the repeats counted since.
            Some(shown) => {
                let repeat_count = match shown.repeats {
                    0 => RepeatCount::Total(1),
                    repeats => RepeatCount::Additional(repeats.saturating_add(1)),
                };
                shown.repeats = 0;
                Some((notice, repeat_count))
            }
            None => Some((notice, RepeatCount::Total(1))),
        }
    }

    /// Queues shown notices that were repeated, once their repeat window has passed.
    fn requeue_repeats(&mut self, now: Duration) {
        for shown in self.recently_shown.extract_if(.., |shown| shown.is_past_window(now)) {
            if shown.repeats > 0 {
                let lane = match shown.notice.priority {
                    NoticePriority::High => &mut self.urgent,
                    NoticePriority::Normal | NoticePriority::Low => &mut self.ordinary,
                };
                // Not subject to the capacity: repeats are not counted as queued before this point.
                lane.queued.push(QueuedNotice {
                    repeat_count: RepeatCount::Additional(shown.repeats),
                    due_at: shown.at.saturating_add(REPEAT_WINDOW),
                    notice: shown.notice,
                });
            }
        }
    }

    fn flush_ordinary(&mut self, now: Duration, rate: RateLimit, ready: &mut Vec<UserNotice>) {
        self.ordinary.rate_state.record_shown(now, rate);
        let summary = self.ordinary.drain_summary();
        self.show_summary(summary, now, ready);
    }

    fn show_summary(&mut self, summary: Option<LaneSummary>, now: Duration, ready: &mut Vec<UserNotice>) {
        match summary {
            Some(LaneSummary::Single(notice, repeat_count)) => self.show(notice, repeat_count, now, ready),
            Some(LaneSummary::Digest(notice)) => ready.push(notice),
            None => {}
        }
    }

    fn show(&mut self, notice: UserNotice, repeat_count: RepeatCount, now: Duration, ready: &mut Vec<UserNotice>) {
        ready.push(text::with_repeat_count(notice.clone(), repeat_count));
        self.recently_shown.retain(|shown| !same_text(&shown.notice, &notice));
        self.recently_shown.push(RecentNotice { notice, at: now, repeats: 0 });
    }
}

/// The content of a lane as it is shown.
enum LaneSummary {
    Single(UserNotice, RepeatCount),
    Digest(UserNotice),
}

impl LaneSummary {
    fn into_notice(self) -> UserNotice {
        match self {
            Self::Single(notice, repeat_count) => text::with_repeat_count(notice, repeat_count),
            Self::Digest(notice) => notice,
        }
    }
}

impl PriorityLane {
    fn add(&mut self, queued_notice: QueuedNotice, capacity: QueueCapacity) {
        if capacity.can_queue && self.queued.len() < MAX_LANE_NOTICES {
            self.queued.push(queued_notice);
            return;
        }
        let count = u64::from(queued_notice.repeat_count.count());
        match &mut self.overflow {
            Some(overflow) => {
                overflow.count += count;
                overflow.due_at = overflow.due_at.min(queued_notice.due_at);
                overflow.latest = queued_notice.notice;
            }
            none => *none = Some(LaneOverflow { count, latest: queued_notice.notice, due_at: queued_notice.due_at }),
        }
    }

    fn find_duplicate(&mut self, notice: &UserNotice) -> Option<&mut QueuedNotice> {
        self.queued.iter_mut().find(|queued| queued.has_same_text(notice))
    }

    /// Empties the lane.
    fn drain_summary(&mut self) -> Option<LaneSummary> {
        let mut queued: Vec<(UserNotice, RepeatCount)> =
            self.queued.drain(..).map(|one| (one.notice, one.repeat_count)).collect();
        let overflow = self.overflow.take();
        if overflow.is_none() && queued.len() == 1 {
            return queued.pop().map(|(notice, repeat_count)| LaneSummary::Single(notice, repeat_count));
        }
        let priority = queued.iter().map(|(notice, _)| notice.priority).max();
        let (count, latest) = match overflow {
            Some(overflow) => (overflow.count, overflow.latest),
            None => (0, queued.last()?.0.clone()),
        };
        let priority = priority.unwrap_or(latest.priority).max(latest.priority);
        Some(LaneSummary::Digest(UserNotice { priority, ..text::digest(&queued, count, latest) }))
    }

    fn unshown_count(&self) -> u64 {
        let queued = self.queued.iter().map(|queued| u64::from(queued.repeat_count.count())).sum::<u64>();
        queued + self.overflow.as_ref().map_or(0, |overflow| overflow.count)
    }

    fn is_nonempty(&self) -> bool {
        !self.queued.is_empty() || self.overflow.is_some()
    }

    /// The earliest due time in the lane, regardless of its rate.
    fn due_at(&self) -> Option<Duration> {
        let queued = self.queued.iter().map(|queued| queued.due_at);
        queued.chain(self.overflow.as_ref().map(|overflow| overflow.due_at)).min()
    }

    /// Whether a notice in the lane is due.
    fn is_overdue(&self, now: Duration) -> bool {
        self.due_at().is_some_and(|at| at <= now)
    }
}

impl QueuedNotice {
    fn has_same_text(&self, notice: &UserNotice) -> bool {
        same_text(&self.notice, notice)
    }

    fn count_repeat(&mut self, repeat: UserNotice) {
        self.repeat_count = self.repeat_count.plus(1);
        let priority = self.notice.priority.max(repeat.priority);
        self.notice = UserNotice { priority, ..repeat };
    }
}

impl RecentNotice {
    fn is_past_window(&self, now: Duration) -> bool {
        self.at.saturating_add(REPEAT_WINDOW) <= now
    }

    /// Whether the entry has no more effect.
    fn is_expired(&self, now: Duration) -> bool {
        self.repeats == 0 && self.is_past_window(now)
    }
}

fn same_text(one: &UserNotice, other: &UserNotice) -> bool {
    one.title == other.title && one.body == other.body
}
