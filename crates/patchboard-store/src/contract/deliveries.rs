//! Channel deliveries: none is accepted twice, none is deleted before it is final.

use std::sync::Arc;

use patchboard_core::store::{
    DeliveryQuery, DeliveryRow, EarlierDelivery, PageCursor, RetentionCutoffs, Store, StoreError, StoreWrite,
    TakenDelivery,
};
use patchboard_core::webhook::{DeliveryId, DeliveryState};

use super::fixtures::{all_pages, at, close_run, commit, commit_refused, event, expect_ok, run, run_id, session, text};

pub async fn deliveries_are_stored_once(store: Arc<dyn Store>) {
    let find = async |channel: &str, key: &str| expect_ok(store.delivery(channel, key).await);
    assert_eq!(find("telegram", "7").await, None);
    let first = delivery(1, "telegram", "7", DeliveryState::Received, 10);
    commit(&*store, vec![StoreWrite::Delivery(first.clone())]).await;
    assert_eq!(find("telegram", "7").await, Some(first.clone()));

    let again = delivery(2, "telegram", "7", DeliveryState::Received, 11);
    commit_refused(&*store, vec![StoreWrite::Delivery(again.clone())]).await;
    let besides = StoreWrite::Delivery(delivery(3, "telegram", "8", DeliveryState::Received, 11));
    commit_refused(&*store, vec![besides.clone(), StoreWrite::Delivery(again)]).await;
    assert_eq!(find("telegram", "8").await, None, "a refused batch takes nothing");
    let twice =
        [4, 5].map(|number| StoreWrite::Delivery(delivery(number, "telegram", "9", DeliveryState::Received, 11)));
    commit_refused(&*store, twice.to_vec()).await;
    assert_eq!(find("telegram", "9").await, None);
    assert_eq!(find("telegram", "7").await, Some(first.clone()), "the first one stays as it was");

    // Keys are compared exactly and are separate for every channel.
    let others = [("slack", "7"), ("telegram", "7 "), ("telegram", ""), ("Telegram", "7"), ("telegram", "七\0'")];
    for (number, (channel, key)) in (10..).zip(others) {
        assert_eq!(find(channel, key).await, None, "{channel} {key:?}");
        commit(&*store, vec![StoreWrite::Delivery(delivery(number, channel, key, DeliveryState::Received, 12))]).await;
    }
    for (number, (channel, key)) in (10..).zip(others) {
        let expected = delivery(number, channel, key, DeliveryState::Received, 12);
        assert_eq!(find(channel, key).await, Some(expected), "{channel} {key:?}");
    }

    // A later row changes `state`, `changed_at` and `body`; the other columns stay.
    let answered = DeliveryRow {
        state: DeliveryState::Answered,
        changed_at: at(20),
        body: (0..=255).cycle().take(300_000).collect(),
        ..first
    };
    commit(&*store, vec![StoreWrite::Delivery(DeliveryRow { received_at: at(-50), ..answered.clone() })]).await;
    assert_eq!(find("telegram", "7").await, Some(answered.clone()));
    let sent = DeliveryRow { state: DeliveryState::Sent, changed_at: at(21), body: Vec::new(), ..answered };
    commit(&*store, vec![StoreWrite::Delivery(sent.clone())]).await;
    assert_eq!(find("telegram", "7").await, Some(sent), "what is over is still known");
    commit_refused(&*store, vec![StoreWrite::Delivery(delivery(6, "telegram", "7", DeliveryState::Received, 30))])
        .await;

    let refused = vec![
        StoreWrite::Delivery(delivery(7, "telegram", "10", DeliveryState::Received, 30)),
        StoreWrite::Event(event(1, 9, text(&["does not follow"]))),
    ];
    commit_refused(&*store, refused).await;
    assert_eq!(find("telegram", "10").await, None);
}

