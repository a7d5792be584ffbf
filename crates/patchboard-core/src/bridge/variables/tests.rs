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

struct Bench {
    store: Arc<FaultyStore>,
    clock: Arc<ManualClock>,
    variables: VariableStore,
}

impl Bench {
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
        self.variables.set(&session("s"), wish(name, value)).await
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

    async fn watch(&self, names: &[&str], since: Option<u64>, patience: Duration) -> WatchUpdate {
        let names: Vec<Glob> = names.iter().map(|&name| Glob::new(name)).collect();
        let stop = CancellationToken::new();
        self.variables.watch(&session("s"), &names, since, patience, &stop).await.unwrap()
    }

    async fn kept(&self, key: &str) -> Option<Vec<u8>> {
        self.store.kv_get(&KvNamespace::Session(session("s")), key).await.unwrap()
    }

    fn rooms(&self) -> usize {
        self.variables.0.sessions().by_session.len()
    }

    fn held(&self) -> usize {
        self.variables.0.held_bytes.load(Ordering::Relaxed)
    }
}

fn session(id: &str) -> SessionKey {
    SessionKey::bridge(id)
}

fn wish(name: &str, value: Value) -> SetVariable {
    SetVariable { name: name.into(), value: Arc::new(value), depends_on: None, if_version: None }
}

fn long(letter: &str) -> Value {
    Value::from(letter.repeat(MAX_INLINE + 1))
}

fn names(news: &WatchUpdate) -> Vec<&str> {
    news.changes.iter().map(|change| &*change.name).collect()
}

