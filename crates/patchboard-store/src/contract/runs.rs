//! Runs: found by every key, opened and closed once, pruned by age.

use std::sync::Arc;

use patchboard_core::event::{Event, RunOutcome};
use patchboard_core::id::{NodeId, Seq, TenureId};
use patchboard_core::model::TokenCount;
use patchboard_core::store::{
    ModelCallRow, NodeRole, RetentionCutoffs, RunRequestKind, RunRequests, RunRow, RunState, Store, StoreError,
    StoreWrite, UnfinishedRun, WriteBatch,
};

use super::fixtures::{
    at, close_run, commit, commit_refused, ended, event, expect_ok, model_call, run, run_id, session, settlement, text,
    topic, turn,
};

pub async fn runs_are_found(store: Arc<dyn Store>) {
    let (first_session, second_session) = (session("here"), session("there"));
    let of = |row: RunRow, principal: &str| RunRow { principal: principal.into(), client_id: "1".into(), ..row };
    let rows =
        [of(run(1, &first_session), "alice"), of(run(2, &first_session), "alice"), of(run(3, &second_session), "bob")];
    for row in &rows {
        commit(&*store, vec![StoreWrite::OpenRun(row.clone())]).await;
    }
    let [first, second, third] = rows.map(Some);
    assert_eq!(expect_ok(store.run(run_id(1)).await), first);
    assert_eq!(expect_ok(store.run(run_id(9)).await), None);
    assert_eq!(expect_ok(store.latest_run_by_client_id("alice", "1").await), second, "the newest of that principal");
    assert_eq!(expect_ok(store.latest_run_by_client_id("bob", "1").await), third);
    assert_eq!(expect_ok(store.latest_run_by_client_id("carol", "1").await), None, "a principal nobody knows");
    assert_eq!(expect_ok(store.latest_run_by_client_id("alice", "2").await), None, "an id nobody used");
    assert_eq!(expect_ok(store.latest_run_of_session(&first_session).await), second);
    assert_eq!(expect_ok(store.latest_run_of_session(&second_session).await), third);
    assert_eq!(expect_ok(store.latest_run_of_session(&session("nowhere")).await), None);
}

pub async fn runs_open_and_close_once(store: Arc<dyn Store>) {
    let session = session("once");
    commit_refused(&*store, vec![close_run(1, 3)]).await;
    commit(&*store, vec![StoreWrite::OpenRun(run(1, &session))]).await;
    commit_refused(&*store, vec![StoreWrite::OpenRun(run(1, &session))]).await;
    let cancelled = StoreWrite::CloseRun { run: run_id(1), outcome: RunOutcome::Cancelled, at: at(3) };
    commit(&*store, vec![cancelled]).await;
    commit_refused(&*store, vec![close_run(1, 4)]).await;
    let state = expect_ok(store.run(run_id(1)).await).map(|run| run.state);
    assert_eq!(state, Some(RunState::Ended(RunOutcome::Cancelled)));
    commit(&*store, vec![StoreWrite::OpenRun(run(2, &session)), close_run(2, 5)]).await;
    assert_eq!(expect_ok(store.run(run_id(2)).await), Some(ended(run(2, &session))));
}

pub async fn unfinished_runs_are_listed(store: Arc<dyn Store>) {
    assert_eq!(expect_ok(store.unfinished_runs().await), []);
    let session = session("unfinished");
    for number in 1..=4 {
        commit(&*store, vec![StoreWrite::OpenRun(run(number, &session))]).await;
    }
    let call = |number, node| ModelCallRow { node, key: node.map(|_| "ci".into()), ..model_call(3, number, &session) };
    let calls = [
        call(1, None),
        call(2, Some(NodeId(0))),
        call(10, Some(NodeId(7))),
        call(11, Some(NodeId(u32::MAX))),
        call(300, Some(NodeId(7))),
    ];
    for call in calls.iter().rev() {
        commit(&*store, vec![StoreWrite::OpenModelCall(call.clone())]).await;
    }
    commit(&*store, vec![close_run(2, 9)]).await;
    let unfinished = |number, open_calls| UnfinishedRun { run: run(number, &session), open_calls };
    let [first, second, settled, others @ ..] = calls.clone();
    let expected = [unfinished(1, vec![]), unfinished(3, calls.to_vec()), unfinished(4, vec![])];
    assert_eq!(expect_ok(store.unfinished_runs().await), expected, "oldest first, with all open calls in order");

    let usage = settlement(&settled, TokenCount { input: 1, output: 1 }, Vec::new());
    commit(&*store, vec![StoreWrite::SettleModelCall(usage)]).await;
    let remaining = [vec![first, second], others.to_vec()].concat();
    let expected = [unfinished(1, vec![]), unfinished(3, remaining), unfinished(4, vec![])];
    assert_eq!(expect_ok(store.unfinished_runs().await), expected, "one settled, the others stay open");
}

fn runs_before(second: i64) -> RetentionCutoffs {
    RetentionCutoffs { runs_before: at(second), events_before: at(0) }
}