pub async fn deliveries_are_listed(store: Arc<dyn Store>) {
    let rows = [
        delivery(1, "telegram", "1", DeliveryState::Sent, 10),
        delivery(2, "slack", "2", DeliveryState::Failed, 11),
        delivery(3, "telegram", "3", DeliveryState::Failed, 12),
        delivery(4, "telegram", "4", DeliveryState::Received, 13),
    ];
    for row in &rows {
        commit(&*store, vec![StoreWrite::Delivery(row.clone())]).await;
    }
    let cases: [(Option<&str>, Option<DeliveryState>, &[usize]); 5] = [
        (None, None, &[3, 2, 1, 0]),
        (Some("telegram"), None, &[3, 2, 0]),
        (None, Some(DeliveryState::Failed), &[2, 1]),
        (Some("slack"), Some(DeliveryState::Failed), &[1]),
        (Some("matrix"), None, &[]),
    ];
    for (channel, state, expected) in cases {
        let expected: Vec<_> = expected.iter().map(|index| rows[*index].clone()).collect();
        let query = DeliveryQuery { channel: channel.map(Into::into), state, limit: 100, cursor: None };
        let whole = expect_ok(store.deliveries(query.clone()).await);
        assert_eq!((whole.items, whole.next), (expected.clone(), None), "{query:?}");
        let pages = all_pages(
            async |cursor| store.deliveries(DeliveryQuery { limit: 1, cursor, ..query.clone() }).await,
            async || {},
        );
        assert_eq!(pages.await.concat(), expected, "pages of {query:?}");
    }
    let bad = DeliveryQuery { limit: 1, cursor: Some(PageCursor("x".to_owned())), ..DeliveryQuery::default() };
    assert!(matches!(store.deliveries(bad).await, Err(StoreError::BadCursor)));
}

pub async fn open_deliveries_are_listed(store: Arc<dyn Store>) {
    assert_eq!(expect_ok(store.open_deliveries().await), []);
    let rows = [
        delivery(3, "telegram", "1", DeliveryState::Answered, 10),
        delivery(1, "telegram", "2", DeliveryState::Sent, 15),
        // Received at the same time: the higher id is newer, whatever the write order.
        delivery(2, "slack", "3", DeliveryState::Received, 20),
        delivery(4, "telegram", "4", DeliveryState::Received, 20),
        delivery(5, "telegram", "5", DeliveryState::Failed, 25),
        delivery(6, "slack", "6", DeliveryState::Answered, 40),
    ];
    for row in rows.iter().rev() {
        commit(&*store, vec![StoreWrite::Delivery(row.clone())]).await;
    }
    let open = [&rows[0], &rows[2], &rows[3], &rows[5]].map(Clone::clone);
    assert_eq!(expect_ok(store.open_deliveries().await), open, "oldest first");
    let answered = DeliveryRow { state: DeliveryState::Answered, changed_at: at(50), ..rows[2].clone() };
    let failed = DeliveryRow { state: DeliveryState::Failed, changed_at: at(51), ..rows[3].clone() };
    commit(&*store, vec![StoreWrite::Delivery(answered.clone()), StoreWrite::Delivery(failed)]).await;
    assert_eq!(expect_ok(store.open_deliveries().await), [rows[0].clone(), answered, rows[5].clone()]);
}

pub async fn final_deliveries_are_pruned(store: Arc<dyn Store>) {
    let find = async |number: u64| expect_ok(store.delivery("telegram", &number.to_string()).await);
    for (number, state) in (1..).zip(DeliveryState::ALL) {
        let row = DeliveryRow { changed_at: at(20), ..delivery(number, "telegram", &number.to_string(), state, 1) };
        commit(&*store, vec![StoreWrite::Delivery(row)]).await;
    }
    assert!(!expect_ok(store.prune(RetentionCutoffs { runs_before: at(20), events_before: at(100) }).await));
    for number in 1..=4 {
        assert!(find(number).await.is_some(), "changed at that very moment, however old: {number}");
    }
    assert!(!expect_ok(store.prune(before(21)).await));
    for (number, state) in (1..).zip(DeliveryState::ALL) {
        assert_eq!(find(number).await.is_none(), state.is_final(), "{state:?}");
    }

    // More than one `prune` call handles, and a run.
    let many = |number: u64| delivery(number, "telegram", &number.to_string(), DeliveryState::Sent, 30);
    commit(&*store, (100..1700).map(|number| StoreWrite::Delivery(many(number))).collect()).await;
    commit(&*store, vec![StoreWrite::OpenRun(run(1, &session("beside"))), close_run(1, 30)]).await;
    let mut calls = 1;
    while expect_ok(store.prune(before(31)).await) {
        calls += 1;
        assert!(calls < 100, "pruning does not end");
    }
    for number in [100, 600, 1100, 1699] {
        assert_eq!(find(number).await, None);
    }
    assert_eq!(expect_ok(store.run(run_id(1)).await), None);
    assert_eq!(expect_ok(store.open_deliveries().await).len(), 2);
    // A pruned key can be used again.
    let again = delivery(2000, "telegram", "100", DeliveryState::Received, 40);
    commit(&*store, vec![StoreWrite::Delivery(again.clone())]).await;
    assert_eq!(find(100).await, Some(again));
}