/// Polls the future until it blocks.
async fn begin<F: Future + Unpin>(future: &mut F) {
    let polled = std::future::poll_fn(|context| Poll::Ready(future.poll_unpin(context).is_pending()));
    assert!(polled.await, "it does not wait");
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn variables_survive_a_restart_with_everything_about_them() {
    let bench = Bench::new();
    bench.set("short", json!({"n": 1})).await.unwrap();
    bench.set("long", long("x")).await.unwrap();
    let needs = SetVariable { depends_on: Some(vec!["short".into()]), ..wish("needs", json!(null)) };
    bench.variables.set(&session("s"), needs).await.unwrap();
    bench.set("gone", json!(1)).await.unwrap();
    let cursor = bench.cursor().await;
    bench.variables.delete(&session("s"), "gone").await.unwrap();
    bench.set("short", json!({"n": 2})).await.unwrap();
    let before = bench.variables.list(&session("s"), "").await.unwrap();
    let news = bench.poll(Some(cursor)).await;
    let next = bench.restarted();
    assert_eq!(next.variables.list(&session("s"), "").await.unwrap(), before);
    assert_eq!(next.poll(Some(cursor)).await, news);
    assert_eq!(names(&news), ["gone", "needs", "short"]);
    assert_eq!(next.set("short", json!(3)).await.unwrap().version, 3);
    assert_eq!(next.set("gone", json!(3)).await.unwrap().version, 2);
}

#[tokio::test]
async fn long_values_are_kept_apart_and_never_left_behind() {
    let bench = Bench::new();
    bench.set("x", long("a")).await.unwrap();
    assert_eq!(bench.kept("variable/x").await, Some(long("a").to_string().into_bytes()));
    let index = bench.kept("variables").await.unwrap();
    assert!(index.len() < MAX_INLINE, "{} bytes", index.len());
    bench.set("x", json!("short")).await.unwrap();
    assert_eq!(bench.kept("variable/x").await, None);
    bench.set("x", long("b")).await.unwrap();
    bench.set("y", json!(1)).await.unwrap();
    let last = bench.store.journal().pop().unwrap();
    assert_eq!(last.writes.len(), 1, "a change elsewhere does not write it again");
    assert_eq!(bench.restarted().value("x").await, Some(long("b")));
    bench.variables.delete(&session("s"), "x").await.unwrap();
    assert_eq!(bench.kept("variable/x").await, None);
}

#[tokio::test]
async fn a_long_value_that_is_lost_takes_only_its_variable() {
    let bench = Bench::new();
    bench.set("x", long("a")).await.unwrap();
    bench.set("y", json!(1)).await.unwrap();
    let writes = vec![put_write(&session("s"), "variable/x".into(), None, Timestamp::UNIX_EPOCH)];
    bench.store.commit(WriteBatch { durability: Durability::Boundary, writes }).await.unwrap();
    let next = bench.restarted();
    assert_eq!((next.value("x").await, next.value("y").await), (None, Some(json!(1))));
}

#[tokio::test]
async fn a_failed_commit_leaves_what_was() {
    let bench = Bench::new();
    bench.set("x", json!(1)).await.unwrap();
    let cursor = bench.cursor().await;
    bench.store.fail(|_| true);
    assert!(matches!(bench.set("x", json!(2)).await, Err(VariableError::Store(_))));
    assert_eq!(bench.variables.delete_all(&session("s")).await, 0);
    assert_eq!(bench.value("x").await, Some(json!(1)));
    assert_eq!(bench.poll(Some(cursor)).await.changes, []);
    bench.store.stop_failing();
    assert_eq!(bench.set("x", json!(3)).await.unwrap().version, 2);
    assert_eq!(bench.restarted().value("x").await, Some(json!(3)));
}

#[tokio::test]
async fn setters_of_one_session_come_one_after_the_other() {
    let bench = Bench::on(FaultyStore::slow(3));
    let sets = (0..50).map(|number| bench.set("x", json!(number)));
    let mut versions: Vec<u64> = join_all(sets).await.into_iter().map(|done| done.unwrap().version).collect();
    versions.sort_unstable();
    assert_eq!(versions, (1..=50).collect::<Vec<_>>());
    // Of several sets that expect the same version one succeeds.
    let sets = (0..20).map(|number| {
        let wanted = SetVariable { if_version: Some(50), ..wish("x", json!(number)) };
        async { bench.variables.set(&session("s"), wanted).await }
    });
    let won = join_all(sets).await.into_iter().filter(Result::is_ok).count();
    assert_eq!(won, 1);
    assert_eq!(bench.variables.get(&session("s"), "x").await.unwrap().unwrap().version, 51);
}

#[tokio::test]
async fn nothing_is_acknowledged_or_seen_before_it_is_stored() {
    let bench = Bench::new();
    let gate = bench.store.block_commits();
    let stop = CancellationToken::new();
    let here = session("s");
    let mut watching = Box::pin(bench.variables.watch(&here, &[], None, MINUTE, &stop));
    begin(&mut watching).await;
    let mut setting = Box::pin(bench.set("x", json!(1)));
    begin(&mut setting).await;
    begin(&mut watching).await;
    let mut getting = Box::pin(bench.value("x"));
    begin(&mut getting).await;
    gate.add_permits(1);
    assert_eq!(setting.await.unwrap().version, 1);
    assert_eq!(getting.await, Some(json!(1)));
    assert_eq!(names(&watching.await.unwrap()), ["x"]);
}

#[tokio::test]
async fn a_set_that_is_dropped_half_way_is_found_out_later() {
    // Whether or not the store accepts the commit, memory and store agree in the end.
    for is_taken in [true, false] {
        let bench = Bench::new();
        bench.set("x", json!(1)).await.unwrap();
        let gate = bench.store.block_commits();
        {
            let mut setting = Box::pin(bench.set("x", json!(2)));
            begin(&mut setting).await;
            if is_taken {
                // The store accepted it, but the response was lost.
                let after = {
                    let mut shelf = bench.variables.0.load(&session("s")).await.unwrap().unwrap();
                    shelf.set(wish("x", json!(2)), Timestamp::UNIX_EPOCH).unwrap();
                    record::encode_variable_set(&shelf, is_stored_separately)
                };
                let write = put_write(&session("s"), STORAGE_KEY.into(), Some(after), Timestamp::UNIX_EPOCH);
                let batch = WriteBatch { durability: Durability::Boundary, writes: vec![write] };
                bench.store.inner.commit(batch).await.unwrap();
            }
        }
        let mut reading = Box::pin(bench.value("x"));
        begin(&mut reading).await;
        gate.add_permits(100);
        let wanted = if is_taken { json!(2) } else { json!(1) };
        assert_eq!(reading.await, Some(wanted.clone()));
        assert_eq!(bench.restarted().value("x").await, Some(wanted));
    }
}

#[tokio::test(start_paused = true)]
async fn watching_waits_for_what_matches() {
    let bench = Bench::new();
    let started = Instant::now();
    let (news, ()) = tokio::join!(bench.watch(&["x*"], None, MINUTE), async {
        tokio::time::advance(Duration::from_secs(5)).await;
        bench.set("y", json!(1)).await.unwrap();
        tokio::time::advance(Duration::from_secs(5)).await;
        bench.set("x1", json!(1)).await.unwrap();
    });
    assert_eq!((names(&news), started.elapsed()), (vec!["x1"], Duration::from_secs(10)));
    // Earlier changes are not reported, and none is missed between two waits.
    bench.set("x2", json!(1)).await.unwrap();
    let news = bench.watch(&["x*"], Some(news.cursor), MINUTE).await;
    assert_eq!((names(&news), started.elapsed()), (vec!["x2"], Duration::from_secs(10)));
}

#[tokio::test(start_paused = true)]
async fn watching_ends_by_itself_or_when_stopped() {
    let bench = Bench::new();
    bench.set("x", json!(1)).await.unwrap();
    let cursor = bench.cursor().await;
    let started = Instant::now();
    let news = bench.watch(&[], None, MINUTE).await;
    assert_eq!((news, started.elapsed()), (WatchUpdate { changes: vec![], cursor, reset: false }, MINUTE));
    let stop = CancellationToken::new();
    let here = session("s");
    let mut watching = pin!(bench.variables.watch(&here, &[], Some(cursor), MINUTE, &stop));
    begin(&mut watching).await;
    stop.cancel();
    assert_eq!(watching.await.unwrap(), WatchUpdate { changes: vec![], cursor, reset: false });
    assert_eq!(started.elapsed(), MINUTE);
}

#[tokio::test(start_paused = true)]
async fn from_the_beginning_of_nothing_is_waited_too() {
    let bench = Bench::new();
    let (news, ()) = tokio::join!(bench.watch(&[], Some(0), MINUTE), async {
        bench.set("x", json!(1)).await.unwrap();
    });
    assert_eq!((names(&news), news.reset), (vec!["x"], false));
}

#[tokio::test(start_paused = true)]
async fn forgetting_deletes_everything_and_tells_watchers() {
    let bench = Bench::new();
    bench.set("x", long("x")).await.unwrap();
    bench.set("y", json!(1)).await.unwrap();
    let (news, count) =
        tokio::join!(bench.watch(&[], None, MINUTE), async { bench.variables.delete_all(&session("s")).await });
    assert_eq!((count, news.reset, names(&news)), (2, true, vec![]));
    assert_eq!((bench.kept("variables").await, bench.kept("variable/x").await), (None, None));
    assert_eq!(bench.value("x").await, None);
    assert_eq!(bench.variables.delete_all(&session("s")).await, 0);
    // A new session of that id starts anew, and cursors of the old one are not valid for it.
    assert_eq!(bench.set("x", json!(2)).await.unwrap().version, 1);
    let stale_cursor = news.cursor - 1;
    assert!(bench.poll(Some(stale_cursor)).await.reset);
    bench.clock.advance_seconds(1_000);
    bench.variables.delete_all(&session("s")).await;
    let next = bench.restarted();
    next.set("x", json!(3)).await.unwrap();
    assert!(next.poll(Some(news.cursor + 1)).await.reset);
}

#[tokio::test]
async fn what_cannot_be_read_can_be_forgotten() {
    let bench = Bench::new();
    let write = put_write(&session("s"), STORAGE_KEY.into(), Some(b"{".to_vec()), Timestamp::UNIX_EPOCH);
    let batch = WriteBatch { durability: Durability::Boundary, writes: vec![write] };
    bench.store.commit(batch).await.unwrap();
    assert!(matches!(bench.set("x", json!(1)).await, Err(VariableError::Store(StoreError::Corrupt { .. }))));
    assert_eq!(bench.variables.delete_all(&session("s")).await, 0);
    assert_eq!(bench.kept("variables").await, None);
    assert_eq!(bench.set("x", json!(1)).await.unwrap().version, 1);
}

#[tokio::test]
async fn a_purged_session_has_nothing_left() {
    let bench = Bench::new();
    bench.set("x", json!(1)).await.unwrap();
    bench.set("y", long("y")).await.unwrap();
    let purge = StoreWrite::ClearSession { session: session("s"), at: Timestamp::UNIX_EPOCH, purge: true };
    bench.store.commit(WriteBatch { durability: Durability::Boundary, writes: vec![purge] }).await.unwrap();
    assert_eq!((bench.kept("variables").await, bench.kept("variable/y").await), (None, None));
    bench.variables.delete_all(&session("s")).await;
    assert_eq!(bench.value("x").await, None);
    bench.set("z", json!(1)).await.unwrap();
    let listed = bench.restarted().variables.list(&session("s"), "").await.unwrap();
    assert_eq!(listed.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn idle_sessions_are_let_go_and_watched_ones_still_hear() {
    let bench = Bench::new();
    bench.set("x", json!(1)).await.unwrap();
    let stop = CancellationToken::new();
    let here = session("s");
    let mut watching = pin!(bench.variables.watch(&here, &[], None, MINUTE, &stop));
    begin(&mut watching).await;
    for number in 0..MAX_CACHED_SESSIONS * 2 {
        bench.variables.set(&session(&format!("s{number}")), wish("x", json!(number))).await.unwrap();
        assert!(bench.rooms() <= MAX_CACHED_SESSIONS + 1, "{} rooms", bench.rooms());
    }
    assert!(bench.rooms() > MAX_CACHED_SESSIONS / 2, "{} rooms", bench.rooms());
    begin(&mut watching).await;
    bench.set("x", json!(2)).await.unwrap();
    assert_eq!(names(&watching.await.unwrap()), ["x"]);
    // Loaded again, unchanged.
    let first = bench.variables.get(&session("s0"), "x").await.unwrap().unwrap();
    assert_eq!(*first.value, json!(0));
}

#[tokio::test]
async fn bytes_in_memory_are_bounded() {
    let bench = Bench::new();
    let value = Value::from("x".repeat(crate::variable_set::MAX_VALUE - 2));
    for number in 0..MAX_HELD_BYTES / crate::variable_set::MAX_VALUE + 20 {
        bench.variables.set(&session(&format!("s{number}")), wish("x", value.clone())).await.unwrap();
        assert!(bench.held() <= MAX_HELD_BYTES, "{} bytes", bench.held());
    }
    assert!(bench.held() > MAX_HELD_BYTES / 2);
    let first = bench.variables.get(&session("s0"), "x").await.unwrap().unwrap();
    assert_eq!(*first.value, value);
}
