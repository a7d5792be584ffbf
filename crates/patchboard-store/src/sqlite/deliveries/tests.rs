use std::path::PathBuf;

use patchboard_core::store::{RetentionCutoffs, Store, StoreError, StoreWrite, WriteBatch};

use super::*;
use crate::sqlite::{SqliteOptions, SqliteStore, schema};

fn in_folder(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

fn row(number: usize, state: DeliveryState) -> DeliveryRow {
    let at = Timestamp::from_second(i64::try_from(number).unwrap()).unwrap();
    DeliveryRow {
        id: DeliveryId(Uuid::from_u128(number as u128)),
        channel: "telegram".into(),
        key: number.to_string().into(),
        state,
        received_at: at,
        changed_at: at,
        body: b"open sesame".to_vec(),
    }
}

fn batch(writes: Vec<StoreWrite>) -> WriteBatch {
    WriteBatch::boundary(writes)
}

/// None of them looks at more rows than are wanted, however many are on record.
#[test]
fn deliveries_are_found_through_an_index() {
    let (_folder, path) = in_folder("plan.db");
    let db = schema::open_for_writing(&path).unwrap();
    let check = |sql: &str, expected: &str| {
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let plan = explain.raw_query().mapped(|row| row.get::<_, String>(3)).collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(plan, [expected], "{sql}");
    };
    check(FIND, "SEARCH deliveries USING INDEX sqlite_autoindex_deliveries_2 (channel=? AND key=?)");
    check(OPEN, "SCAN deliveries USING INDEX deliveries_open");
    check(FINISHED, "SEARCH deliveries USING INDEX deliveries_by_end (changed_at<?)");
}

/// Stored by every program so far, and queries tell by them what is final.
#[test]
fn codes_of_states_stay_as_they_are() {
    assert_eq!(DeliveryState::ALL.map(state_code), [0, 1, 2, 3]);
    for expected in DeliveryState::ALL {
        assert_eq!(state(state_code(expected)).unwrap(), expected);
        assert_eq!(state_code(expected) >= 2, expected.is_final(), "{expected:?}");
    }
}

#[tokio::test]
async fn a_state_of_a_newer_program_is_not_guessed_at() {
    let (_folder, path) = in_folder("strange.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
    store.commit(batch(vec![StoreWrite::Delivery(row(1, DeliveryState::Received))])).await.unwrap();
    schema::open_for_writing(&path).unwrap().execute("UPDATE deliveries SET state = 77", []).unwrap();
    let error = store.delivery("telegram", "1").await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { what: "delivery state", .. }), "{error:?}");
}

#[tokio::test]
async fn one_call_of_prune_does_a_bounded_amount_of_work() {
    let (_folder, path) = in_folder("many.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
    let rows = (1..=2 * PRUNE_DELIVERIES).map(|number| StoreWrite::Delivery(row(number, DeliveryState::Failed)));
    store.commit(batch(rows.collect())).await.unwrap();
    let before = Timestamp::from_second(1_000_000).unwrap();
    let retention = RetentionCutoffs { runs_before: before, events_before: before };
    assert!(store.prune(retention).await.unwrap());
    let is_there = async |number: usize| store.delivery("telegram", &number.to_string()).await.unwrap().is_some();
    assert!(!is_there(PRUNE_DELIVERIES).await, "oldest first");
    assert!(is_there(PRUNE_DELIVERIES + 1).await);
    assert!(!store.prune(retention).await.unwrap(), "just as many as one call deletes were left");
    assert!(!is_there(2 * PRUNE_DELIVERIES).await);
}

#[tokio::test]
async fn what_was_said_is_overwritten_when_it_is_over() {
    let (_folder, path) = in_folder("over.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
    for (number, repeated) in [(1, 1), (2, 3000)] {
        let received = DeliveryRow { body: b"open sesame".repeat(repeated), ..row(number, DeliveryState::Received) };
        // Larger than before, or smaller: what it was leaves its place.
        let answered =
            |size| DeliveryRow { state: DeliveryState::Answered, body: vec![b'.'; size], ..received.clone() };
        let sent = DeliveryRow { state: DeliveryState::Sent, body: Vec::new(), ..received.clone() };
        for row in [received.clone(), answered(2000), answered(10), sent] {
            store.commit(batch(vec![StoreWrite::Delivery(row)])).await.unwrap();
        }
    }
    store.close().await.unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"sesame"), "the text is still in the file");
}
