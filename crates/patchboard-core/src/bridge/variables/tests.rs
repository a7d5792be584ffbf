//! Variables on a store: what is acknowledged, what survives, and which watchers are notified. Time is paused.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::faulty::FaultyStore;
use crate::scripted::ManualClock;

struct Fixture {
    store: Arc<FaultyStore>,
    clock: Arc<ManualClock>,
    variables: VariableStore,
}

impl Fixture {
    fn new() -> Self {
        Self::on(FaultyStore::new())
    }

    fn on(store: Arc<FaultyStore>) -> Self {
        let clock = Arc::new(ManualClock::default());
        Self { variables: VariableStore::new(store.clone(), clock.clone()), store, clock }
    }

    /// The next process.
    fn restarted(&self) -> Self {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        Self { variables: VariableStore::new(store.clone(), clock.clone()), store, clock }
    }

    async fn set(&self, name: &str, value: Value) -> Result<ChangeOutcome, VariableError> {
        self.variables.set(&session("s"), set_request(name, value)).await
    }

    async fn value(&self, name: &str) -> Option<Value> {
        let found = self.variables.get(&session("s"), name).await.unwrap();
        found.map(|variable| Value::clone(&variable.value))
    }

    async fn cursor(&self) -> u64 {
        self.poll(None).await.cursor
    }

    /// What a watcher gets without waiting.
    async fn poll(&self, since: Option<u64>) -> WatchUpdate {
        self.watch(&[], since, Duration::ZERO).await
    }

    async fn watch(&self, names: &[&str], since: Option<u64>, max_wait: Duration) -> WatchUpdate {
        let names: Vec<Glob> = names.iter().map(|&name| Glob::new(name)).collect();
        let stop = CancellationToken::new();
        self.variables.watch(&session("s"), &names, since, max_wait, &stop).await.unwrap()
    }

    async fn stored(&self, key: &str) -> Option<Vec<u8>> {
        self.store.kv_get(&KvNamespace::Session(session("s")), key).await.unwrap()
    }

    fn cached_sessions(&self) -> usize {
        self.variables.0.sessions().by_session.len()
    }

    fn held(&self) -> usize {
        self.variables.0.held_bytes.load(Ordering::Relaxed)
    }
}

fn session(id: &str) -> SessionKey {
    SessionKey::bridge(id)
}

fn set_request(name: &str, value: Value) -> SetVariable {
    SetVariable { name: name.into(), value: Arc::new(value), depends_on: None, if_version: None }
}

fn long(letter: &str) -> Value {
    Value::from(letter.repeat(MAX_INLINE + 1))
}

fn names(update: &WatchUpdate) -> Vec<&str> {
    update.changes.iter().map(|change| &*change.name).collect()
}

