//! The event log: the only module that numbers events. A record is stored first, then published; followers read the
//! live tail while they keep up and the store when they do not, so that no follower misses or repeats a number.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, watch};

use crate::error::BoardError;
use crate::event::{Envelope, NewEvent, Topic};
use crate::id::{Seq, TenureId};
use crate::port::{BoxStream, Clock};
use crate::store::{Durability, RunState, Store, StoreError, StoreWrite, WriteBatch};
use crate::tenure::Tenure;

/// Records of a live topic kept in memory. A follower further behind reads from the store.
const TAIL_RECORDS: usize = 256;
/// The same limit in bytes; the newest record is kept whatever its size.
const TAIL_BYTES: usize = 1024 * 1024;
/// Records read from the store at a time.
const REPLAY_RECORDS: usize = 256;
/// How often a follower looks for records of a run that another process, or none at the moment, works on.
const REMOTE_POLL: Duration = Duration::from_millis(250);
/// How many events a topic may be ahead of its pacing follower before the writer has to wait.
const PACING_LEAD: u64 = 8192;

#[derive(Debug)]
pub struct EventLog {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    tenure: Arc<Tenure>,
    live: Mutex<HashMap<Topic, Weak<LiveTopic>>>,
}

/// A topic with a writer.
#[derive(Debug)]
struct LiveTopic {
    topic: Topic,
    tail: Mutex<TopicTail>,
    /// The last published number; changes wake followers.
    head: watch::Sender<u64>,
    followers: watch::Sender<usize>,
    /// The last number the pacing follower has consumed; `NOT_PACED` without such a follower.
    paced_at: AtomicU64,
    pace_changed: Notify,
}

const NOT_PACED: u64 = u64::MAX;

#[derive(Debug, Default)]
struct TopicTail {
    records: VecDeque<Arc<Envelope>>,
    bytes: usize,
    /// The topic's last event was published.
    ended: bool,
    /// The writer is gone.
    closed: bool,
    /// The topic continues in another process.
    suspended: bool,
}

impl TopicTail {
    fn extend(&mut self, records: Vec<Arc<Envelope>>) {
        for record in records {
            self.ended |= record.event.ends_topic();
            self.bytes += record.event.approximate_bytes();
            self.records.push_back(record);
        }
        while self.records.len() > TAIL_RECORDS || (self.bytes > TAIL_BYTES && self.records.len() > 1) {
            let Some(oldest) = self.records.pop_front() else { break };
            self.bytes -= oldest.event.approximate_bytes();
        }
    }
}

/// Whether a slow follower applies back-pressure to the writer. Only the connection that started a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowerPacing {
    Paced,
    Unpaced,
}

impl EventLog {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let tenure = Arc::new(Tenure::new(store.tenure()));
        Self { store, clock, tenure, live: Mutex::new(HashMap::new()) }
    }

    pub fn tenure(&self) -> &Arc<Tenure> {
        &self.tenure
    }

    /// Opens a topic for its only writer; `next` is the first free number.
    pub fn open(self: &Arc<Self>, topic: Topic, next: Seq) -> TopicWriter {
        let live = Arc::new(LiveTopic {
            topic: topic.clone(),
            tail: Mutex::new(TopicTail::default()),
            head: watch::Sender::new(next.0.saturating_sub(1)),
            followers: watch::Sender::new(0),
            paced_at: AtomicU64::new(NOT_PACED),
            pace_changed: Notify::new(),
        });
        lock_unpoisoned(&self.live).insert(topic, Arc::downgrade(&live));
        TopicWriter { log: self.clone(), live, tenure: self.tenure.id(), next: tokio::sync::Mutex::new(next) }
    }

    /// All events from `from` on: first the stored ones, then live ones. For a run the stream ends after the last event,
    /// or when nothing more can come: a run without a writer in this process may go on in another one, or here again.
    pub fn follow(
        self: &Arc<Self>,
        topic: &Topic,
        from: Seq,
        pace: FollowerPacing,
    ) -> BoxStream<Result<Arc<Envelope>, BoardError>> {
        // Clients may send any number; numbers begin at `FIRST`.
        let from = from.max(Seq::FIRST);
        let mut follower = TopicFollower {
            log: self.clone(),
            topic: topic.clone(),
            live: None,
            head: None,
            pace,
            next: from,
            replayed: VecDeque::new(),
            writer_failed: false,
            ended: false,
        };
        follower.attach();
        Box::pin(futures_util::stream::unfold(follower, |mut follower| async move {
            let item = follower.next_item().await?;
            Some((item, follower))
        }))
    }

    /// Removes the topic, unless the next writer of the topic has replaced the entry already.
    fn close(&self, closing: &Arc<LiveTopic>) {
        let mut live = lock_unpoisoned(&self.live);
        if live.get(&closing.topic).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(closing))) {
            live.remove(&closing.topic);
        }
    }
}

