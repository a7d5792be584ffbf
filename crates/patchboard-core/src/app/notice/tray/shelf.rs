//! What one app has waiting, and what it has just said.

use std::time::Duration;

use crate::app::notice::rate::{Pace, Rate};
use crate::app::notice::words::{self, Times};
use crate::app::{Notice, Priority};

/// The same words again within this time are counted and shown as one.
const SAME_AGAIN: Duration = Duration::from_secs(5);
/// How long notices of low priority wait for company.
const BATCH: Duration = Duration::from_secs(30);
/// Notices of one app that wait in one pile. More are counted in its digest.
const MAX_PILE: usize = 50;
/// Urgent notices of one app in a minute. More wait for a digest, or one app could bury all others.
const URGENT_PER_MINUTE: u32 = 30;

#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    ordinary: Rate,
    urgent: Rate,
}

impl Rates {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { ordinary: Rate::per_minute(per_minute), urgent: Rate::per_minute(per_minute.max(URGENT_PER_MINUTE)) }
    }
}

/// What the whole tray leaves to one notice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) to_wait: bool,
    pub(super) to_show: bool,
    pub(super) is_quiet: bool,
}

#[derive(Debug, Default)]
pub(super) struct Shelf {
    urgent: Pile,
    ordinary: Pile,
    /// Shown within the last moments. The paces bound it.
    shown: Vec<Shown>,
}

#[derive(Debug, Default)]
struct Pile {
    pace: Pace,
    waiting: Vec<Waiting>,
    left_out: Option<LeftOut>,
}

#[derive(Debug)]
struct Waiting {
    notice: Notice,
    times: Times,
    wanted_at: Duration,
}

/// Notices there was no room for.
#[derive(Debug)]
struct LeftOut {
    count: u64,
    /// Stands for them; its text is not used.
    latest: Notice,
    wanted_at: Duration,
}

#[derive(Debug)]
struct Shown {
    notice: Notice,
    at: Duration,
    /// How often it came again since.
    again: u32,
}

impl Shelf {
    pub(super) fn post(&mut self, notice: Notice, now: Duration, rates: Rates, room: Room, ready: &mut Vec<Notice>) {
        self.echo(now);
        let Some((notice, times)) = self.merge(notice, now) else { return };
        let (pile, rate, must_wait) = match notice.priority {
            Priority::High => (&mut self.urgent, rates.urgent, !room.to_show),
            Priority::Normal => (&mut self.ordinary, rates.ordinary, !room.to_show || room.is_quiet),
            Priority::Low => (&mut self.ordinary, rates.ordinary, true),
        };
        let must_wait = must_wait || pile.is_held_up(now) || pile.pace.ready_at(rate) > now;
        if must_wait {
            let wanted_at = match notice.priority {
                Priority::Low => now + BATCH,
                Priority::Normal | Priority::High => now,
            };
            pile.add(Waiting { notice, times, wanted_at }, room);
            return;
        }
        pile.pace.count(now, rate);
        let is_ordinary = notice.priority != Priority::High;
        self.show(notice, times, now, ready);
        // Those of low priority waited for just that.
        if is_ordinary && self.ordinary.has_any() && self.ordinary.pace.ready_at(rates.ordinary) <= now {
            self.flush_ordinary(now, rates.ordinary, ready);
        }
    }

    pub(super) fn take(&mut self, now: Duration, rates: Rates, is_quiet: bool, ready: &mut Vec<Notice>) {
        self.echo(now);
        if self.urgent.is_held_up(now) && self.urgent.pace.ready_at(rates.urgent) <= now {
            self.urgent.pace.count(now, rates.urgent);
            let summary = self.urgent.summary();
            self.show_summary(summary, now, ready);
        }
        if !is_quiet && self.ordinary.is_held_up(now) && self.ordinary.pace.ready_at(rates.ordinary) <= now {
            self.flush_ordinary(now, rates.ordinary, ready);
        }
    }