/// Polls the future until it blocks.
async fn poll_once<F: Future + Unpin>(future: &mut F) {
    let polled = std::future::poll_fn(|context| Poll::Ready(future.poll_unpin(context).is_pending()));
    assert!(polled.await, "it does not wait");
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn variables_survive_a_restart_with_everything_about_them() {
    let fixture = Fixture::new();
    fixture.set("short", json!({"n": 1})).await.unwrap();
    fixture.set("long", long("x")).await.unwrap();
    let needs = SetVariable { depends_on: Some(vec!["short".into()]), ..set_request("needs", json!(null)) };
    fixture.variables.set(&session("s"), needs).await.unwrap();
    fixture.set("gone", json!(1)).await.unwrap();
    let cursor = fixture.cursor().await;
    fixture.variables.delete(&session("s"), "gone").await.unwrap();
    fixture.set("short", json!({"n": 2})).await.unwrap();
    let before = fixture.variables.list(&session("s"), "").await.unwrap();
    let update = fixture.poll(Some(cursor)).await;
    let next = fixture.restarted();
    assert_eq!(next.variables.list(&session("s"), "").await.unwrap(), before);
    assert_eq!(next.poll(Some(cursor)).await, update);
    assert_eq!(names(&update), ["gone", "needs", "short"]);
    assert_eq!(next.set("short", json!(3)).await.unwrap().version, 3);
    assert_eq!(next.set("gone", json!(3)).await.unwrap().version, 2);
}

#[tokio::test]
async fn long_values_are_kept_apart_and_never_left_behind() {
    let fixture = Fixture::new();
    fixture.set("x", long("a")).await.unwrap();
    assert_eq!(fixture.stored("variable/x").await, Some(long("a").to_string().into_bytes()));
    let index = fixture.stored("variables").await.unwrap();
    assert!(index.len() < MAX_INLINE, "{} bytes", index.len());
    fixture.set("x", json!("short")).await.unwrap();
    assert_eq!(fixture.stored("variable/x").await, None);
    fixture.set("x", long("b")).await.unwrap();
    fixture.set("y", json!(1)).await.unwrap();
    let last = fixture.store.journal().pop().unwrap();
    assert_eq!(last.writes.len(), 1, "a change elsewhere does not write it again");
    assert_eq!(fixture.restarted().value("x").await, Some(long("b")));
    fixture.variables.delete(&session("s"), "x").await.unwrap();
    assert_eq!(fixture.stored("variable/x").await, None);
}

#[tokio::test]
async fn a_long_value_that_is_lost_takes_only_its_variable() {
    let fixture = Fixture::new();
    fixture.set("x", long("a")).await.unwrap();
    fixture.set("y", json!(1)).await.unwrap();
    let writes = vec![put_write(&session("s"), "variable/x".into(), None, Timestamp::UNIX_EPOCH)];
    fixture.store.commit(WriteBatch::boundary(writes)).await.unwrap();
    let next = fixture.restarted();
    assert_eq!((next.value("x").await, next.value("y").await), (None, Some(json!(1))));
}

#[tokio::test]
async fn a_failed_commit_changes_nothing() {
    let fixture = Fixture::new();
    fixture.set("x", json!(1)).await.unwrap();
    let cursor = fixture.cursor().await;
    fixture.store.fail(|_| true);
    assert!(matches!(fixture.set("x", json!(2)).await, Err(VariableError::Store(_))));
    assert_eq!(fixture.variables.delete_all(&session("s")).await, 0);
    assert_eq!(fixture.value("x").await, Some(json!(1)));
    assert_eq!(fixture.poll(Some(cursor)).await.changes, []);
    fixture.store.stop_failing();
    assert_eq!(fixture.set("x", json!(3)).await.unwrap().version, 2);
    assert_eq!(fixture.restarted().value("x").await, Some(json!(3)));
}

#[tokio::test]
async fn setters_of_one_session_come_one_after_the_other() {
    let fixture = Fixture::on(FaultyStore::slow(3));
    let sets = (0..50).map(|number| fixture.set("x", json!(number)));
    let mut versions: Vec<u64> = join_all(sets).await.into_iter().map(|done| done.unwrap().version).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=50).collect::<Vec<_>>());
    // Of several sets that expect the same version one succeeds.
    let sets = (0..20).map(|number| {
        let expected = SetVariable { if_version: Some(50), ..set_request("x", json!(number)) };
        async { fixture.variables.set(&session("s"), expected).await }
    });
    let won = join_all(sets).await.into_iter().filter(Result::is_ok).count();
    assert_eq!(won, 1);
    assert_eq!(fixture.variables.get(&session("s"), "x").await.unwrap().unwrap().version, 51);
}

#[tokio::test]
async fn nothing_is_acknowledged_or_seen_before_it_is_stored() {
    let fixture = Fixture::new();
    let gate = fixture.store.block_commits();
    let stop = CancellationToken::new();
    let here = session("s");
    let mut watching = Box::pin(fixture.variables.watch(&here, &[], None, MINUTE, &stop));
    poll_once(&mut watching).await;
    let mut set_future = Box::pin(fixture.set("x", json!(1)));
    poll_once(&mut set_future).await;
    poll_once(&mut watching).await;
    let mut getting = Box::pin(fixture.value("x"));
    poll_once(&mut getting).await;
    gate.add_permits(1);
    assert_eq!(set_future.await.unwrap().version, 1);
    assert_eq!(getting.await, Some(json!(1)));
    assert_eq!(names(&watching.await.unwrap()), ["x"]);
}

