//! Lists of runs: what they show, how they are restricted and paged.

use std::sync::Arc;

use patchboard_core::event::RunOutcome;
use patchboard_core::id::{RunId, Seq};
use patchboard_core::model::TokenCount;
use patchboard_core::run_spec::StrategyKind;
use patchboard_core::store::{
    ListedRun, RetentionCutoffs, RunFilter, RunModel, RunQuery, RunRow, RunState, RunUsage, Store, StoreWrite,
    StoredStateFilter,
};

use super::fixtures::{
    all_pages, at, close_run, commit, event, expect_ok, model_call, run, run_id, session, settlement, text,
};

fn query(filter: RunFilter, limit: usize) -> RunQuery {
    RunQuery { filter, limit, cursor: None }
}

async fn listed(store: &dyn Store, filter: RunFilter) -> Vec<RunId> {
    let page = expect_ok(store.runs(query(filter, 100)).await);
    assert_eq!(page.next, None);
    page.items.into_iter().map(|run| run.run).collect()
}

async fn only(store: &dyn Store, number: u64) -> ListedRun {
    let filter = RunFilter { among: Some(vec![run_id(number)]), ..RunFilter::default() };
    let page = expect_ok(store.runs(query(filter, 1)).await);
    assert_eq!(page.next, None);
    expect_ok(page.items.into_iter().next().ok_or("not listed"))
}

pub async fn listed_runs_show_what_they_took(store: Arc<dyn Store>) {
    let session = session("totals");
    let row = RunRow {
        input: "  What is\nthe weather like, and will it rain?".into(),
        agent: "weather".into(),
        strategy: StrategyKind::Tot,
        ..run(1, &session)
    };
    let first = model_call(1, 1, &session);
    commit(&*store, vec![StoreWrite::OpenRun(row.clone()), StoreWrite::OpenModelCall(first.clone())]).await;
    let mut expected = ListedRun {
        run: row.run,
        session: session.clone(),
        principal: row.principal.clone(),
        surface: row.surface.clone(),
        client_id: row.client_id.clone(),
        agent: "weather".into(),
        strategy: StrategyKind::Tot,
        model: Some(RunModel { provider: "anthropic".into(), model: "claude".into() }),
        title: "What is the weather like, and will it rain?".into(),
        state: RunState::Running,
        started_at: row.started_at,
        ended_at: None,
        usage: RunUsage::default(),
        last_seq: Seq(0),
    };
    assert_eq!(only(&*store, 1).await, expected, "an open call shows its model and costs nothing yet");

    let settle = |call, tokens| StoreWrite::SettleModelCall(settlement(call, tokens, Vec::new()));
    let tokens = TokenCount { input: 100, output: 20 };
    commit(&*store, vec![settle(&first, tokens), StoreWrite::Event(event(1, 1, text(&["a", "b"])))]).await;
    expected.usage = RunUsage { model_calls: 1, tokens, cost_nanousd: 1_200 };
    expected.last_seq = Seq(2);
    assert_eq!(only(&*store, 1).await, expected);

    let mut second = model_call(1, 2, &session);
    second.model = "other".into();
    let ended = StoreWrite::CloseRun { run: run_id(1), outcome: RunOutcome::Failed, at: at(9) };
    let more = TokenCount { input: 5, output: 1 };
    commit(&*store, vec![StoreWrite::OpenModelCall(second.clone()), settle(&second, more), ended]).await;
    expected.model = Some(RunModel { provider: "anthropic".into(), model: "other".into() });
    expected.usage = RunUsage { model_calls: 2, tokens: TokenCount { input: 105, output: 21 }, cost_nanousd: 1_260 };
    expected.state = RunState::Ended(RunOutcome::Failed);
    expected.ended_at = Some(at(9));
    assert_eq!(only(&*store, 1).await, expected);

    // What a run took is forgotten with it, and counted in no other.
    assert!(!expect_ok(store.prune(RetentionCutoffs { runs_before: at(10), events_before: at(0) }).await));
    assert_eq!(listed(&*store, RunFilter::default()).await, []);
    commit(&*store, vec![StoreWrite::OpenRun(run(2, &session))]).await;
    let next = only(&*store, 2).await;
    assert_eq!((next.usage, next.model, next.last_seq), (RunUsage::default(), None, Seq(0)));
    // A call is settled although its run is gone.
    let orphan = model_call(3, 1, &session);
    commit(&*store, vec![StoreWrite::OpenModelCall(orphan.clone()), settle(&orphan, tokens)]).await;
    commit(&*store, vec![StoreWrite::OpenRun(run(3, &session))]).await;
    assert_eq!(only(&*store, 3).await.usage, RunUsage::default());
}

