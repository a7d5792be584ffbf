//! The event log: the only place that numbers events. A record is stored first, then told; followers read the
//! live tail while they keep up and the store when they do not, so nobody ever misses or repeats a number.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, watch};

use crate::error::BoardError;
use crate::event::{Answered, Entry, Envelope, Event, Pieces, Topic};
use crate::id::Seq;
use crate::port::{Batch, BoxStream, Clock, Durability, Store, Write};

/// Records of a live topic kept in memory. A follower further behind reads the store instead.
const TAIL_RECORDS: usize = 256;
/// The same in bytes; the newest record is kept whatever its size.
const TAIL_BYTES: usize = 1024 * 1024;
/// Records read from the store at a time.
const REPLAY_RECORDS: usize = 256;
/// How far a topic may run ahead of the follower that paces it before its writer has to wait.
const PACING_LEAD: u64 = 8192;

#[derive(Debug)]
pub struct Log {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    live: Mutex<HashMap<Topic, Weak<LiveTopic>>>,
}

/// A topic somebody is writing to.
#[derive(Debug)]
struct LiveTopic {
    topic: Topic,
    tail: Mutex<Tail>,
    /// The last number that may be read; changes wake followers.
    head: watch::Sender<u64>,
    followers: watch::Sender<usize>,
    /// What the pacing follower has taken; `NOT_PACED` when nobody paces.
    paced_at: AtomicU64,
    pace_changed: Notify,
}

const NOT_PACED: u64 = u64::MAX;

#[derive(Debug, Default)]
struct Tail {
    records: VecDeque<Arc<Envelope>>,
    bytes: usize,
    ended: bool,
    /// The topic goes on in another process.
    suspended: bool,
}

impl Tail {
    fn extend(&mut self, records: Vec<Arc<Envelope>>) {
        for record in records {
            self.ended |= record.event.is_last();
            self.bytes += record.event.weight();
            self.records.push_back(record);
        }
        while self.records.len() > TAIL_RECORDS || (self.bytes > TAIL_BYTES && self.records.len() > 1) {
            let Some(oldest) = self.records.pop_front() else { break };
            self.bytes -= oldest.event.weight();
        }
    }
}

/// Does the follower hold its writer back when it reads slowly? Only the connection that started a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Sets,
    Free,
}

impl Log {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, live: Mutex::new(HashMap::new()) }
    }

    /// Opens a topic for its one writer; `next` is its first free number.
    pub fn open(self: &Arc<Self>, topic: Topic, next: Seq) -> TopicWriter {
        let live = Arc::new(LiveTopic {
            topic: topic.clone(),
            tail: Mutex::new(Tail::default()),
            head: watch::Sender::new(next.0.saturating_sub(1)),
            followers: watch::Sender::new(0),
            paced_at: AtomicU64::new(NOT_PACED),
            pace_changed: Notify::new(),
        });
        lock(&self.live).insert(topic, Arc::downgrade(&live));
        TopicWriter { log: self.clone(), live, next: tokio::sync::Mutex::new(next) }
    }

    /// Everything from `from` on: first what is stored, then what happens. Ends after the topic's last event.
    pub fn follow(
        self: &Arc<Self>,
        topic: &Topic,
        from: Seq,
        pace: Pace,
    ) -> BoxStream<Result<Arc<Envelope>, BoardError>> {
        // Clients count from wherever they like; there is nothing before the first number.
        let from = from.max(Seq::FIRST);
        let live = lock(&self.live).get(topic).and_then(Weak::upgrade);
        if let Some(live) = &live {
            live.followers.send_modify(|count| *count += 1);
            if pace == Pace::Sets {
                live.paced_at.store(from.0.saturating_sub(1), Ordering::Release);
            }
        }
        let head = live.as_ref().map(|live| live.head.subscribe());
        let follower = Follower {
            log: self.clone(),
            topic: topic.clone(),
            live,
            head,
            pace,
            next: from,
            replayed: VecDeque::new(),
            ended: false,
        };
        Box::pin(futures_util::stream::unfold(follower, |mut follower| async move {
            let item = follower.advance().await?;
            Some((item, follower))
        }))
    }

    /// The next writer of the topic may be there already; its place is its own.
    fn close(&self, closing: &Arc<LiveTopic>) {
        let mut live = lock(&self.live);
        if live.get(&closing.topic).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(closing))) {
            live.remove(&closing.topic);
        }
    }
}