    /// `pause`: until when ordinary notices wait in any case.
    pub(super) fn next_due(&self, rates: Rates, pause: Option<Duration>) -> Option<Duration> {
        let urgent = self.urgent.wanted_at().map(|at| at.max(self.urgent.pace.ready_at(rates.urgent)));
        let ordinary = self.ordinary.wanted_at().map(|at| {
            let at = at.max(self.ordinary.pace.ready_at(rates.ordinary));
            pause.map_or(at, |pause| at.max(pause))
        });
        let echoes = self.shown.iter().filter(|shown| shown.again > 0).map(|shown| shown.at + SAME_AGAIN);
        urgent.into_iter().chain(ordinary).chain(echoes).min()
    }

    pub(super) fn close(&mut self, is_quiet: bool, ready: &mut Vec<Notice>) {
        self.echo(Duration::MAX);
        ready.extend(self.urgent.summary().map(Summary::into_notice));
        if !is_quiet {
            ready.extend(self.ordinary.summary().map(Summary::into_notice));
        }
    }

    /// From then on the app may show an ordinary notice.
    pub(super) fn ready_at(&self, rates: Rates) -> Duration {
        self.ordinary.pace.ready_at(rates.ordinary)
    }

    pub(super) fn count(&mut self, now: Duration, rates: Rates) {
        self.ordinary.pace.count(now, rates.ordinary);
    }

    pub(super) fn waiting(&self) -> usize {
        self.urgent.waiting.len() + self.ordinary.waiting.len()
    }

    /// Everything that was not shown yet.
    pub(super) fn held(&self) -> u64 {
        self.urgent.held() + self.ordinary.held()
    }

    /// Forgetting it changes nothing.
    pub(super) fn is_idle(&self, now: Duration) -> bool {
        let rested = |pile: &Pile| !pile.has_any() && pile.pace.is_rested(now);
        rested(&self.urgent) && rested(&self.ordinary) && self.shown.iter().all(|shown| shown.is_over(now))
    }

    /// Counts a notice with its like. What comes back is still to be placed.
    fn merge(&mut self, notice: Notice, now: Duration) -> Option<(Notice, Times)> {
        if let Some(twin) = self.urgent.twin(&notice) {
            twin.count(notice);
            return None;
        }
        if let Some(position) = self.ordinary.waiting.iter().position(|one| one.is_like(&notice)) {
            if notice.priority == Priority::High {
                // It is urgent now: it goes over to the other pile, or is shown at once.
                let twin = self.ordinary.waiting.remove(position);
                return Some((notice, twin.times.plus(1)));
            }
            if let Some(twin) = self.ordinary.waiting.get_mut(position) {
                if notice.priority == Priority::Normal {
                    twin.wanted_at = twin.wanted_at.min(now);
                }
                twin.count(notice);
            }
            return None;
        }
        let shown = self.shown.iter_mut().find(|shown| is_same(&shown.notice, &notice));
        match shown {
            Some(shown) if notice.priority <= shown.notice.priority => {
                shown.again = shown.again.saturating_add(1);
                (shown.notice.at, shown.notice.message) = (notice.at, notice.message);
                None
            }
            // More urgent than before, so it is worth another look, with those that were only counted.
            Some(shown) => {
                let times = match shown.again {
                    0 => Times::InAll(1),
                    again => Times::More(again.saturating_add(1)),
                };
                shown.again = 0;
                Some((notice, times))
            }
            None => Some((notice, Times::InAll(1))),
        }
    }

    /// What came again since it was shown, and long enough ago, waits to be shown again, once.
    fn echo(&mut self, now: Duration) {
        for shown in self.shown.extract_if(.., |shown| shown.is_over_at(now)) {
            if shown.again > 0 {
                let pile = match shown.notice.priority {
                    Priority::High => &mut self.urgent,
                    Priority::Normal | Priority::Low => &mut self.ordinary,
                };
                // These came one by one and were not counted as waiting: there is always room for them.
                pile.waiting.push(Waiting {
                    times: Times::More(shown.again),
                    wanted_at: shown.at.saturating_add(SAME_AGAIN),
                    notice: shown.notice,
                });
            }
        }
    }

    fn flush_ordinary(&mut self, now: Duration, rate: Rate, ready: &mut Vec<Notice>) {
        self.ordinary.pace.count(now, rate);
        let summary = self.ordinary.summary();
        self.show_summary(summary, now, ready);
    }

