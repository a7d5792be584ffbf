//! Which notices are shown when. Pure: time comes in with every call.
//!
//! Every app has a shelf with two piles, one for what is urgent and one for the rest, each with a pace of its own. A
//! notice is shown at once if its pile is empty and its pace allows; else it waits there, and when the pile may be
//! shown, it is shown as a whole: a single notice as it is, several as one digest.

mod shelf;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{NoticeOptions, words};
use crate::app::{Notice, Priority};
use shelf::{Rates, Room, Shelf};

/// Apps that are kept apart. Notices of more, all of them busy within a minute, are only counted, and the hub says so.
const MAX_SHELVES: usize = 256;
/// Notices that wait, of all apps. More are counted in the digest of their app.
const MAX_WAITING: usize = 500;
/// Notices ready for the sinks before anybody takes them. More wait.
const MAX_READY: usize = 256;

/// The time: since the start for measuring, on the wall for quiet hours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) uptime: Duration,
    pub(super) wall: Timestamp,
}

#[derive(Debug)]
pub(super) struct Tray {
    options: NoticeOptions,
    rates: Rates,
    /// The hub's own is under `None`.
    shelves: BTreeMap<Option<Arc<str>>, Shelf>,
    ready: Vec<Notice>,
    /// Notices of apps that found no shelf.
    crowded_out: u64,
}

impl Tray {
    pub(super) fn new(options: NoticeOptions) -> Self {
        let rates = Rates::new(options.per_minute);
        Self { options, rates, shelves: BTreeMap::new(), ready: Vec::new(), crowded_out: 0 }
    }

    pub(super) fn post(&mut self, notice: Notice, now: Now) {
        let notice = words::cleaned(notice);
        let room = Room {
            to_wait: self.waiting() < MAX_WAITING,
            to_show: self.ready.len() < MAX_READY,
            is_quiet: self.is_quiet(now),
        };
        if !self.shelves.contains_key(&notice.app) && notice.app.is_some() && self.shelves.len() >= MAX_SHELVES {
            self.shelves.retain(|_, shelf| !shelf.is_idle(now.uptime));
            if self.shelves.len() >= MAX_SHELVES {
                self.crowded_out += 1;
                return;
            }
        }
        let shelf = self.shelves.entry(notice.app.clone()).or_default();
        shelf.post(notice, now.uptime, self.rates, room, &mut self.ready);
    }

    /// What is to be shown now, in this order.
    pub(super) fn take(&mut self, now: Now) -> Vec<Notice> {
        let is_quiet = self.is_quiet(now);
        for shelf in self.shelves.values_mut() {
            shelf.take(now.uptime, self.rates, is_quiet, &mut self.ready);
        }
        self.tell_crowded_out(now);
        self.shelves.retain(|_, shelf| !shelf.is_idle(now.uptime));
        std::mem::take(&mut self.ready)
    }

    /// When to take next; never in the past of what was just taken. `None`: not before something is posted.
    pub(super) fn next_due(&self, now: Now) -> Option<Duration> {
        let pause = match (&self.options.quiet, self.is_quiet(now)) {
            (Some(quiet), true) => Some(now.uptime + quiet.wait(now.wall, &self.options.zone)),
            (Some(_) | None, _) => None,
        };
        let piles = self.shelves.values().filter_map(|shelf| shelf.next_due(self.rates, pause));
        let crowd = (self.crowded_out > 0).then(|| {
            let hub = self.shelves.get(&None).map_or(Duration::ZERO, |hub| hub.ready_at(self.rates));
            pause.unwrap_or_default().max(hub)
        });
        let waiting = (!self.ready.is_empty()).then_some(now.uptime);
        piles.chain(crowd).chain(waiting).min()
    }

    /// Everything that waits, however fast it comes: there will be no later. In quiet hours only what is urgent.
    pub(super) fn close(&mut self, now: Now) -> Vec<Notice> {
        let is_quiet = self.is_quiet(now);
        for shelf in self.shelves.values_mut() {
            shelf.close(is_quiet, &mut self.ready);
        }
        if self.crowded_out > 0 && !is_quiet {
            let said = self.crowded_out_notice(now);
            self.ready.push(said);
        }
        let silent = self.crowded_out + self.shelves.values().map(Shelf::held).sum::<u64>();
        if silent > 0 {
            tracing::info!(notices = silent, "notices of quiet hours are not shown; see `patchboard hub messages`");
        }
        std::mem::take(&mut self.ready)
    }

    fn tell_crowded_out(&mut self, now: Now) {
        if self.crowded_out == 0 || self.is_quiet(now) {
            return;
        }
        let hub = self.shelves.entry(None).or_default();
        if hub.ready_at(self.rates) > now.uptime {
            return;
        }
        hub.count(now.uptime, self.rates);
        let said = self.crowded_out_notice(now);
        self.ready.push(said);
    }

    fn crowded_out_notice(&mut self, now: Now) -> Notice {
        let (title, body) = words::crowded_out(std::mem::take(&mut self.crowded_out));
        Notice { app: None, title, body, priority: Priority::Normal, message: None, at: now.wall }
    }

    fn is_quiet(&self, now: Now) -> bool {
        self.options.quiet.is_some_and(|quiet| quiet.contain(now.wall, &self.options.zone))
    }

    fn waiting(&self) -> usize {
        self.shelves.values().map(Shelf::waiting).sum()
    }
}

#[cfg(test)]
mod tests;