pub async fn finished_runs_are_pruned(store: Arc<dyn Store>) {
    let session = session("prune");
    for number in 1..=3 {
        let started =
            event(number, 1, Event::RunStarted { session: session.clone(), agent: "main".into(), chat: None });
        let opened = vec![
            StoreWrite::OpenRun(run(number, &session)),
            StoreWrite::Event(started),
            StoreWrite::AddTurn(turn(number, &session)),
        ];
        commit(&*store, opened).await;
    }
    commit(&*store, vec![close_run(1, 10)]).await;
    commit(&*store, vec![close_run(2, 20)]).await;
    assert!(!expect_ok(store.prune(runs_before(20)).await), "nothing more to do");
    assert_eq!(expect_ok(store.run(run_id(1)).await), None, "ended before");
    assert_eq!(expect_ok(store.events(&topic(1), Seq::FIRST, 10).await), []);
    assert_eq!(expect_ok(store.run(run_id(2)).await), Some(ended(run(2, &session))), "ended at that very moment");
    assert_eq!(expect_ok(store.run(run_id(3)).await), Some(run(3, &session)), "did not end");
    assert_eq!(expect_ok(store.last_seq(&topic(3)).await), Seq(1));
    assert_eq!(expect_ok(store.session(&session).await).map(|session| session.turns), Some(3), "history is not pruned");

    // More than one `prune` call handles.
    for number in 100..1000 {
        let mut writes = vec![StoreWrite::OpenRun(run(number, &session)), close_run(number, 30)];
        writes.push(StoreWrite::Event(event(number, 1, text(&["short"]))));
        commit(&*store, writes).await;
    }
    let mut calls = 1;
    while expect_ok(store.prune(runs_before(31)).await) {
        calls += 1;
        assert!(calls < 100, "pruning does not end");
    }
    assert!(calls > 1, "one call does a bounded amount of work");
    for number in [2, 100, 999] {
        assert_eq!(expect_ok(store.run(run_id(number)).await), None);
    }
    // A pruned run can be written again without conflicts.
    commit(&*store, vec![StoreWrite::OpenRun(run(999, &session)), StoreWrite::Event(event(999, 1, text(&["again"])))])
        .await;
    assert_eq!(expect_ok(store.latest_run_of_session(&session).await), Some(run(999, &session)));
}

pub async fn runs_without_an_owner_are_adopted(store: Arc<dyn Store>) {
    let session = session("adopt");
    for number in 1..=3 {
        commit(&*store, vec![StoreWrite::OpenRun(run(number, &session))]).await;
    }
    commit(&*store, vec![StoreWrite::OpenModelCall(model_call(2, 1, &session))]).await;
    let adopt = async |held: &[u64], limit| {
        let held = held.iter().map(|number| run_id(*number)).collect();
        let adopted = expect_ok(store.adopt_runs(held, limit).await);
        adopted.into_iter().map(|unfinished| (unfinished.run, unfinished.open_calls.len())).collect::<Vec<_>>()
    };
    assert_eq!(adopt(&[1, 3], 10).await, [(run(2, &session), 1)], "what this process works on is left alone");
    assert_eq!(adopt(&[], 2).await, [(run(1, &session), 0), (run(2, &session), 1)], "oldest first");
    commit(&*store, vec![close_run(1, 9)]).await;
    assert_eq!(adopt(&[], 10).await.len(), 2);
    for role in [NodeRole::Hub, NodeRole::Maintenance] {
        assert!(expect_ok(store.claim_role(role).await));
        assert!(expect_ok(store.claim_role(role).await), "it stays this process's");
    }
}

pub async fn requests_of_running_runs_are_stored(store: Arc<dyn Store>) {
    let session = session("requests");
    let request = |number, request| StoreWrite::RequestOfRun { run: run_id(number), request };
    let conflicts = async |write: StoreWrite| {
        let answer = store.commit(WriteBatch::boundary(vec![write])).await;
        assert!(matches!(answer, Err(StoreError::Conflict)), "expected a conflict: {answer:?}");
    };
    conflicts(request(1, RunRequestKind::Cancel)).await;
    commit(&*store, vec![StoreWrite::OpenRun(run(1, &session))]).await;
    let stored = async || expect_ok(store.run(run_id(1)).await).map(|row| row.requests);
    assert_eq!(stored().await, Some(RunRequests::default()));
    commit(&*store, vec![request(1, RunRequestKind::Detach)]).await;
    assert_eq!(stored().await, Some(RunRequests { cancel: false, detach: true }));
    commit(&*store, vec![request(1, RunRequestKind::Cancel)]).await;
    commit(&*store, vec![request(1, RunRequestKind::Cancel)]).await;
    assert_eq!(stored().await, Some(RunRequests { cancel: true, detach: true }));
    let unfinished = expect_ok(store.unfinished_runs().await);
    assert_eq!(unfinished.first().map(|unfinished| unfinished.run.requests.cancel), Some(true));
    commit(&*store, vec![close_run(1, 9)]).await;
    conflicts(request(1, RunRequestKind::Cancel)).await;
}

pub async fn batches_of_another_tenure_are_fenced(store: Arc<dyn Store>) {
    let session = session("tenure");
    let batch = |number| WriteBatch::boundary(vec![StoreWrite::OpenRun(run(number, &session))]);
    expect_ok(store.commit(batch(1).of_tenure(store.tenure())).await);
    let other = TenureId(uuid::Uuid::from_u128(42));
    let answer = store.commit(batch(2).of_tenure(other)).await;
    assert!(matches!(answer, Err(StoreError::Fenced)), "{answer:?}");
    assert_eq!(expect_ok(store.run(run_id(2)).await), None);
    assert!(expect_ok(store.run(run_id(1)).await).is_some());
}
