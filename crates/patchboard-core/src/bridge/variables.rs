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
use crate::store::{ExpectedVersion, KvNamespace, OrderKey, Store, StoreError, StoreWrite, WriteBatch};
use crate::tool::Glob;

mod tools;

pub(crate) use tools::VariableToolHost;

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
    /// With the version of the stored set: a change is refused if another process has changed the set meanwhile.
    Loaded(VariableSet, ExpectedVersion),
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
        let cache = Mutex::new(SessionCache { by_session: HashMap::new(), evict_threshold: MAX_CACHED_SESSIONS });
        Self(Arc::new(VariableShared {
            store,
            clock,
            sessions: cache,
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
        let cached = self.cached_session(session);
        let mut state = cached.state.lock().await;
        let now = self.0.clock.now();
        let before = match self.0.loaded(session, &cached, &mut state).await {
            Ok(set) => set.clone(),
            // Unreadable variables can still be deleted.
            Err(StoreError::Corrupt { .. }) => {
                VariableSet { cursor: *cached.cursor_sender.borrow(), ..VariableSet::new(0) }
            }
            Err(error) => return Err(error),
        };
        let is_stored =
            !before.variables.is_empty() || !before.deleted.is_empty() || !matches!(*state, LoadState::Loaded(..));
        let count = before.variables.len();
        if is_stored {
            let after = VariableSet::new(first_cursor(now).max(before.cursor.saturating_add(1)));
            let mut writes = large_value_writes(session, &before, &after, now);
            writes.push(put_write(session, STORAGE_KEY.into(), None, now));
            self.0.commit(&cached, &mut state, writes, after).await?;
        }
        drop(state);
        drop(cached);
        self.evict_idle();
        Ok(count)
    }

    async fn set(&self, session: &SessionKey, request: SetVariable) -> Result<ChangeOutcome, VariableError> {
        self.update(session, |set, at| set.set(request.clone(), at)).await
    }

    /// `None` if there is no such variable.
    async fn delete(&self, session: &SessionKey, name: &str) -> Result<Option<ChangeOutcome>, VariableError> {
        self.update(session, |set, _| Ok(set.delete(name))).await
    }

    async fn get(&self, session: &SessionKey, name: &str) -> Result<Option<Variable>, VariableError> {
        self.read_with(session, |set| set.variables.get(name).cloned()).await
    }

    async fn list(&self, session: &SessionKey, prefix: &str) -> Result<Vec<(Arc<str>, Variable)>, VariableError> {
        self.read_with(session, |set| {
            let from = set.variables.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
            let matching = from.take_while(|(name, _)| name.starts_with(prefix));
            matching.map(|(name, variable)| (name.clone(), variable.clone())).collect()
        })
        .await
    }

    /// Waits for a change newer than `since` (default: now) to variables that match `names` (all if empty). Returns
    /// without changes after `max_wait`, or when cancelled.
    async fn watch(
        &self,
        session: &SessionKey,
        names: &[Glob],
        since: Option<u64>,
        max_wait: Duration,
        stop: &CancellationToken,
    ) -> Result<WatchUpdate, VariableError> {
        let cached = self.cached_session(session);
        let mut cursor_changed = cached.cursor_sender.subscribe();
        let deadline = tokio::time::sleep(max_wait);
        tokio::pin!(deadline);
        let mut since = since;
        loop {
            cursor_changed.borrow_and_update();
            let update = {
                let mut state = cached.state.lock().await;
                let set = self.0.loaded(session, &cached, &mut state).await?;
                let since = *since.get_or_insert(set.cursor);
                set.changes(names, since)
            };
            self.evict_idle();
            if update.reset || !update.changes.is_empty() {
                return Ok(update);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(update),
                // `cached` keeps the sender alive, so this never fails.
                _ = cursor_changed.changed() => {}
                () = &mut deadline => return Ok(update),
            }
        }
    }

    async fn read_with<T>(
        &self,
        session: &SessionKey,
        read: impl FnOnce(&VariableSet) -> T,
    ) -> Result<T, VariableError> {
        let cached = self.cached_session(session);
        let result = {
            let mut state = cached.state.lock().await;
            read(self.0.loaded(session, &cached, &mut state).await?)
        };
        drop(cached);
        self.evict_idle();
        Ok(result)
    }

    async fn update<T>(
        &self,
        session: &SessionKey,
        change: impl Fn(&mut VariableSet, Timestamp) -> Result<T, String>,
    ) -> Result<T, VariableError> {
        let cached = self.cached_session(session);
        let mut state = cached.state.lock().await;
        let outcome = loop {
            let now = self.0.clock.now();
            let (before, version) = self.0.loaded_with_version(session, &cached, &mut state).await?;
            let mut after = before.clone();
            let outcome = change(&mut after, now).map_err(VariableError::Rejected)?;
            if after.cursor == before.cursor {
                break outcome;
            }
            let mut writes = large_value_writes(session, before, &after, now);
            let set = record::encode_variable_set(&after, is_stored_separately);
            // A cursor is never used again for the same session, so it serves as the version of the stored set.
            let put_set = put_write(session, STORAGE_KEY.into(), Some(set), now);
            writes.push(put_set.expecting(version).with_version(after.cursor));
            match self.0.commit(&cached, &mut state, writes, after).await {
                Ok(()) => break outcome,
                // Another process has changed the set: the change applies to what is there now.
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        };
        drop(state);
        drop(cached);
        self.evict_idle();
        Ok(outcome)
    }

    fn cached_session(&self, session: &SessionKey) -> Arc<CachedSession> {
        let mut cache = self.0.sessions();
        let cached = cache.by_session.entry(session.clone()).or_insert_with(|| {
            let state = tokio::sync::Mutex::new(LoadState::NotLoaded);
            Arc::new(CachedSession {
                state,
                cursor_sender: watch::Sender::new(0),
                last_used: AtomicU64::new(0),
                held_bytes: AtomicUsize::new(0),
            })
        });
        cached.last_used.store(self.0.tick.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        cached.clone()
    }

    /// Unloads the least recently used sessions while a bound is exceeded.
    fn evict_idle(&self) {
        let mut cache = self.0.sessions();
        let is_over_limit = || self.0.held_bytes.load(Ordering::Relaxed) > MAX_HELD_BYTES;
        if cache.by_session.len() <= cache.evict_threshold && !is_over_limit() {
            return;
        }
        let used = |cached: &Arc<CachedSession>| cached.last_used.load(Ordering::Relaxed);
        let mut by_use: Vec<(u64, SessionKey)> =
            cache.by_session.iter().map(|(session, cached)| (used(cached), session.clone())).collect();
        by_use.sort_unstable();
        for (_, session) in by_use {
            if cache.by_session.len() <= MAX_CACHED_SESSIONS / 4 * 3 && !is_over_limit() {
                break;
            }
            let Some(cached) = cache.by_session.get(&session) else { continue };
            // A locked session is in use. Watchers keep theirs, but have to load the values again.
            if let Ok(mut state) = cached.state.try_lock()
                && let LoadState::Loaded(..) = *state
            {
                *state = LoadState::NotLoaded;
                self.0.set_held_bytes(cached, 0);
            }
            // References are handed out under this lock only, so a count of one cannot grow meanwhile. A session whose
            // last commit is in doubt stays until that is settled.
            let is_idle = Arc::strong_count(cached) == 1;
            let is_settled = cached.state.try_lock().is_ok_and(|state| matches!(*state, LoadState::NotLoaded));
            if is_idle && is_settled {
                cache.by_session.remove(&session);
            }
        }
        // Sessions in use cannot be evicted; raising the threshold avoids a scan on every call.
        let remaining = cache.by_session.len();
        cache.evict_threshold =
            if remaining > MAX_CACHED_SESSIONS { remaining.saturating_mul(2) } else { MAX_CACHED_SESSIONS };
    }
}

impl VariableShared {
    fn sessions(&self) -> MutexGuard<'_, SessionCache> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn loaded<'a>(
        &self,
        session: &SessionKey,
        cached: &CachedSession,
        state: &'a mut LoadState,
    ) -> Result<&'a VariableSet, StoreError> {
        Ok(self.loaded_with_version(session, cached, state).await?.0)
    }

    async fn loaded_with_version<'a>(
        &self,
        session: &SessionKey,
        cached: &CachedSession,
        state: &'a mut LoadState,
    ) -> Result<(&'a VariableSet, ExpectedVersion), StoreError> {
        if let LoadState::CommitInDoubt = state {
            // Commits of one namespace are applied in order: once this one is, the one in doubt is too, or never will be.
            let key = OrderKey::Namespace(KvNamespace::Session(session.clone()));
            self.store.commit(WriteBatch { key, ..WriteBatch::boundary(Vec::new()) }).await?;
        }
        if let LoadState::NotLoaded | LoadState::CommitInDoubt = state {
            let stored = self.load(session).await?;
            let version = stored.as_ref().map_or(ExpectedVersion::Absent, |(_, version)| *version);
            let set = match stored {
                Some((set, _)) => set,
                None => VariableSet::new(match *cached.cursor_sender.borrow() {
                    0 => first_cursor(self.clock.now()),
                    issued => issued,
                }),
            };
            self.set_held_bytes(cached, set.total_bytes());
            cached.cursor_sender.send_if_modified(|cursor| {
                let is_changed = *cursor != 0 && *cursor != set.cursor;
                *cursor = set.cursor;
                is_changed
            });
            *state = LoadState::Loaded(set, version);
        }
        match state {
            LoadState::Loaded(set, version) => Ok((set, *version)),
            LoadState::NotLoaded | LoadState::CommitInDoubt => Err(StoreError::Closed),
        }
    }

    async fn load(&self, session: &SessionKey) -> Result<Option<(VariableSet, ExpectedVersion)>, StoreError> {
        let corrupt =
            |error: record::RecordError| StoreError::Corrupt { what: "variables of a session", source: error.into() };
        let namespace = KvNamespace::Session(session.clone());
        let Some(entry) = self.store.kv_entry(&namespace, STORAGE_KEY).await? else { return Ok(None) };
        let (mut set, separate_names) = record::decode_variable_set(&entry.value).map_err(corrupt)?;
        for name in separate_names {
            let value = self.store.kv_get(&namespace, &separate_key(&name)).await?;
            match (value, set.variables.get_mut(&name)) {
                (Some(bytes), Some(variable)) => {
                    variable.value = Arc::new(record::decode_value(&bytes).map_err(corrupt)?);
                    variable.bytes = bytes.len();
                }
                // Value and record are written in one commit, so this should not happen; the other variables are still
                // valid.
                (None, _) | (_, None) => drop(set.variables.remove(&name)),
            }
        }
        Ok(Some((set, ExpectedVersion::Exactly(entry.version))))
    }

    /// Commits, then publishes the new state. If the future is dropped half-way, `CommitInDoubt` remains.
    async fn commit(
        &self,
        cached: &CachedSession,
        state: &mut LoadState,
        writes: Vec<StoreWrite>,
        after: VariableSet,
    ) -> Result<(), StoreError> {
        let before = std::mem::replace(state, LoadState::CommitInDoubt);
        let is_deleted = after.variables.is_empty() && after.deleted.is_empty();
        if let Err(error) = self.store.commit(WriteBatch::boundary(writes)).await {
            // After a conflict the set is read again.
            *state = if matches!(error, StoreError::Conflict) { LoadState::NotLoaded } else { before };
            return Err(error);
        }
        self.set_held_bytes(cached, after.total_bytes());
        let cursor = after.cursor;
        let version = if is_deleted { ExpectedVersion::Absent } else { ExpectedVersion::Exactly(cursor) };
        *state = LoadState::Loaded(after, version);
        cached.cursor_sender.send_replace(cursor);
        Ok(())
    }

    /// The caller must hold the session's state lock.
    fn set_held_bytes(&self, cached: &CachedSession, bytes: usize) {
        let before = cached.held_bytes.swap(bytes, Ordering::Relaxed);
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
    let separate_value =
        |set: &VariableSet, name: &Arc<str>| set.variables.get(name).filter(|one| is_stored_separately(one)).cloned();
    let mut names: Vec<&Arc<str>> = before.variables.keys().chain(after.variables.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut writes = Vec::new();
    for name in names {
        let value = match (separate_value(before, name), separate_value(after, name)) {
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
    StoreWrite::put(KvNamespace::Session(session.clone()), key, value, at)
}

/// The first cursor of a session: past those of earlier sessions of the same id.
fn first_cursor(now: Timestamp) -> u64 {
    u64::try_from(now.as_microsecond()).unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests;
