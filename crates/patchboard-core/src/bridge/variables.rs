//! Session variables of clients and agents, with change notification. A change is acknowledged only once it is stored.
//!
//! - [`variable_set`]: one session's variables, pure; `tools`: the tools that work on them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::id::SessionKey;
use crate::port::Clock;
use crate::record;
use crate::store::{Durability, KvNamespace, Store, StoreError, StoreWrite, WriteBatch};
use crate::tool::Glob;

mod tools;

pub(crate) use tools::VariableTools;

use crate::variable_set::{ChangeOutcome, SetVariable, Variable, VariableSet, WatchUpdate};

/// The key of a session's variables in its namespace.
const STORAGE_KEY: &str = "variables";
/// Sessions cached; past it the least recently used ones are unloaded and read again on demand. A watched session
/// counts and stays, without its values.
const MAX_CACHED_SESSIONS: usize = 256;
/// Approximate bound on the bytes of all cached values.
const MAX_HELD_BYTES: usize = 64 * 1024 * 1024;
/// Longer values have keys of their own, so that a change of another variable does not rewrite them.
const MAX_INLINE: usize = 1024;

#[derive(Debug, Clone)]
pub struct VariableStore(Arc<VariableShared>);

#[derive(Debug)]
struct VariableShared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    sessions: Mutex<SessionCache>,
    /// Logical clock for `last_used`.
    tick: AtomicU64,
    /// Approximate bytes of cached values.
    held_bytes: AtomicUsize,
}

#[derive(Debug)]
struct SessionCache {
    by_session: HashMap<SessionKey, Arc<CachedSession>>,
    /// The number of sessions at which the next search for idle ones is worthwhile.
    evict_threshold: usize,
}

/// A cached session.
#[derive(Debug)]
struct CachedSession {
    /// Held during a commit: changes of one session are serialised.
    state: tokio::sync::Mutex<LoadState>,
    /// The newest cursor handed out, 0 before the first; watchers look again when it changes.
    cursor_sender: watch::Sender<u64>,
    last_used: AtomicU64,
    held_bytes: AtomicUsize,
}

#[derive(Debug)]
enum LoadState {
    NotLoaded,
    /// A commit's future was dropped: whether it took effect is unknown.
    CommitInDoubt,
    Loaded(VariableSet),
}

/// Why an operation failed.
#[derive(Debug)]
enum VariableError {
    /// A message for the caller.
    Rejected(String),
    Store(StoreError),
}