pub async fn lists_of_runs_are_restricted(store: Arc<dyn Store>) {
    let (here, there) = (session("here"), session("there"));
    let rows = [
        RunRow { principal: "alice".into(), input: "Plan a TRIP to the sea".into(), ..run(1, &here) },
        RunRow { principal: "alice".into(), surface: "runs".into(), agent: "helper".into(), ..run(2, &there) },
        RunRow { principal: "bob".into(), strategy: StrategyKind::Got, input: "100% _\\".into(), ..run(3, &here) },
        RunRow { principal: "carol".into(), client_id: "mine".into(), ..run(4, &there) },
    ];
    for row in &rows {
        commit(&*store, vec![StoreWrite::OpenRun(row.clone())]).await;
    }
    let cancelled = StoreWrite::CloseRun { run: run_id(2), outcome: RunOutcome::Cancelled, at: at(20) };
    commit(&*store, vec![close_run(1, 10), cancelled]).await;
    let any = RunFilter::default;
    let text = |text: &str| RunFilter { text: Some(text.to_owned()), ..any() };
    let state = |state| RunFilter { state: Some(state), ..any() };
    let among = |numbers: &[u64]| Some(numbers.iter().map(|number| run_id(*number)).collect());
    let cases: Vec<(RunFilter, &[u64])> = vec![
        (any(), &[4, 3, 2, 1]),
        (RunFilter { principals: Some(vec!["alice".into()]), ..any() }, &[2, 1]),
        (RunFilter { principals: Some(vec!["bob".into(), "carol".into(), "nobody".into()]), ..any() }, &[4, 3]),
        (RunFilter { principals: Some(vec!["nobody".into()]), ..any() }, &[]),
        (RunFilter { principals: Some(Vec::new()), ..any() }, &[]),
        (RunFilter { surface: Some("runs".into()), ..any() }, &[2]),
        (RunFilter { agent: Some("helper".into()), ..any() }, &[2]),
        (RunFilter { agent: Some("nobody".into()), ..any() }, &[]),
        (RunFilter { strategy: Some(StrategyKind::Got), ..any() }, &[3]),
        (RunFilter { strategy: Some(StrategyKind::React), ..any() }, &[4, 2, 1]),
        (RunFilter { client_id: Some("mine".into()), ..any() }, &[4]),
        (RunFilter { session: Some(here.clone()), ..any() }, &[3, 1]),
        (RunFilter { session: Some(session("nowhere")), ..any() }, &[]),
        (state(StoredStateFilter::Running), &[4, 3]),
        (state(StoredStateFilter::Ended), &[2, 1]),
        (state(StoredStateFilter::EndedAs(RunOutcome::Cancelled)), &[2]),
        (state(StoredStateFilter::EndedAs(RunOutcome::Interrupted)), &[]),
        (RunFilter { since: Some(at(2)), ..any() }, &[4, 3, 2]),
        (RunFilter { until: Some(at(3)), ..any() }, &[2, 1]),
        (RunFilter { since: Some(at(2)), until: Some(at(3)), ..any() }, &[2]),
        (text("trip"), &[1]),
        (text("WEATHER"), &[4, 2]),
        (text("100% _\\"), &[3]),
        (text("%"), &[3]),
        (text("' OR 1 = 1 --"), &[]),
        (text(""), &[4, 3, 2, 1]),
        (RunFilter { among: among(&[1, 3, 9]), ..any() }, &[3, 1]),
        (RunFilter { among: among(&[]), ..any() }, &[]),
        (RunFilter { among: among(&[1, 3]), session: Some(here.clone()), ..state(StoredStateFilter::Running) }, &[3]),
        (
            RunFilter {
                principals: Some(vec!["alice".into()]),
                session: Some(there),
                agent: Some("helper".into()),
                ..text("weather")
            },
            &[2],
        ),
    ];
    for (filter, numbers) in cases {
        let expected: Vec<_> = numbers.iter().map(|number| run_id(*number)).collect();
        let found = listed(&*store, filter.clone()).await;
        assert_eq!(found, expected, "{filter:?}");
    }
}

pub async fn lists_of_runs_are_paged(store: Arc<dyn Store>) {
    let (here, there) = (session("here"), session("there"));
    for number in 1..=11 {
        commit(&*store, vec![StoreWrite::OpenRun(run(number, if number % 3 == 0 { &there } else { &here }))]).await;
    }
    for (filter, expected) in [
        (RunFilter::default(), (1..=11).rev().collect::<Vec<u64>>()),
        (RunFilter { session: Some(there), ..RunFilter::default() }, vec![9, 6, 3]),
        (RunFilter { among: Some([2, 5, 7, 8].map(run_id).to_vec()), ..RunFilter::default() }, vec![8, 7, 5, 2]),
    ] {
        // A run that starts in between moves nothing.
        let mut later = 100;
        let pages = all_pages(
            async |cursor| store.runs(RunQuery { filter: filter.clone(), limit: 2, cursor }).await,
            async || {
                later += 1;
                let number = later + expected.len() as u64 * 1000;
                commit(&*store, vec![StoreWrite::OpenRun(run(number, &here))]).await;
            },
        )
        .await;
        assert!(pages.iter().rev().skip(1).all(|page| page.len() == 2), "pages are full, but for the last");
        let found: Vec<_> = pages.into_iter().flatten().map(|run| run.run).collect();
        let known: Vec<_> = found.iter().filter(|run| (1..=11).any(|number| run_id(number) == **run)).collect();
        let wanted: Vec<_> = expected.iter().map(|number| run_id(*number)).collect();
        assert_eq!(known, wanted.iter().collect::<Vec<_>>());
    }
}
