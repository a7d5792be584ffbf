//! What happens to rows when the store fails or stalls.

use super::*;
use crate::faulty::FaultyStore;

fn row(number: usize) -> AuditRow {
    AuditRow {
        at: jiff::Timestamp::UNIX_EPOCH,
        principal: "local".into(),
        surface: "bridge".into(),
        action: "tool.call".into(),
        subject: number.to_string().into(),
        run: None,
        detail: "ok".into(),
    }
}

fn written(store: &FaultyStore) -> Vec<usize> {
    let batches = store.journal();
    let rows = batches.iter().flat_map(|batch| &batch.writes).map(|write| {
        let StoreWrite::Audit(row) = write else { panic!("not a row: {write:?}") };
        row.subject.parse().unwrap()
    });
    rows.collect()
}

fn trail(store: &Arc<FaultyStore>) -> (AuditTrail, TaskTracker) {
    let tracker = TaskTracker::new();
    tracker.close();
    (AuditTrail::new(store.clone(), tracker.clone()), tracker)
}

#[tokio::test(start_paused = true)]
async fn rows_are_written_in_order_and_the_task_tracker_waits_for_them() {
    let store = FaultyStore::slow(3);
    let (trail, tracker) = trail(&store);
    for number in 0..3 * MAX_BATCH_ROWS {
        trail.add(row(number)).await;
    }
    tracker.wait().await;
    assert_eq!(written(&store), (0..3 * MAX_BATCH_ROWS).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_makes_callers_wait_and_loses_nothing() {
    let store = FaultyStore::new();
    let gate = store.block_commits();
    let (trail, tracker) = trail(&store);
    let total = MAX_PENDING_ROWS + MAX_BATCH_ROWS + 1;
    let adding = async {
        for number in 0..total {
            trail.add(row(number)).await;
        }
    };
    tokio::pin!(adding);
    let waited = tokio::time::timeout(Duration::from_secs(3600), &mut adding).await;
    assert!(waited.is_err(), "there is no room for the last one");
    assert_eq!(trail.pending().rows.len(), MAX_PENDING_ROWS);
    gate.add_permits(total);
    adding.await;
    tracker.wait().await;
    assert_eq!(written(&store), (0..total).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_moment_loses_nothing() {
    let store = FaultyStore::new();
    let (trail, tracker) = trail(&store);
    store.fail(|_| true);
    trail.add(row(0)).await;
    trail.add(row(1)).await;
    tokio::time::sleep(RETRY_PAUSES.delay(0) + RETRY_PAUSES.delay(1)).await;
    store.stop_failing();
    tracker.wait().await;
    assert_eq!(written(&store), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_good_does_not_stop_what_comes_later() {
    let store = FaultyStore::new();
    let (trail, tracker) = trail(&store);
    store.fail(|_| true);
    trail.add(row(0)).await;
    tracker.wait().await;
    store.stop_failing();
    trail.add(row(1)).await;
    tracker.wait().await;
    assert_eq!(written(&store), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_does_not_stop_what_comes_later() {
    let store = FaultyStore::new();
    let (trail, tracker) = trail(&store);
    store.fail(|_| panic!("a store that panics"));
    trail.add(row(0)).await;
    tracker.wait().await;
    store.stop_failing();
    trail.add(row(1)).await;
    tracker.wait().await;
    assert_eq!(written(&store), [1]);
}
