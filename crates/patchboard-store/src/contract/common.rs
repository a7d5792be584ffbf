//! Checks that apply to the whole port.

use std::sync::Arc;

use patchboard_core::app::message::MessageState;
use patchboard_core::id::Seq;
use patchboard_core::store::{
    Durability, FactQuery, KvNamespace, MessageQuery, PageCursor, RetentionCutoffs, RunFilter, RunQuery, SessionFilter,
    Store, StoreError, StoreWrite, TurnQuery, UsageGrouping, UsageQuery, WriteBatch,
};

use super::fixtures::{
    at, close_run, commit, event, expect_ok, fact, message, owner, run, run_id, session, text, topic, turn,
};

/// Cursors come from clients, so invalid ones must be refused.
pub async fn bad_cursors_are_refused(store: Arc<dyn Store>) {
    let key = session("cursor");
    commit(
        &*store,
        vec![StoreWrite::OpenRun(run(1, &key)), StoreWrite::LearnFact(fact(&owner("alice"), "likes", "tea"))],
    )
    .await;
    for bad in ["", "x", "1.x", "-", "1.2.3.4.5.6", "99999999999999999999999999", "' OR 1 = 1", "٣"] {
        let cursor = Some(PageCursor(bad.to_owned()));
        let answers = [
            store.sessions(SessionFilter::default(), 1, cursor.clone()).await.err(),
            store.turns(TurnQuery { session: key.clone(), limit: 1, before: cursor.clone() }).await.err(),
            store.facts(facts(1, cursor.clone())).await.err(),
            store.usage(usage(1, cursor.clone())).await.err(),
            store.messages(messages(1, cursor.clone())).await.err(),
            store.runs(runs(1, cursor.clone())).await.err(),
            store.audit(1, cursor).await.err(),
        ];
        for (index, answer) in answers.iter().enumerate() {
            assert!(matches!(answer, Some(StoreError::BadCursor)), "list {index}, cursor {bad:?}: {answer:?}");
        }
    }
}

pub async fn limits_are_capped(store: Arc<dyn Store>) {
    let key = session("limits");
    commit(
        &*store,
        vec![
            StoreWrite::OpenRun(run(1, &key)),
            StoreWrite::AddTurn(turn(1, &key)),
            StoreWrite::Event(event(1, 1, text(&["a"]))),
            StoreWrite::LearnFact(fact(&owner("alice"), "likes", "tea")),
            StoreWrite::Message(message(1, MessageState::Queued, 1)),
        ],
    )
    .await;
    for (limit, expected) in [(0, 0), (1, 1), (usize::MAX, 1)] {
        let turns = TurnQuery { session: key.clone(), limit, before: None };
        assert_eq!(expect_ok(store.events(&topic(1), Seq::FIRST, limit).await).len(), expected);
        assert_eq!(expect_ok(store.sessions(SessionFilter::default(), limit, None).await).items.len(), expected);
        assert_eq!(expect_ok(store.turns(turns).await).items.len(), expected);
        assert_eq!(expect_ok(store.facts(facts(limit, None)).await).items.len(), expected);
        assert_eq!(expect_ok(store.messages(messages(limit, None)).await).items.len(), expected);
        assert_eq!(expect_ok(store.runs(runs(limit, None)).await).items.len(), expected);
        assert_eq!(expect_ok(store.usage(usage(limit, None)).await).items.len(), 0);
        assert_eq!(expect_ok(store.audit(limit, None).await).items.len(), 0);
    }
}

/// Concurrent callers of both durabilities: each keeps its own order and reads its committed writes.
pub async fn concurrent_commits_are_kept(store: Arc<dyn Store>) {
    const CALLERS: u64 = 16;
    const RECORDS: u64 = 20;
    let mut callers = tokio::task::JoinSet::new();
    for caller in 1..=CALLERS {
        let store = store.clone();
        callers.spawn(async move {
            commit(&*store, vec![StoreWrite::OpenRun(run(caller, &session(&caller.to_string())))]).await;
            for seq in 1..=RECORDS {
                let durability = if seq % 4 == 0 { Durability::Boundary } else { Durability::Delta };
                let writes = vec![StoreWrite::Event(event(caller, seq, text(&["piece"])))];
                expect_ok(store.commit(WriteBatch::new(durability, writes)).await);
                assert_eq!(expect_ok(store.last_seq(&topic(caller)).await), Seq(seq), "what was answered can be read");
            }
            commit(&*store, vec![close_run(caller, 90)]).await;
        });
    }
    callers.join_all().await;
    for caller in 1..=CALLERS {
        let seqs: Vec<_> =
            expect_ok(store.events(&topic(caller), Seq::FIRST, 100).await).iter().map(|record| record.seq.0).collect();
        assert_eq!(seqs, (1..=RECORDS).collect::<Vec<_>>());
    }
    assert_eq!(expect_ok(store.unfinished_runs().await), []);
    assert_eq!(expect_ok(store.count_sessions(&[]).await), CALLERS);
}

pub async fn closed_stores_answer_closed(store: Arc<dyn Store>) {
    commit(&*store, vec![StoreWrite::OpenRun(run(1, &session("close")))]).await;
    expect_ok(store.close().await);
    let answers = [
        store.commit(WriteBatch::delta(Vec::new())).await.err(),
        store.run(run_id(1)).await.err(),
        store.kv_get(&KvNamespace::Server, "pins").await.err(),
        store.messages(messages(1, None)).await.err(),
        store.open_messages().await.err(),
        store.runs(runs(1, None)).await.err(),
        store.prune(RetentionCutoffs { runs_before: at(1), events_before: at(1) }).await.err(),
        store.close().await.err(),
    ];
    for (index, answer) in answers.iter().enumerate() {
        assert!(matches!(answer, Some(StoreError::Closed)), "call {index}: {answer:?}");
    }
}

fn facts(limit: usize, cursor: Option<PageCursor>) -> FactQuery {
    FactQuery { owner: owner("alice"), text: String::new(), embedding: None, limit, fill_with_recent: true, cursor }
}

fn messages(limit: usize, cursor: Option<PageCursor>) -> MessageQuery {
    MessageQuery { state: None, limit, cursor }
}

fn runs(limit: usize, cursor: Option<PageCursor>) -> RunQuery {
    RunQuery { filter: RunFilter::default(), limit, cursor }
}

fn usage(limit: usize, cursor: Option<PageCursor>) -> UsageQuery {
    UsageQuery { since: None, group_by: UsageGrouping::Day, then_by: None, owners: None, limit, cursor }
}