#[tokio::test]
async fn a_set_that_is_dropped_half_way_is_found_out_later() {
    // Whether or not the store accepts the commit, memory and store agree in the end.
    for is_taken in [true, false] {
        let fixture = Fixture::new();
        fixture.set("x", json!(1)).await.unwrap();
        let gate = fixture.store.block_commits();
        {
            let mut set_future = Box::pin(fixture.set("x", json!(2)));
            poll_once(&mut set_future).await;
            if is_taken {
                // The store accepted it, but the response was lost.
                let after = {
                    let (mut set, _) = fixture.variables.0.load(&session("s")).await.unwrap().unwrap();
                    set.set(set_request("x", json!(2)), Timestamp::UNIX_EPOCH).unwrap();
                    record::encode_variable_set(&set, is_stored_separately)
                };
                let write = put_write(&session("s"), STORAGE_KEY.into(), Some(after), Timestamp::UNIX_EPOCH);
                let batch = WriteBatch::boundary(vec![write]);
                fixture.store.inner.commit(batch).await.unwrap();
            }
        }
        let mut reading = Box::pin(fixture.value("x"));
        poll_once(&mut reading).await;
        gate.add_permits(100);
        let expected = if is_taken { json!(2) } else { json!(1) };
        assert_eq!(reading.await, Some(expected.clone()));
        assert_eq!(fixture.restarted().value("x").await, Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn watching_waits_for_what_matches() {
    let fixture = Fixture::new();
    let started = Instant::now();
    let (update, ()) = tokio::join!(fixture.watch(&["x*"], None, MINUTE), async {
        tokio::time::advance(Duration::from_secs(5)).await;
        fixture.set("y", json!(1)).await.unwrap();
        tokio::time::advance(Duration::from_secs(5)).await;
        fixture.set("x1", json!(1)).await.unwrap();
    });
    assert_eq!((names(&update), started.elapsed()), (vec!["x1"], Duration::from_secs(10)));
    // Earlier changes are not reported, and none is missed between two waits.
    fixture.set("x2", json!(1)).await.unwrap();
    let update = fixture.watch(&["x*"], Some(update.cursor), MINUTE).await;
    assert_eq!((names(&update), started.elapsed()), (vec!["x2"], Duration::from_secs(10)));
}

#[tokio::test(start_paused = true)]
async fn watching_ends_by_itself_or_when_stopped() {
    let fixture = Fixture::new();
    fixture.set("x", json!(1)).await.unwrap();
    let cursor = fixture.cursor().await;
    let started = Instant::now();
    let update = fixture.watch(&[], None, MINUTE).await;
    assert_eq!((update, started.elapsed()), (WatchUpdate { changes: vec![], cursor, reset: false }, MINUTE));
    let stop = CancellationToken::new();
    let here = session("s");
    let mut watching = pin!(fixture.variables.watch(&here, &[], Some(cursor), MINUTE, &stop));
    poll_once(&mut watching).await;
    stop.cancel();
    assert_eq!(watching.await.unwrap(), WatchUpdate { changes: vec![], cursor, reset: false });
    assert_eq!(started.elapsed(), MINUTE);
}

#[tokio::test(start_paused = true)]
async fn watching_an_empty_session_from_0_waits() {
    let fixture = Fixture::new();
    let (update, ()) = tokio::join!(fixture.watch(&[], Some(0), MINUTE), async {
        fixture.set("x", json!(1)).await.unwrap();
    });
    assert_eq!((names(&update), update.reset), (vec!["x"], false));
}

#[tokio::test(start_paused = true)]
async fn delete_all_removes_everything_and_notifies_watchers() {
    let fixture = Fixture::new();
    fixture.set("x", long("x")).await.unwrap();
    fixture.set("y", json!(1)).await.unwrap();
    let (update, count) =
        tokio::join!(fixture.watch(&[], None, MINUTE), async { fixture.variables.delete_all(&session("s")).await });
    assert_eq!((count, update.reset, names(&update)), (2, true, vec![]));
    assert_eq!((fixture.stored("variables").await, fixture.stored("variable/x").await), (None, None));
    assert_eq!(fixture.value("x").await, None);
    assert_eq!(fixture.variables.delete_all(&session("s")).await, 0);
    // A new session of that id starts anew, and cursors of the old one are not valid for it.
    assert_eq!(fixture.set("x", json!(2)).await.unwrap().version, 1);
    let stale_cursor = update.cursor - 1;
    assert!(fixture.poll(Some(stale_cursor)).await.reset);
    fixture.clock.advance_seconds(1_000);
    fixture.variables.delete_all(&session("s")).await;
    let next = fixture.restarted();
    next.set("x", json!(3)).await.unwrap();
    assert!(next.poll(Some(update.cursor + 1)).await.reset);
}

#[tokio::test]
async fn unreadable_variables_can_be_deleted() {
    let fixture = Fixture::new();
    let write = put_write(&session("s"), STORAGE_KEY.into(), Some(b"{".to_vec()), Timestamp::UNIX_EPOCH);
    let batch = WriteBatch::boundary(vec![write]);
    fixture.store.commit(batch).await.unwrap();
    assert!(matches!(fixture.set("x", json!(1)).await, Err(VariableError::Store(StoreError::Corrupt { .. }))));
    assert_eq!(fixture.variables.delete_all(&session("s")).await, 0);
    assert_eq!(fixture.stored("variables").await, None);
    assert_eq!(fixture.set("x", json!(1)).await.unwrap().version, 1);
}

#[tokio::test]
async fn a_purged_session_has_nothing_left() {
    let fixture = Fixture::new();
    fixture.set("x", json!(1)).await.unwrap();
    fixture.set("y", long("y")).await.unwrap();
    let purge = StoreWrite::ClearSession { session: session("s"), at: Timestamp::UNIX_EPOCH, purge: true };
    fixture.store.commit(WriteBatch::boundary(vec![purge])).await.unwrap();
    assert_eq!((fixture.stored("variables").await, fixture.stored("variable/y").await), (None, None));
    fixture.variables.delete_all(&session("s")).await;
    assert_eq!(fixture.value("x").await, None);
    fixture.set("z", json!(1)).await.unwrap();
    let listed = fixture.restarted().variables.list(&session("s"), "").await.unwrap();
    assert_eq!(listed.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn idle_sessions_are_evicted_and_watched_ones_still_get_updates() {
    let fixture = Fixture::new();
    fixture.set("x", json!(1)).await.unwrap();
    let stop = CancellationToken::new();
    let here = session("s");
    let mut watching = pin!(fixture.variables.watch(&here, &[], None, MINUTE, &stop));
    poll_once(&mut watching).await;
    for number in 0..MAX_CACHED_SESSIONS * 2 {
        fixture.variables.set(&session(&format!("s{number}")), set_request("x", json!(number))).await.unwrap();
        assert!(fixture.cached_sessions() <= MAX_CACHED_SESSIONS + 1, "{} rooms", fixture.cached_sessions());
    }
    assert!(fixture.cached_sessions() > MAX_CACHED_SESSIONS / 2, "{} rooms", fixture.cached_sessions());
    poll_once(&mut watching).await;
    fixture.set("x", json!(2)).await.unwrap();
    assert_eq!(names(&watching.await.unwrap()), ["x"]);
    // Loaded again, unchanged.
    let first = fixture.variables.get(&session("s0"), "x").await.unwrap().unwrap();
    assert_eq!(*first.value, json!(0));
}

#[tokio::test]
async fn bytes_in_memory_are_bounded() {
    let fixture = Fixture::new();
    let value = Value::from("x".repeat(crate::variable_set::MAX_VALUE - 2));
    for number in 0..MAX_HELD_BYTES / crate::variable_set::MAX_VALUE + 20 {
        fixture.variables.set(&session(&format!("s{number}")), set_request("x", value.clone())).await.unwrap();
        assert!(fixture.held() <= MAX_HELD_BYTES, "{} bytes", fixture.held());
    }
    assert!(fixture.held() > MAX_HELD_BYTES / 2);
    let first = fixture.variables.get(&session("s0"), "x").await.unwrap().unwrap();
    assert_eq!(*first.value, value);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_process_is_not_overwritten() {
    let fixture = Fixture::new();
    fixture.set("mine", json!(1)).await.unwrap();
    // The other process changes the set after this one has cached it.
    let other = VariableStore::new(fixture.store.clone(), Arc::new(ManualClock::default()));
    other.set(&session("s"), set_request("theirs", json!(2))).await.unwrap();
    fixture.set("mine", json!(3)).await.unwrap();
    assert_eq!(fixture.value("theirs").await, Some(json!(2)));
    assert_eq!(fixture.value("mine").await, Some(json!(3)));
    // And the other way round, after a deletion that the other one has not seen.
    fixture.variables.delete_all(&session("s")).await;
    other.set(&session("s"), set_request("again", json!(4))).await.unwrap();
    let fresh = VariableStore::new(fixture.store.clone(), Arc::new(ManualClock::default()));
    let names: Vec<_> = fresh.list(&session("s"), "").await.unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [Arc::from("again")], "what was deleted stays deleted");
}
