//! What programs and agents keep in their sessions, and hear of when it changes. Nothing is acknowledged before it is
//! stored.
//!
//! - `shelf`: one session's variables, pure; `tools`: the tools that work on them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::id::SessionKey;
use crate::port::{Batch, Clock, Durability, Space, Store, StoreError, Write};
use crate::record;
use crate::tool::Glob;

pub(crate) mod shelf;
mod tools;

pub(crate) use tools::VariableTools;

use shelf::{Done, News, Setting, Shelf, Variable};

/// What a session's variables are kept under in its space.
const KEPT_AS: &str = "variables";
/// Sessions held in memory; those used longest ago are read again when they are needed. Ones that are watched count
/// and stay, without their values.
const MAX_ROOMS: usize = 256;
/// Bytes of all of them held in memory, about.
const MAX_HELD: usize = 64 * 1024 * 1024;
/// Longer values have keys of their own, so that a change elsewhere does not write them again.
const MAX_INLINE: usize = 1024;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Variables(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    rooms: Mutex<Rooms>,
    /// Counts uses.
    tick: AtomicU64,
    /// Bytes held, about.
    held: AtomicUsize,
}

#[derive(Debug)]
struct Rooms {
    by_session: HashMap<SessionKey, Arc<Room>>,
    /// How many there are when the next look for idle ones is worth it.
    tidy_at: usize,
}

/// A session that is in use, or was lately.
#[derive(Debug)]
struct Room {
    /// Held over a commit: changes of one session come one after the other.
    state: tokio::sync::Mutex<State>,
    /// The newest cursor given out, 0 before the first; whoever watches looks again when it changes.
    bell: watch::Sender<u64>,
    used: AtomicU64,
    bytes: AtomicUsize,
}

#[derive(Debug)]
enum State {
    Unread,
    /// A commit was left alone half-way: nobody knows yet whether it counts.
    Unsure,
    Known(Shelf),
}