/// The exclusive right to append to one topic. Dropping it ends the live topic; its records stay in the store.
#[derive(Debug)]
pub struct TopicWriter {
    log: Arc<EventLog>,
    live: Arc<LiveTopic>,
    /// The tenure in which the topic was opened.
    tenure: TenureId,
    /// Held while a batch is being stored, so that numbers are assigned in the order of commits.
    next: tokio::sync::Mutex<Seq>,
}

impl TopicWriter {
    /// Numbers the events, commits them together with `writes`, then publishes them. On an error no number is used and
    /// nothing is published. If the future is dropped before it completes, events may be stored without being
    /// published.
    pub async fn append(
        &self,
        events: Vec<impl Into<NewEvent>>,
        writes: Vec<StoreWrite>,
        durability: Durability,
    ) -> Result<(), BoardError> {
        self.append_returning_time(events, writes, durability).await.map(drop)
    }

    /// Like `append`; returns the timestamp of the events.
    pub async fn append_returning_time(
        &self,
        events: Vec<impl Into<NewEvent>>,
        mut writes: Vec<StoreWrite>,
        durability: Durability,
    ) -> Result<Timestamp, BoardError> {
        let mut next = self.next.lock().await;
        let at = to_stored_precision(self.log.clock.now());
        let mut following = *next;
        let mut records = Vec::with_capacity(events.len());
        for entry in events {
            let NewEvent { node, event } = entry.into();
            debug_assert!(event.seq_count() > 0, "an event takes at least one number");
            let record = Arc::new(Envelope { topic: self.live.topic.clone(), seq: following, at, node, event });
            following = record.last_seq().next();
            records.push(record);
        }
        writes.splice(0..0, records.iter().cloned().map(StoreWrite::Event));
        let batch = WriteBatch::new(durability, writes).of_tenure(self.tenure);
        self.log.store.commit(batch).await.inspect_err(|error| self.log.tenure.observe(error))?;
        *next = following;
        self.live.publish(records, following);
        Ok(at)
    }

    /// The number of the next event.
    pub async fn next_seq(&self) -> Seq {
        *self.next.lock().await
    }

    /// Waits while the pacing follower is too far behind. Bounded by that follower's own stall limit.
    pub async fn wait_for_follower(&self) {
        loop {
            // Created before the check, so that a notification in between is not missed.
            let changed = self.live.pace_changed.notified();
            let paced_at = self.live.paced_at.load(Ordering::Acquire);
            let head = *self.live.head.borrow();
            if paced_at == NOT_PACED || head.saturating_sub(paced_at) <= PACING_LEAD {
                return;
            }
            changed.await;
        }
    }

    /// Informs followers that the topic continues in another process.
    pub fn suspend(&self) {
        lock_unpoisoned(&self.live.tail).suspended = true;
        self.live.head.send_modify(|_| {});
    }

    /// Resolves once the topic has had no follower for `grace`.
    pub async fn wait_until_unfollowed(&self, grace: Duration) {
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
        // Removed from the map first: a later follower reads from the store, which has all records.
        self.log.close(&self.live);
        lock_unpoisoned(&self.live.tail).closed = true;
        self.live.head.send_modify(|_| {});
    }
}

impl LiveTopic {
    /// Records, end and head change under one lock, so that a follower that sees the end also sees the last number.
    fn publish(&self, records: Vec<Arc<Envelope>>, next: Seq) {
        let mut tail = lock_unpoisoned(&self.tail);
        tail.extend(records);
        self.head.send_replace(next.0.saturating_sub(1));
    }
}

struct TopicFollower {
    log: Arc<EventLog>,
    topic: Topic,
    live: Option<Arc<LiveTopic>>,
    head: Option<watch::Receiver<u64>>,
    pace: FollowerPacing,
    next: Seq,
    replayed: VecDeque<Arc<Envelope>>,
    /// The writer in this process went away without an end: its last records could not be stored.
    writer_failed: bool,
    ended: bool,
}

/// Where the next record can be read.
enum NextRecord {
    Record(Arc<Envelope>),
    InStore,
    Pending,
    Ended,
    WriterGone,
    Suspended,
}