impl From<StoreError> for VariableError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl VariableStore {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let rooms = Mutex::new(SessionCache { by_session: HashMap::new(), evict_threshold: MAX_CACHED_SESSIONS });
        Self(Arc::new(VariableShared {
            store,
            clock,
            sessions: rooms,
            tick: AtomicU64::new(0),
            held_bytes: AtomicUsize::new(0),
        }))
    }

    /// Deletes all of a session's variables, wakes its watchers and returns the number of variables. Must also be
    /// called after a session was purged, as it drops the cached values.
    pub(crate) async fn delete_all(&self, session: &SessionKey) -> usize {
        match self.try_delete_all(session).await {
            Ok(count) => count,
            Err(error) => {
                tracing::error!(session.key = %session, %error, "the variables of a session could not be deleted");
                0
            }
        }
    }

    async fn try_delete_all(&self, session: &SessionKey) -> Result<usize, StoreError> {
        let room = self.cached_session(session);
        let mut state = room.state.lock().await;
        let now = self.0.clock.now();
        let before = match self.0.loaded(session, &room, &mut state).await {
            Ok(shelf) => shelf.clone(),
            // Unreadable variables can still be deleted.
            Err(StoreError::Corrupt { .. }) => {
                VariableSet { cursor: *room.cursor_sender.borrow(), ..VariableSet::new(0) }
            }
            Err(error) => return Err(error),
        };
        let is_kept =
            !before.variables.is_empty() || !before.deleted.is_empty() || !matches!(*state, LoadState::Loaded(_));
        let count = before.variables.len();
        if is_kept {
            let after = VariableSet::new(first_cursor(now).max(before.cursor.saturating_add(1)));
            let mut writes = large_value_writes(session, &before, &after, now);
            writes.push(put_write(session, STORAGE_KEY.into(), None, now));
            self.0.commit(&room, &mut state, writes, after).await?;
        }
        drop(state);
        drop(room);
        self.evict_idle();
        Ok(count)
    }

    async fn set(&self, session: &SessionKey, wanted: SetVariable) -> Result<ChangeOutcome, VariableError> {
        self.update(session, |shelf, at| shelf.set(wanted, at)).await
    }

    /// `None` if there is no such variable.
    async fn delete(&self, session: &SessionKey, name: &str) -> Result<Option<ChangeOutcome>, VariableError> {
        self.update(session, |shelf, _| Ok(shelf.delete(name))).await
    }

    async fn get(&self, session: &SessionKey, name: &str) -> Result<Option<Variable>, VariableError> {
        self.read_with(session, |shelf| shelf.variables.get(name).cloned()).await
    }

    async fn list(&self, session: &SessionKey, prefix: &str) -> Result<Vec<(Arc<str>, Variable)>, VariableError> {
        self.read_with(session, |shelf| {
            let from = shelf.variables.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
            let those = from.take_while(|(name, _)| name.starts_with(prefix));
            those.map(|(name, variable)| (name.clone(), variable.clone())).collect()
        })
        .await
    }

    /// Waits for a change newer than `since` (default: now) to variables that match `names` (all if empty). Returns
    /// without changes after `patience`, or when cancelled.
    async fn watch(
        &self,
        session: &SessionKey,
        names: &[Glob],
        since: Option<u64>,
        patience: Duration,
        stop: &CancellationToken,
    ) -> Result<WatchUpdate, VariableError> {
        let room = self.cached_session(session);
        let mut bell = room.cursor_sender.subscribe();
        let over = tokio::time::sleep(patience);
        tokio::pin!(over);
        let mut since = since;
        loop {
            bell.borrow_and_update();
            let news = {
                let mut state = room.state.lock().await;
                let shelf = self.0.loaded(session, &room, &mut state).await?;
                let since = *since.get_or_insert(shelf.cursor);
                shelf.changes(names, since)
            };
            self.evict_idle();
            if news.reset || !news.changes.is_empty() {
                return Ok(news);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(news),
                // `room` keeps the sender alive, so this never fails.
                _ = bell.changed() => {}
                () = &mut over => return Ok(news),
            }
        }
    }

    async fn read_with<T>(
        &self,
        session: &SessionKey,
        look: impl FnOnce(&VariableSet) -> T,
    ) -> Result<T, VariableError> {
        let room = self.cached_session(session);
        let seen = {
            let mut state = room.state.lock().await;
            look(self.0.loaded(session, &room, &mut state).await?)
        };
        drop(room);
        self.evict_idle();
        Ok(seen)
    }

    async fn update<T>(
        &self,
        session: &SessionKey,
        change: impl FnOnce(&mut VariableSet, Timestamp) -> Result<T, String>,
    ) -> Result<T, VariableError> {
        let room = self.cached_session(session);
        let mut state = room.state.lock().await;
        let now = self.0.clock.now();
        let before = self.0.loaded(session, &room, &mut state).await?;
        let mut after = before.clone();
        let done = change(&mut after, now).map_err(VariableError::Rejected)?;
        if after.cursor != before.cursor {
            let mut writes = large_value_writes(session, before, &after, now);
            writes.push(put_write(
                session,
                STORAGE_KEY.into(),
                Some(record::encode_variable_set(&after, is_stored_separately)),
                now,
            ));
            self.0.commit(&room, &mut state, writes, after).await?;
        }
        drop(state);
        drop(room);
        self.evict_idle();
        Ok(done)
    }

    fn cached_session(&self, session: &SessionKey) -> Arc<CachedSession> {
        let mut rooms = self.0.sessions();
        let room = rooms.by_session.entry(session.clone()).or_insert_with(|| {
            let state = tokio::sync::Mutex::new(LoadState::NotLoaded);
            Arc::new(CachedSession {
                state,
                cursor_sender: watch::Sender::new(0),
                last_used: AtomicU64::new(0),
                held_bytes: AtomicUsize::new(0),
            })
        });
        room.last_used.store(self.0.tick.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        room.clone()
    }

    /// Unloads the least recently used sessions while a bound is exceeded.
    fn evict_idle(&self) {
        let mut rooms = self.0.sessions();
        let is_too_much = || self.0.held_bytes.load(Ordering::Relaxed) > MAX_HELD_BYTES;
        if rooms.by_session.len() <= rooms.evict_threshold && !is_too_much() {
            return;
        }
        let used = |room: &Arc<CachedSession>| room.last_used.load(Ordering::Relaxed);
        let mut by_use: Vec<(u64, SessionKey)> =
            rooms.by_session.iter().map(|(session, room)| (used(room), session.clone())).collect();
        by_use.sort_unstable();
        for (_, session) in by_use {
            if rooms.by_session.len() <= MAX_CACHED_SESSIONS / 4 * 3 && !is_too_much() {
                break;
            }
            let Some(room) = rooms.by_session.get(&session) else { continue };
            // A locked session is in use. Watchers keep theirs, but have to load the values again.
            if let Ok(mut state) = room.state.try_lock()
                && let LoadState::Loaded(_) = *state
            {
                *state = LoadState::NotLoaded;
                self.0.set_held_bytes(room, 0);
            }
            // References are handed out under this lock only, so a count of one cannot grow meanwhile. A session whose
            // last commit is in doubt stays until that is settled.
            let is_idle = Arc::strong_count(room) == 1;
            let is_settled = room.state.try_lock().is_ok_and(|state| matches!(*state, LoadState::NotLoaded));
            if is_idle && is_settled {
                rooms.by_session.remove(&session);
            }
        }
        // Sessions in use cannot be evicted; raising the threshold avoids a scan on every call.
        let left = rooms.by_session.len();
        rooms.evict_threshold = if left > MAX_CACHED_SESSIONS { left.saturating_mul(2) } else { MAX_CACHED_SESSIONS };
    }
}