fn before(second: i64) -> RetentionCutoffs {
    RetentionCutoffs { runs_before: at(second), events_before: at(second) }
}

fn delivery(number: u64, channel: &str, key: &str, state: DeliveryState, second: i64) -> DeliveryRow {
    DeliveryRow {
        id: DeliveryId(run_id(number).0),
        channel: channel.into(),
        key: key.into(),
        state,
        received_at: at(second),
        changed_at: at(second),
        body: format!("hello {number}").into_bytes(),
    }
}

pub async fn deliveries_are_taken_once(store: Arc<dyn Store>) {
    let row = |number, key, second| delivery(number, "telegram", key, DeliveryState::Received, second);
    let take = async |row: DeliveryRow, keys: &[&str], not_before| {
        let keys = keys.iter().map(|key| Arc::from(*key)).collect();
        expect_ok(store.take_delivery(row, EarlierDelivery { keys, not_before }).await)
    };
    let first = row(1, "slot-2", 10);
    assert_eq!(take(first.clone(), &["slot-1"], Some(at(5))).await, TakenDelivery::Stored);
    let earlier = || TakenDelivery::Earlier(first.clone());
    assert_eq!(take(row(2, "slot-2", 11), &[], None).await, earlier(), "its own key");
    assert_eq!(take(row(3, "slot-3", 12), &["slot-2"], Some(at(9))).await, earlier(), "a recent one of another key");
    assert_eq!(expect_ok(store.delivery("telegram", "slot-3").await), None, "nothing is stored then");
    assert_eq!(take(row(4, "slot-3", 30), &["slot-2"], Some(at(10))).await, TakenDelivery::Stored, "too long ago");
    let elsewhere = delivery(5, "slack", "slot-2", DeliveryState::Received, 31);
    assert_eq!(take(elsewhere, &["slot-3"], None).await, TakenDelivery::Stored, "another channel");
    // Of several at once, one is stored: the calls are made before the first is waited for.
    let take = |number| store.take_delivery(row(number, "crowd", 40), EarlierDelivery::default());
    let [first, second, third] = [take(10), take(11), take(12)];
    let taken = [expect_ok(first.await), expect_ok(second.await), expect_ok(third.await)];
    assert_eq!(taken.iter().filter(|taken| **taken == TakenDelivery::Stored).count(), 1);
}

pub async fn deliveries_without_an_owner_are_adopted(store: Arc<dyn Store>) {
    let rows: Vec<_> =
        (1..=3).map(|number| delivery(number, "telegram", &number.to_string(), DeliveryState::Received, 10)).collect();
    commit(&*store, rows.iter().cloned().map(StoreWrite::Delivery).collect()).await;
    let adopt = async |held: &[DeliveryRow], limit| {
        expect_ok(store.adopt_deliveries(held.iter().map(|row| row.id).collect(), limit).await)
    };
    assert_eq!(adopt(&rows[..1], 10).await, rows[1..], "what this process works on is left alone");
    assert_eq!(adopt(&[], 2).await, rows[..2], "oldest first");
    let sent = DeliveryRow { state: DeliveryState::Sent, changed_at: at(11), ..rows[0].clone() };
    commit(&*store, vec![StoreWrite::Delivery(sent)]).await;
    assert_eq!(adopt(&[], 10).await, rows[1..]);
}