/// Why something was not done.
#[derive(Debug)]
enum Refusal {
    /// A sentence for whoever asked.
    Said(String),
    Store(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Variables {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let rooms = Mutex::new(Rooms { by_session: HashMap::new(), tidy_at: MAX_ROOMS });
        Self(Arc::new(Inner { store, clock, rooms, tick: AtomicU64::new(0), held: AtomicUsize::new(0) }))
    }

    /// Deletes all of a session's variables, tells whoever watches, and says how many there were. To be called after a
    /// session was purged too: what is held in memory goes with it.
    pub(crate) async fn forget(&self, session: &SessionKey) -> usize {
        match self.try_forget(session).await {
            Ok(count) => count,
            Err(error) => {
                tracing::error!(session.key = %session, %error, "the variables of a session could not be deleted");
                0
            }
        }
    }

    async fn try_forget(&self, session: &SessionKey) -> Result<usize, StoreError> {
        let room = self.enter(session);
        let mut state = room.state.lock().await;
        let now = self.0.clock.now();
        let before = match self.0.read(session, &room, &mut state).await {
            Ok(shelf) => shelf.clone(),
            // What cannot be read can still be deleted.
            Err(StoreError::Corrupt { .. }) => Shelf { cursor: *room.bell.borrow(), ..Shelf::new(0) },
            Err(error) => return Err(error),
        };
        let is_kept = !before.variables.is_empty() || !before.gone.is_empty() || !matches!(*state, State::Known(_));
        let count = before.variables.len();
        if is_kept {
            let after = Shelf::new(beginning(now).max(before.cursor.saturating_add(1)));
            let mut writes = rewrite_apart(session, &before, &after, now);
            writes.push(keep(session, KEPT_AS.into(), None, now));
            self.0.commit(&room, &mut state, writes, after).await?;
        }
        drop(state);
        drop(room);
        self.tidy();
        Ok(count)
    }

    async fn set(&self, session: &SessionKey, wanted: Setting) -> Result<Done, Refusal> {
        self.change(session, |shelf, at| shelf.set(wanted, at)).await
    }

    /// `None` when there is no such variable.
    async fn delete(&self, session: &SessionKey, name: &str) -> Result<Option<Done>, Refusal> {
        self.change(session, |shelf, _| Ok(shelf.delete(name))).await
    }

    async fn get(&self, session: &SessionKey, name: &str) -> Result<Option<Variable>, Refusal> {
        self.look(session, |shelf| shelf.variables.get(name).cloned()).await
    }

    async fn list(&self, session: &SessionKey, prefix: &str) -> Result<Vec<(Arc<str>, Variable)>, Refusal> {
        self.look(session, |shelf| {
            let from = shelf.variables.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
            let those = from.take_while(|(name, _)| name.starts_with(prefix));
            those.map(|(name, variable)| (name.clone(), variable.clone())).collect()
        })
        .await
    }

    /// Waits for something newer than `since` (or than now) to happen to variables of these names, all where there are
    /// none; comes back with nothing after `patience`, or when stopped.
    async fn watch(
        &self,
        session: &SessionKey,
        names: &[Glob],
        since: Option<u64>,
        patience: Duration,
        stop: &CancellationToken,
    ) -> Result<News, Refusal> {
        let room = self.enter(session);
        let mut bell = room.bell.subscribe();
        let over = tokio::time::sleep(patience);
        tokio::pin!(over);
        let mut since = since;
        loop {
            bell.borrow_and_update();
            let news = {
                let mut state = room.state.lock().await;
                let shelf = self.0.read(session, &room, &mut state).await?;
                let since = *since.get_or_insert(shelf.cursor);
                shelf.changes(names, since)
            };
            self.tidy();
            if news.reset || !news.changes.is_empty() {
                return Ok(news);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(news),
                // The room has its own bell, so this never ends by itself.
                _ = bell.changed() => {}
                () = &mut over => return Ok(news),
            }
        }
    }

    async fn look<T>(&self, session: &SessionKey, look: impl FnOnce(&Shelf) -> T) -> Result<T, Refusal> {
        let room = self.enter(session);
        let seen = {
            let mut state = room.state.lock().await;
            look(self.0.read(session, &room, &mut state).await?)
        };
        drop(room);
        self.tidy();
        Ok(seen)
    }

    async fn change<T>(
        &self,
        session: &SessionKey,
        change: impl FnOnce(&mut Shelf, Timestamp) -> Result<T, String>,
    ) -> Result<T, Refusal> {
        let room = self.enter(session);
        let mut state = room.state.lock().await;
        let now = self.0.clock.now();
        let before = self.0.read(session, &room, &mut state).await?;
        let mut after = before.clone();
        let done = change(&mut after, now).map_err(Refusal::Said)?;
        if after.cursor != before.cursor {
            let mut writes = rewrite_apart(session, before, &after, now);
            writes.push(keep(session, KEPT_AS.into(), Some(record::encode_shelf(&after, is_apart)), now));
            self.0.commit(&room, &mut state, writes, after).await?;
        }
        drop(state);
        drop(room);
        self.tidy();
        Ok(done)
    }

    fn enter(&self, session: &SessionKey) -> Arc<Room> {
        let mut rooms = self.0.rooms();
        let room = rooms.by_session.entry(session.clone()).or_insert_with(|| {
            let state = tokio::sync::Mutex::new(State::Unread);
            Arc::new(Room { state, bell: watch::Sender::new(0), used: AtomicU64::new(0), bytes: AtomicUsize::new(0) })
        });
        room.used.store(self.0.tick.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        room.clone()
    }

    /// Lets go of sessions used longest ago while there is too much of them.
    fn tidy(&self) {
        let mut rooms = self.0.rooms();
        let is_too_much = || self.0.held.load(Ordering::Relaxed) > MAX_HELD;
        if rooms.by_session.len() <= rooms.tidy_at && !is_too_much() {
            return;
        }
        let used = |room: &Arc<Room>| room.used.load(Ordering::Relaxed);
        let mut by_use: Vec<(u64, SessionKey)> =
            rooms.by_session.iter().map(|(session, room)| (used(room), session.clone())).collect();
        by_use.sort_unstable();
        for (_, session) in by_use {
            if rooms.by_session.len() <= MAX_ROOMS / 4 * 3 && !is_too_much() {
                break;
            }
            let Some(room) = rooms.by_session.get(&session) else { continue };
            // Whoever works on it right now holds it; whoever watches has to read it again.
            if let Ok(mut state) = room.state.try_lock()
                && let State::Known(_) = *state
            {
                *state = State::Unread;
                self.0.weigh(room, 0);
            }
            // Given out under this lock only, so nobody else can have it, or get it meanwhile. One whose last commit is
            // in doubt stays, to be settled.
            let is_idle = Arc::strong_count(room) == 1;
            let is_settled = room.state.try_lock().is_ok_and(|state| matches!(*state, State::Unread));
            if is_idle && is_settled {
                rooms.by_session.remove(&session);
            }
        }
        // Those in use cannot go: they are not looked through again for every call.
        let left = rooms.by_session.len();
        rooms.tidy_at = if left > MAX_ROOMS { left.saturating_mul(2) } else { MAX_ROOMS };
    }
}

impl Inner {
    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read<'a>(&self, session: &SessionKey, room: &Room, state: &'a mut State) -> Result<&'a Shelf, StoreError> {
        if let State::Unsure = state {
            // Commits are applied in order: once this one is, the one in doubt is too, or never will be.
            self.store.commit(Batch { durability: Durability::Boundary, writes: Vec::new() }).await?;
        }
        if let State::Unread | State::Unsure = state {
            let shelf = match self.load(session).await? {
                Some(shelf) => shelf,
                None => Shelf::new(match *room.bell.borrow() {
                    0 => beginning(self.clock.now()),
                    given_out => given_out,
                }),
            };
            self.weigh(room, shelf.weight());
            room.bell.send_if_modified(|cursor| {
                let is_news = *cursor != 0 && *cursor != shelf.cursor;
                *cursor = shelf.cursor;
                is_news
            });
            *state = State::Known(shelf);
        }
        match state {
            State::Known(shelf) => Ok(shelf),
            State::Unread | State::Unsure => Err(StoreError::Closed),
        }
    }