impl VariableShared {
    fn sessions(&self) -> MutexGuard<'_, SessionCache> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn loaded<'a>(
        &self,
        session: &SessionKey,
        room: &CachedSession,
        state: &'a mut LoadState,
    ) -> Result<&'a VariableSet, StoreError> {
        if let LoadState::CommitInDoubt = state {
            // Commits are applied in order: once this one is, the one in doubt is too, or never will be.
            self.store.commit(WriteBatch { durability: Durability::Boundary, writes: Vec::new() }).await?;
        }
        if let LoadState::NotLoaded | LoadState::CommitInDoubt = state {
            let shelf = match self.load(session).await? {
                Some(shelf) => shelf,
                None => VariableSet::new(match *room.cursor_sender.borrow() {
                    0 => first_cursor(self.clock.now()),
                    given_out => given_out,
                }),
            };
            self.set_held_bytes(room, shelf.total_bytes());
            room.cursor_sender.send_if_modified(|cursor| {
                let is_news = *cursor != 0 && *cursor != shelf.cursor;
                *cursor = shelf.cursor;
                is_news
            });
            *state = LoadState::Loaded(shelf);
        }
        match state {
            LoadState::Loaded(shelf) => Ok(shelf),
            LoadState::NotLoaded | LoadState::CommitInDoubt => Err(StoreError::Closed),
        }
    }

    async fn load(&self, session: &SessionKey) -> Result<Option<VariableSet>, StoreError> {
        let corrupt =
            |error: record::RecordError| StoreError::Corrupt { what: "variables of a session", source: error.into() };
        let space = KvNamespace::Session(session.clone());
        let Some(bytes) = self.store.kv_get(&space, STORAGE_KEY).await? else { return Ok(None) };
        let (mut shelf, apart) = record::decode_variable_set(&bytes).map_err(corrupt)?;
        for name in apart {
            let value = self.store.kv_get(&space, &separate_key(&name)).await?;
            match (value, shelf.variables.get_mut(&name)) {
                (Some(bytes), Some(variable)) => {
                    variable.value = Arc::new(record::decode_value(&bytes).map_err(corrupt)?);
                    variable.bytes = bytes.len();
                }
                // Value and record are written in one commit, so this should not happen; the other variables are still
                // valid.
                (None, _) | (_, None) => drop(shelf.variables.remove(&name)),
            }
        }
        Ok(Some(shelf))
    }

    /// Commits, then publishes the new state. If the future is dropped half-way, `CommitInDoubt` remains.
    async fn commit(
        &self,
        room: &CachedSession,
        state: &mut LoadState,
        writes: Vec<StoreWrite>,
        after: VariableSet,
    ) -> Result<(), StoreError> {
        let before = std::mem::replace(state, LoadState::CommitInDoubt);
        if let Err(error) = self.store.commit(WriteBatch { durability: Durability::Boundary, writes }).await {
            *state = before;
            return Err(error);
        }
        self.set_held_bytes(room, after.total_bytes());
        let cursor = after.cursor;
        *state = LoadState::Loaded(after);
        room.cursor_sender.send_replace(cursor);
        Ok(())
    }

    /// The caller must hold the session's state lock.
    fn set_held_bytes(&self, room: &CachedSession, bytes: usize) {
        let before = room.held_bytes.swap(bytes, Ordering::Relaxed);
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.held_bytes.fetch_sub(before, Ordering::Relaxed);
    }
}

/// Writes of separately stored values that differ.
fn large_value_writes(
    session: &SessionKey,
    before: &VariableSet,
    after: &VariableSet,
    at: Timestamp,
) -> Vec<StoreWrite> {
    let apart = |shelf: &VariableSet, name: &Arc<str>| {
        shelf.variables.get(name).filter(|one| is_stored_separately(one)).cloned()
    };
    let mut names: Vec<&Arc<str>> = before.variables.keys().chain(after.variables.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut writes = Vec::new();
    for name in names {
        let value = match (apart(before, name), apart(after, name)) {
            (Some(before), Some(after)) if before.set_cursor == after.set_cursor => continue,
            (_, Some(after)) => Some(record::encode_value(&after.value)),
            (Some(_), None) => None,
            (None, None) => continue,
        };
        writes.push(put_write(session, separate_key(name).into(), value, at));
    }
    writes
}

fn is_stored_separately(variable: &Variable) -> bool {
    variable.bytes > MAX_INLINE
}

fn separate_key(name: &str) -> String {
    format!("variable/{name}")
}

fn put_write(session: &SessionKey, key: Arc<str>, value: Option<Vec<u8>>, at: Timestamp) -> StoreWrite {
    StoreWrite::PutValue { namespace: KvNamespace::Session(session.clone()), key, value, at }
}

/// The first cursor of a session: past those of earlier sessions of the same id.
fn first_cursor(now: Timestamp) -> u64 {
    u64::try_from(now.as_microsecond()).unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests;