impl TopicFollower {
    async fn next_item(&mut self) -> Option<Result<Arc<Envelope>, BoardError>> {
        self.report_pace();
        while !self.ended {
            if let Some(record) = self.replayed.pop_front() {
                return Some(Ok(self.advance_past(record)));
            }
            match self.locate_next() {
                NextRecord::Record(record) => return Some(Ok(self.advance_past(record))),
                NextRecord::InStore => match self.read_stored().await {
                    Ok(records) => self.replayed.extend(records),
                    Err(error) => {
                        self.ended = true;
                        return Some(Err(error.into()));
                    }
                },
                NextRecord::Pending => {
                    let Some(head) = &mut self.head else { return None };
                    if head.changed().await.is_err() {
                        self.ended = true;
                    }
                }
                NextRecord::Ended => self.ended = true,
                // For a run only the store says whether it has ended.
                NextRecord::WriterGone => match self.topic {
                    Topic::Run(_) => {
                        // Whoever took the run from this process goes on with it; otherwise nobody does for now.
                        self.writer_failed = self.log.tenure.may_act().is_ok();
                        self.detach();
                    }
                    Topic::Message(_) => self.ended = true,
                },
                NextRecord::Suspended => {
                    self.ended = true;
                    return Some(Err(BoardError::suspended()));
                }
            }
        }
        None
    }

    /// The next stored records. If there are none, `ended` is set, or this has waited a moment for more.
    async fn read_stored(&mut self) -> Result<Vec<Arc<Envelope>>, StoreError> {
        let store = self.log.store.clone();
        let records = store.events(&self.topic, self.next, REPLAY_RECORDS).await?;
        if !records.is_empty() || self.attach() {
            return Ok(records);
        }
        if let (None, Topic::Run(run)) = (&self.live, &self.topic) {
            let row = store.run(*run).await?;
            if row.is_some_and(|row| row.state == RunState::Running) {
                if self.writer_failed {
                    self.ended = true;
                    return Ok(records);
                }
                tokio::time::sleep(REMOTE_POLL).await;
                self.attach();
                return Ok(records);
            }
            // The run may have ended between the two reads; all of its records are stored now.
            let records = store.events(&self.topic, self.next, REPLAY_RECORDS).await?;
            self.ended = records.is_empty();
            return Ok(records);
        }
        self.ended = true;
        Ok(records)
    }

    /// Joins the topic's writer in this process; `false` if there is none, or it is joined already.
    fn attach(&mut self) -> bool {
        if self.live.is_some() {
            return false;
        }
        let Some(live) = lock_unpoisoned(&self.log.live).get(&self.topic).and_then(Weak::upgrade) else { return false };
        live.followers.send_modify(|count| *count += 1);
        if self.pace == FollowerPacing::Paced {
            live.paced_at.store(self.next.0.saturating_sub(1), Ordering::Release);
        }
        self.head = Some(live.head.subscribe());
        self.live = Some(live);
        true
    }

    fn detach(&mut self) {
        self.head = None;
        let Some(live) = self.live.take() else { return };
        if self.pace == FollowerPacing::Paced {
            live.paced_at.store(NOT_PACED, Ordering::Release);
            live.pace_changed.notify_waiters();
        }
        live.followers.send_modify(|count| *count = count.saturating_sub(1));
    }

    fn locate_next(&mut self) -> NextRecord {
        let (Some(live), Some(head)) = (&self.live, &mut self.head) else { return NextRecord::InStore };
        let tail = lock_unpoisoned(&live.tail);
        // Marks the head as seen before it is compared, so that no later change is missed.
        let head = *head.borrow_and_update();
        if head < self.next.0 {
            return match (tail.ended, tail.suspended, tail.closed) {
                (true, ..) => NextRecord::Ended,
                (false, true, _) => NextRecord::Suspended,
                (false, false, true) => NextRecord::WriterGone,
                (false, false, false) => NextRecord::Pending,
            };
        }
        let reaches_back = tail.records.front().is_some_and(|first| first.seq <= self.next);
        if !reaches_back {
            return NextRecord::InStore;
        }
        let index = tail.records.partition_point(|record| record.last_seq() < self.next);
        tail.records.get(index).map_or(NextRecord::InStore, |record| NextRecord::Record(record.clone()))
    }

    fn advance_past(&mut self, record: Arc<Envelope>) -> Arc<Envelope> {
        self.ended = record.event.ends_topic();
        let record = if record.seq < self.next { Arc::new(record.part_from(self.next)) } else { record };
        debug_assert_eq!(record.seq, self.next, "records follow each other without a gap");
        self.next = record.last_seq().next();
        record
    }

    /// Polling for the next item means that all previous ones were consumed.
    fn report_pace(&self) {
        if let (FollowerPacing::Paced, Some(live)) = (self.pace, &self.live) {
            live.paced_at.store(self.next.0.saturating_sub(1), Ordering::Release);
            live.pace_changed.notify_waiters();
        }
    }
}

impl Drop for TopicFollower {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Live events carry the same timestamp as stored ones: stores keep microseconds.
fn to_stored_precision(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// A panic while one of these locks is held cannot leave the data inconsistent, so a poisoned lock is used.
fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