/// The right to append to one topic. Dropping it ends the live topic; its records stay in the store.
#[derive(Debug)]
pub struct TopicWriter {
    log: Arc<Log>,
    live: Arc<LiveTopic>,
    /// Held while a batch is being stored, so that numbers are given out in the order of commits.
    next: tokio::sync::Mutex<Seq>,
}

impl TopicWriter {
    /// Numbers the events, commits them together with `writes`, then tells followers. On an error nothing was
    /// numbered and nobody heard anything.
    pub async fn append(
        &self,
        events: Vec<impl Into<Entry>>,
        writes: Vec<Write>,
        durability: Durability,
    ) -> Result<(), BoardError> {
        self.append_at(events, writes, durability).await.map(drop)
    }

    /// The same; answers with the time the events carry.
    pub async fn append_at(
        &self,
        events: Vec<impl Into<Entry>>,
        mut writes: Vec<Write>,
        durability: Durability,
    ) -> Result<Timestamp, BoardError> {
        let mut next = self.next.lock().await;
        let at = storable(self.log.clock.now());
        let mut following = *next;
        let mut records = Vec::with_capacity(events.len());
        for entry in events {
            let Entry { node, event } = entry.into();
            debug_assert!(event.width() > 0, "an event takes at least one number");
            let record = Arc::new(Envelope { topic: self.live.topic.clone(), seq: following, at, node, event });
            following = record.last_seq().next();
            records.push(record);
        }
        writes.splice(0..0, records.iter().cloned().map(Write::Event));
        self.log.store.commit(Batch { durability, writes }).await?;
        *next = following;
        self.live.tell(records, following);
        Ok(at)
    }

    /// The number the next event will get.
    pub async fn next_seq(&self) -> Seq {
        *self.next.lock().await
    }

    /// Waits while the pacing follower is too far behind. Bounded by that follower's own stall limit.
    pub async fn room(&self) {
        loop {
            let changed = self.live.pace_changed.notified();
            let paced_at = self.live.paced_at.load(Ordering::Acquire);
            let head = *self.live.head.borrow();
            if paced_at == NOT_PACED || head.saturating_sub(paced_at) <= PACING_LEAD {
                return;
            }
            changed.await;
        }
    }

    /// Tells followers that the topic goes on, but not in this process.
    pub fn suspend(&self) {
        lock(&self.live.tail).suspended = true;
        self.live.head.send_modify(|_| {});
    }

    /// Resolves when nobody has followed the topic for `grace`.
    pub async fn orphaned(&self, grace: Duration) {
        let mut followers = self.live.followers.subscribe();
        loop {
            // The sender lives in `self`, so waiting cannot fail.
            if followers.wait_for(|&count| count == 0).await.is_err() {
                return;
            }
            match tokio::time::timeout(grace, followers.wait_for(|&count| count > 0)).await {
                Ok(_) => {}
                Err(_elapsed) => return,
            }
        }
    }
}

impl Drop for TopicWriter {
    fn drop(&mut self) {
        // Out of the map first: whoever comes later reads the store, where everything already is.
        self.log.close(&self.live);
        lock(&self.live.tail).ended = true;
        self.live.head.send_modify(|_| {});
    }
}

impl LiveTopic {
    /// Records, end and head change together: whoever sees the end under the lock sees the last number too.
    fn tell(&self, records: Vec<Arc<Envelope>>, next: Seq) {
        let mut tail = lock(&self.tail);
        tail.extend(records);
        self.head.send_replace(next.0.saturating_sub(1));
    }
}

struct Follower {
    log: Arc<Log>,
    topic: Topic,
    live: Option<Arc<LiveTopic>>,
    head: Option<watch::Receiver<u64>>,
    pace: Pace,
    next: Seq,
    replayed: VecDeque<Arc<Envelope>>,
    ended: bool,
}

/// Where the next record is to be found.
enum Found {
    Record(Arc<Envelope>),
    InStore,
    NotYet,
    Nowhere,
    Elsewhere,
}

