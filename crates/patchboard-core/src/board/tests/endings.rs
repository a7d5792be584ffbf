//! How things end: a drain, a crash, a store that fails at the last moment.

use crate::command::{AnswerInput, CancelRun, DescribeNode, FindRun};
use futures_util::FutureExt;
use tokio::time::Instant;

use super::*;
use crate::event::RunOutcome;
use crate::faulty::contains_event;
use crate::model::ModelError;
use crate::port::ModelProvider;
use crate::store::{BudgetScope, RunState};

fn hangs() -> Script {
    vec![answering(), ScriptStep::Emit(ModelEvent::Text("Hello".into())), closed_gate().1]
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_what_runs_and_takes_nothing_new() {
    let (gate, closed) = closed_gate();
    let bench = bench([say_and_wait(&["x"], closed)]);
    let (_, mut running) = bench.begin("alice", "q1").await;
    until(&mut running, "text x").await;
    let mut in_line = bench.ask(&caller(1), start("alice", "q2"));
    assert!((&mut in_line).now_or_never().is_none());
    let mut drain = std::pin::pin!(bench.board.drain(Duration::from_secs(30)));
    assert!((&mut drain).now_or_never().is_none());
    for command in [AnyCommand::new(start("bob", "hi")), AnyCommand::new(DescribeNode)] {
        let refused = command.ask(&bench, &caller(1)).await.unwrap_err();
        assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::Unavailable, "server is shutting down"));
    }
    assert_eq!(bench.board.is_ready().await.unwrap_err().kind, ErrorKind::Unavailable);
    gate.add_permits(1);
    assert_eq!(drain.await.unwrap(), DrainReport { cancelled: 0, suspended: 0 });
    assert_eq!(rest(running).await, ["usage 10+5", "end Completed"]);
    assert_eq!(in_line.await.unwrap_err().message, "server is shutting down", "nothing in line begins any more");
    assert_eq!(bench.model.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_drain_cancels_what_does_not_end_in_time() {
    let bench = bench([hangs(), hangs()]);
    let (_, mut alice) = bench.begin("alice", "hi").await;
    let (_, mut bob) = bench.begin("bob", "hi").await;
    until(&mut alice, "text Hello").await;
    until(&mut bob, "text Hello").await;
    let mut in_line = bench.ask(&caller(1), start("alice", "q2"));
    assert!((&mut in_line).now_or_never().is_none());
    let start = Instant::now();
    assert_eq!(bench.board.drain(Duration::from_secs(30)).await.unwrap(), DrainReport { cancelled: 2, suspended: 0 });
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    for followed in [alice, bob] {
        assert_eq!(rest(followed).await.last().unwrap(), "end Cancelled");
    }
    assert_eq!(in_line.await.unwrap_err().kind, ErrorKind::Unavailable);
    let closed = bench.store.count_sessions(&[]).await.unwrap_err();
    assert_eq!(closed.to_string(), "the store is closed");
}

#[tokio::test(start_paused = true)]
async fn during_a_drain_runs_can_still_be_helped_to_their_end() {
    let bench = bench([call(&[("write", json!({}))], 1, 1), hangs()]);
    let (_, mut asks) = bench.begin("alice", "write").await;
    let record = until(&mut asks, "may write run").await;
    let (run, mut hanging) = bench.begin("bob", "hi").await;
    until(&mut hanging, "text Hello").await;
    let mut drain = std::pin::pin!(bench.board.drain(Duration::from_secs(30)));
    assert!((&mut drain).now_or_never().is_none());
    let Event::InputRequested(request) = &record.event else { panic!("not a question") };
    bench
        .ask(
            &caller(1),
            AnswerInput { input: crate::command::InputRef::Id(request.input), answer: InputAnswer::Approved },
        )
        .await
        .unwrap();
    bench.ask(&caller(1), CancelRun(run)).await.unwrap();
    assert_eq!(drain.await.unwrap(), DrainReport { cancelled: 0, suspended: 0 });
    assert_eq!(rest(asks).await.last().unwrap(), "end Completed");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_hang_the_drain() {
    let bench = bench([hangs()]);
    let (_, mut followed) = bench.begin("alice", "hi").await;
    until(&mut followed, "text Hello").await;
    let _never_opened = bench.store.block_commits();
    assert_eq!(bench.board.drain(Duration::from_secs(1)).await.unwrap(), DrainReport { cancelled: 1, suspended: 0 });
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_stored_is_not_told_and_is_made_up_by_whoever_takes_the_run_over() {
    let broken = bench([say(&["Hello"], 10, 5)]);
    broken.store.fail(|batch| contains_event(batch, |event| matches!(event, Event::RunEnded { .. })));
    let (run, followed) = broken.begin("alice", "hi").await;
    until_released(&broken).await;
    assert_eq!(broken.stored(run).await, ["started default:web:alice:main by default"]);
    assert_eq!(broken.said("alice").await, [""; 0]);
    broken.store.stop_failing();
    assert_eq!(broken.chat("alice", "again").await.last().unwrap(), "end Completed", "the session is not stuck");

    assert_eq!(broken.board.adopt().await.unwrap().resumed, 1);
    let events = rest(followed).await;
    assert_eq!(events.last().unwrap(), "end Completed", "the follower has waited for the end");
    assert_eq!(broken.said("alice").await, ["again", "ok", "hi", "ok"]);
    let restarted = restart(&broken);
    assert_eq!(restarted.board.adopt().await.unwrap(), AdoptionReport::default());
    assert_eq!(rest(restarted.follow(run).await).await, events);
}

/// A new board on what the old one left in its store. The old one is as good as dead.
fn restart(dead: &Bench) -> Bench {
    bench_with([], |setup| {
        setup.store = dead.store.clone();
        setup.clock = dead.clock.clone();
        setup.ids = Arc::new(CountingIds::default());
        for _ in 0..1000 {
            setup.ids.next();
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_run_cut_by_a_crash_is_closed_counted_and_told() {
    let mut calls = call(&[("echo", json!({}))], 10, 5);
    calls.insert(1, ScriptStep::Emit(ModelEvent::Text("Let me look that up for you.".into())));
    let dead = bench_with([calls, hangs()], |setup| {
        setup.agent.tools = Some(vec![Glob::new("echo")]);
    });
    let (run, mut followed) = dead.begin("alice", "hi").await;
    until(&mut followed, "text Hello").await;
    let reserved = dead.spent("alice").await[0].1;
    assert!(reserved > 1000);

    dead.clock.advance_seconds(24 * 3600);
    let restarted = restart(&dead);
    assert_eq!(restarted.board.adopt().await.unwrap().closed, 1);
    let events = rest(restarted.follow(run).await).await;
    let [.., text, usage, failed, ended] = events.as_slice() else { panic!("too few: {events:?}") };
    assert_eq!(
        [text, failed, ended],
        ["text Hello", "failed interrupted: the server stopped during this turn", "end Interrupted"]
    );
    // The second call's own input, and of the output only what it said: `Hello`.
    let input: u64 =
        usage.strip_prefix("usage ").and_then(|u| u.strip_suffix("+2 estimated")).unwrap().parse().unwrap();
    assert!(input > 20 && input < reserved, "{usage}");
    let scopes = [15, 16].map(|day| BudgetScope::Day(jiff::civil::date(2026, 11, day)));
    assert_eq!(
        restarted.store.tokens_spent(scopes.into()).await.unwrap(),
        [15 + input + 2, 0],
        "on the day it was made"
    );
    assert_eq!(restarted.spent("alice").await, [(17 + input, 0), (0, 0), (17 + input, 0)]);
    assert_eq!(restarted.said("alice").await, [""; 0], "absent from the history");
    let row = restarted.store.run(run).await.unwrap().unwrap();
    assert_eq!(row.state, RunState::Ended(RunOutcome::Interrupted));
    let audit = restarted.audit().await;
    assert_eq!((&*audit[0].action, audit[0].run, &*audit[0].principal), ("run.interrupted", Some(run), "local"));
    assert_eq!(restarted.board.adopt().await.unwrap().closed, 0, "once");
    assert_eq!(restarted.chat("alice", "again").await[1], "text ok");
    assert_eq!(restarted.last_prompt(), ["again"]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_two_model_calls_costs_only_what_was_settled() {
    let dead = bench([call(&[("waits", json!({}))], 10, 5)]);
    let (run, mut followed) = dead.begin("alice", "hi").await;
    until(&mut followed, "usage").await;
    let restarted = restart(&dead);
    assert_eq!(restarted.board.adopt().await.unwrap().resumed, 1);
    let events = rest(restarted.follow(run).await).await;
    let unknown = "error the server stopped while waits was running; whether it took effect is not known and it was not run again";
    let rest = ["call waits {}", "usage 10+5", "resumed", unknown, "text ok", "usage 1+1", "end Completed"];
    assert_eq!(events[1..], rest);
    assert_eq!(restarted.spent("alice").await, [(17, 0); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_cannot_be_stored_did_not_happen() {
    let bench = bench([]);
    bench.store.fail(|batch| contains_event(batch, |event| matches!(event, Event::RunStarted { .. })));
    let refused = bench.ask(&caller(1), start("alice", "hi")).await.unwrap_err();
    assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::Internal, "storage: failed to commit a batch"));
    bench.store.stop_failing();
    assert_eq!((bench.live_runs(), bench.spent("alice").await), (0, [(0, 0); 3]));
    assert_eq!(bench.store.unfinished_runs().await.unwrap(), []);
    assert_eq!(bench.chat("alice", "hi").await.last().unwrap(), "end Completed");
}

#[tokio::test(start_paused = true)]
async fn old_runs_are_swept_away_every_hour() {
    let bench = bench([]);
    let (run, followed) = bench.begin("alice", "hi").await;
    rest(followed).await;
    let stop = CancellationToken::new();
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let keep = RetentionPolicy { runs: hours(48), events: hours(24) };
    let mut house = std::pin::pin!(bench.board.run_housekeeping(keep, stop.clone()));
    assert!((&mut house).now_or_never().is_none());
    assert_eq!(bench.stored(run).await.len(), 4, "too young");
    bench.clock.advance_seconds(24 * 3600 + 1);
    assert!(tokio::time::timeout(hours(1), &mut house).await.is_err());
    assert_eq!(bench.stored(run).await.len(), 4, "events stay as long as their run");
    let find = FindRun(RunRef::ClientId { id: "hi".into(), within: None });
    assert_eq!(bench.ask(&caller(1), find).await.unwrap().run, run);
    bench.clock.advance_seconds(24 * 3600);
    assert!(tokio::time::timeout(hours(1), &mut house).await.is_err());
    assert_eq!(bench.store.run(run).await.unwrap(), None);
    let gone = bench
        .board
        .follow(&caller(1), Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced)
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(gone.message, "run expired or unknown");
    stop.cancel();
    house.await;
    assert_eq!(bench.said("alice").await, ["hi", "ok"], "turns stay");
}

#[derive(Debug, Clone, Copy)]
enum Panics {
    AtOnce,
    WhileOpening,
    WhileStreaming,
}

impl ModelProvider for Panics {
    fn name(&self) -> &str {
        "panics"
    }

    fn check(&self) -> Result<(), ModelError> {
        Ok(())
    }

    fn stream(
        &self,
        _request: ModelRequest,
        _stop: CancellationToken,
    ) -> BoxFuture<'_, Result<BoxStream<Result<ModelEvent, ModelError>>, ModelError>> {
        assert!(!matches!(self, Self::AtOnce), "at once");
        Box::pin(async move {
            assert!(!matches!(self, Self::WhileOpening), "while opening");
            let text = futures_util::stream::iter([Ok(ModelEvent::Text("Hello".into()))]);
            let stream = text.chain(futures_util::stream::once(async { panic!("while streaming") }));
            Ok(Box::pin(stream) as BoxStream<_>)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_panics_fails_its_run_and_nothing_else() {
    for (panics, counted) in [(Panics::AtOnce, 0), (Panics::WhileOpening, 0), (Panics::WhileStreaming, 7)] {
        let bench = bench_with([], |setup| {
            setup.agent.provider = Arc::new(panics);
            setup.agent.tools = Some(vec![]);
        });
        let events = bench.chat("alice", "hi").await;
        assert_eq!(
            events[events.len() - 2..],
            ["failed provider error: internal error in the provider", "end Failed"],
            "{panics:?}"
        );
        assert_eq!(bench.spent("alice").await, [(counted, 0); 3]);
        assert_eq!(bench.store.unfinished_runs().await.unwrap(), []);
    }
}