    async fn load(&self, session: &SessionKey) -> Result<Option<Shelf>, StoreError> {
        let corrupt =
            |error: record::RecordError| StoreError::Corrupt { what: "variables of a session", source: error.into() };
        let space = Space::Session(session.clone());
        let Some(bytes) = self.store.kept(&space, KEPT_AS).await? else { return Ok(None) };
        let (mut shelf, apart) = record::decode_shelf(&bytes).map_err(corrupt)?;
        for name in apart {
            let value = self.store.kept(&space, &apart_key(&name)).await?;
            match (value, shelf.variables.get_mut(&name)) {
                (Some(bytes), Some(variable)) => {
                    variable.value = Arc::new(record::decode_value(&bytes).map_err(corrupt)?);
                    variable.bytes = bytes.len();
                }
                // Written and deleted together with the record, so this is not ours to explain; the rest is still good.
                (None, _) | (_, None) => drop(shelf.variables.remove(&name)),
            }
        }
        Ok(Some(shelf))
    }

    /// Stores, then lets it count. Where this is dropped half-way, what counts is found out later.
    async fn commit(&self, room: &Room, state: &mut State, writes: Vec<Write>, after: Shelf) -> Result<(), StoreError> {
        let before = std::mem::replace(state, State::Unsure);
        if let Err(error) = self.store.commit(Batch { durability: Durability::Boundary, writes }).await {
            *state = before;
            return Err(error);
        }
        self.weigh(room, after.weight());
        let cursor = after.cursor;
        *state = State::Known(after);
        room.bell.send_replace(cursor);
        Ok(())
    }

    /// To be called by whoever holds the room's state.
    fn weigh(&self, room: &Room, bytes: usize) {
        let before = room.bytes.swap(bytes, Ordering::Relaxed);
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.held.fetch_sub(before, Ordering::Relaxed);
    }
}

/// Writes for the long values that differ.
fn rewrite_apart(session: &SessionKey, before: &Shelf, after: &Shelf, at: Timestamp) -> Vec<Write> {
    let apart = |shelf: &Shelf, name: &Arc<str>| shelf.variables.get(name).filter(|one| is_apart(one)).cloned();
    let mut names: Vec<&Arc<str>> = before.variables.keys().chain(after.variables.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut writes = Vec::new();
    for name in names {
        let value = match (apart(before, name), apart(after, name)) {
            (Some(before), Some(after)) if before.set == after.set => continue,
            (_, Some(after)) => Some(record::encode_value(&after.value)),
            (Some(_), None) => None,
            (None, None) => continue,
        };
        writes.push(keep(session, apart_key(name).into(), value, at));
    }
    writes
}

fn is_apart(variable: &Variable) -> bool {
    variable.bytes > MAX_INLINE
}

fn apart_key(name: &str) -> String {
    format!("variable/{name}")
}

fn keep(session: &SessionKey, key: Arc<str>, value: Option<Vec<u8>>, at: Timestamp) -> Write {
    Write::Keep { space: Space::Session(session.clone()), key, value, at }
}

/// Where the cursors of a session begin: past those of an earlier session of the same name.
fn beginning(now: Timestamp) -> u64 {
    u64::try_from(now.as_microsecond()).unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests;
