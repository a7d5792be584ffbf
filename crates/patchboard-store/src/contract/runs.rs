//! Runs: found by every key, opened and closed once, pruned by age.

use std::sync::Arc;

use patchboard_core::event::{Event, RunOutcome};
use patchboard_core::id::{NodeId, Seq};
use patchboard_core::model::TokenCount;
use patchboard_core::store::{ModelCallRow, RetentionCutoffs, RunRow, RunState, Store, StoreWrite, UnfinishedRun};

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
    let call = |number, node| ModelCallRow { node, ..model_call(3, number, &session) };
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
        let started = event(number, 1, Event::RunStarted { session: session.clone(), agent: "main".into() });
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