    fn show_summary(&mut self, summary: Option<Summary>, now: Duration, ready: &mut Vec<Notice>) {
        match summary {
            Some(Summary::Single(notice, times)) => self.show(notice, times, now, ready),
            Some(Summary::Digest(notice)) => ready.push(notice),
            None => {}
        }
    }

    fn show(&mut self, notice: Notice, times: Times, now: Duration, ready: &mut Vec<Notice>) {
        ready.push(words::counted(notice.clone(), times));
        self.shown.retain(|shown| !is_same(&shown.notice, &notice));
        self.shown.push(Shown { notice, at: now, again: 0 });
    }
}

/// A pile as it is shown.
enum Summary {
    Single(Notice, Times),
    Digest(Notice),
}

impl Summary {
    fn into_notice(self) -> Notice {
        match self {
            Self::Single(notice, times) => words::counted(notice, times),
            Self::Digest(notice) => notice,
        }
    }
}

impl Pile {
    fn add(&mut self, waiting: Waiting, room: Room) {
        if room.to_wait && self.waiting.len() < MAX_PILE {
            self.waiting.push(waiting);
            return;
        }
        let count = u64::from(waiting.times.count());
        match &mut self.left_out {
            Some(left_out) => {
                left_out.count += count;
                left_out.wanted_at = left_out.wanted_at.min(waiting.wanted_at);
                left_out.latest = waiting.notice;
            }
            none => *none = Some(LeftOut { count, latest: waiting.notice, wanted_at: waiting.wanted_at }),
        }
    }

    fn twin(&mut self, notice: &Notice) -> Option<&mut Waiting> {
        self.waiting.iter_mut().find(|waiting| waiting.is_like(notice))
    }

    /// Takes everything off the pile.
    fn summary(&mut self) -> Option<Summary> {
        let mut waiting: Vec<(Notice, Times)> = self.waiting.drain(..).map(|one| (one.notice, one.times)).collect();
        let left_out = self.left_out.take();
        if left_out.is_none() && waiting.len() == 1 {
            return waiting.pop().map(|(notice, times)| Summary::Single(notice, times));
        }
        let priority = waiting.iter().map(|(notice, _)| notice.priority).max();
        let (count, latest) = match left_out {
            Some(left_out) => (left_out.count, left_out.latest),
            None => (0, waiting.last()?.0.clone()),
        };
        let priority = priority.unwrap_or(latest.priority).max(latest.priority);
        Some(Summary::Digest(Notice { priority, ..words::digest(&waiting, count, latest) }))
    }

    fn held(&self) -> u64 {
        let waiting = self.waiting.iter().map(|waiting| u64::from(waiting.times.count())).sum::<u64>();
        waiting + self.left_out.as_ref().map_or(0, |left_out| left_out.count)
    }

    fn has_any(&self) -> bool {
        !self.waiting.is_empty() || self.left_out.is_some()
    }

    /// When the first of them would be shown if nothing stood in the way.
    fn wanted_at(&self) -> Option<Duration> {
        let waiting = self.waiting.iter().map(|waiting| waiting.wanted_at);
        waiting.chain(self.left_out.as_ref().map(|left_out| left_out.wanted_at)).min()
    }

    /// Something is on it that should have been shown already.
    fn is_held_up(&self, now: Duration) -> bool {
        self.wanted_at().is_some_and(|at| at <= now)
    }
}

impl Waiting {
    fn is_like(&self, notice: &Notice) -> bool {
        is_same(&self.notice, notice)
    }

    fn count(&mut self, again: Notice) {
        self.times = self.times.plus(1);
        let priority = self.notice.priority.max(again.priority);
        self.notice = Notice { priority, ..again };
    }
}

impl Shown {
    fn is_over_at(&self, now: Duration) -> bool {
        self.at.saturating_add(SAME_AGAIN) <= now
    }

    /// Nothing is to be said about it any more.
    fn is_over(&self, now: Duration) -> bool {
        self.again == 0 && self.is_over_at(now)
    }
}

fn is_same(one: &Notice, other: &Notice) -> bool {
    one.title == other.title && one.body == other.body
}