impl Follower {
    async fn advance(&mut self) -> Option<Result<Arc<Envelope>, BoardError>> {
        self.report_pace();
        while !self.ended {
            if let Some(record) = self.replayed.pop_front() {
                return Some(Ok(self.take(record)));
            }
            match self.look() {
                Found::Record(record) => return Some(Ok(self.take(record))),
                Found::InStore => match self.log.store.events(&self.topic, self.next, REPLAY_RECORDS).await {
                    Ok(records) if records.is_empty() => self.ended = true,
                    Ok(records) => self.replayed.extend(records),
                    Err(error) => {
                        self.ended = true;
                        return Some(Err(error.into()));
                    }
                },
                Found::NotYet => {
                    let Some(head) = &mut self.head else { return None };
                    if head.changed().await.is_err() {
                        self.ended = true;
                    }
                }
                Found::Nowhere => self.ended = true,
                Found::Elsewhere => {
                    self.ended = true;
                    return Some(Err(BoardError::suspended()));
                }
            }
        }
        None
    }

    fn look(&mut self) -> Found {
        let (Some(live), Some(head)) = (&self.live, &mut self.head) else { return Found::InStore };
        let tail = lock(&live.tail);
        // Marks the head as seen before looking, so that a later change is not slept through.
        let head = *head.borrow_and_update();
        if head < self.next.0 {
            return match (tail.suspended, tail.ended) {
                (true, _) => Found::Elsewhere,
                (false, true) => Found::Nowhere,
                (false, false) => Found::NotYet,
            };
        }
        let reaches_back = tail.records.front().is_some_and(|first| first.seq <= self.next);
        if !reaches_back {
            return Found::InStore;
        }
        let index = tail.records.partition_point(|record| record.last_seq() < self.next);
        tail.records.get(index).map_or(Found::InStore, |record| Found::Record(record.clone()))
    }

    fn take(&mut self, record: Arc<Envelope>) -> Arc<Envelope> {
        self.ended = record.event.is_last();
        let record = if record.seq < self.next { Arc::new(from_number(&record, self.next)) } else { record };
        debug_assert_eq!(record.seq, self.next, "records follow each other without a gap");
        self.next = record.last_seq().next();
        record
    }

    /// Asking for more means that everything before has been dealt with.
    fn report_pace(&self) {
        if let (Pace::Sets, Some(live)) = (self.pace, &self.live) {
            live.paced_at.store(self.next.0.saturating_sub(1), Ordering::Release);
            live.pace_changed.notify_waiters();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let Some(live) = &self.live else { return };
        if self.pace == Pace::Sets {
            live.paced_at.store(NOT_PACED, Ordering::Release);
            live.pace_changed.notify_waiters();
        }
        live.followers.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// The part of a record from number `from` on, for a follower that joins in the middle of it.
fn from_number(record: &Envelope, from: Seq) -> Envelope {
    let skip = usize::try_from(from.0.saturating_sub(record.seq.0)).unwrap_or(usize::MAX);
    let rest = |pieces: &Pieces| pieces.iter().skip(skip).collect::<Pieces>();
    let event = match &record.event {
        Event::Text(pieces) => Event::Text(rest(pieces)),
        Event::Draft(pieces) => Event::Draft(rest(pieces)),
        Event::Thought(pieces) => Event::Thought(rest(pieces)),
        Event::Arguments { call, name, pieces, .. } => {
            Event::Arguments { call: call.clone(), name: name.clone(), begins: false, pieces: rest(pieces) }
        }
        Event::ToolSaid { call, name, pieces } => {
            Event::ToolSaid { call: call.clone(), name: name.clone(), pieces: rest(pieces) }
        }
        Event::Answered(Answered::Whole { stop, calls }) => {
            Event::Answered(Answered::Whole { stop: *stop, calls: calls.iter().skip(skip).cloned().collect() })
        }
        whole @ (Event::RunStarted { .. }
        | Event::Briefed(_)
        | Event::NodeEntered { .. }
        | Event::NodeLeft(_)
        | Event::Answered(Answered::Failed(_))
        | Event::Found(_)
        | Event::ToolStarted { .. }
        | Event::ToolRequested(_)
        | Event::ToolFinished { .. }
        | Event::ApprovalWanted(_)
        | Event::ApprovalSettled { .. }
        | Event::Usage(_)
        | Event::RunFailed { .. }
        | Event::RunEnded { .. }
        | Event::Message(_)) => whole.clone(),
    };
    Envelope { topic: record.topic.clone(), seq: from, at: record.at, node: record.node, event }
}

/// What is told live carries the same time as what is read back: stores keep microseconds.
fn storable(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// A panic under one of these locks leaves plain data behind; going on is safe.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
