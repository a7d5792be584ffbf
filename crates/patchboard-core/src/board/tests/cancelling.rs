//! Runs that are called off: by whoever asked, by whoever may, or because nobody listens any more.

use crate::command::CancelRun;
use futures_util::FutureExt;

use super::*;
use crate::model::{ModelError, StopReason};
use crate::port::ModelProvider;
use crate::store::{RunRequestKind, Store, StoreWrite, WriteBatch};

/// Says `Hello`, then hangs for ever.
fn hangs() -> Script {
    vec![answering(), ScriptStep::Emit(ModelEvent::Text("Hello".into())), closed_gate().1]
}

fn no_tools(setup: &mut Setup) {
    setup.agent.tools = Some(vec![]);
}

async fn cancel(bench: &Bench, caller: &Caller, run: RunId) -> Result<(), BoardError> {
    bench.ask(caller, CancelRun(run)).await
}

#[tokio::test(start_paused = true)]
async fn a_request_in_line_is_withdrawn_by_its_token() {
    let (gate, closed) = closed_gate();
    let bench = bench([say_and_wait(&["x"], closed)]);
    let (_, mut running) = bench.begin("alice", "q1").await;
    until(&mut running, "text x").await;
    let stop = CancellationToken::new();
    let mut waiting = bench.board.ask(&caller(1), start("alice", "q2"), stop.clone());
    assert!((&mut waiting).now_or_never().is_none());
    stop.cancel();
    let refused = waiting.await.unwrap_err();
    assert_eq!((refused.kind, refused.message.as_str()), (ErrorKind::Cancelled, "cancelled"));
    gate.add_permits(1);
    rest(running).await;
    assert_eq!(bench.chat("alice", "q3").await[1], "text ok");
    assert_eq!(bench.said("alice").await, ["q1", "x", "q3", "ok"], "it left no trace");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_stream_is_settled_by_estimate() {
    let bench = bench_with([hangs()], no_tools);
    let (run, mut followed) = bench.begin("alice", "hi").await;
    until(&mut followed, "text Hello").await;
    assert_eq!(bench.spent("alice").await, [(0, 1005); 3]);
    cancel(&bench, &caller(2), run).await.expect("the principal counts, not the connection");
    assert_eq!(rest(followed).await, ["usage 5+2 estimated", "end Cancelled"]);
    assert_eq!(bench.spent("alice").await, [(7, 0); 3]);
    assert_eq!(bench.said("alice").await, [""; 0]);
    let gone = cancel(&bench, &caller(1), run).await.unwrap_err();
    assert_eq!((gone.kind, gone.message.as_str()), (ErrorKind::NotFound, "no such run is under way"));
    assert_eq!(bench.chat("alice", "next").await[1], "text ok", "the session goes on");
}

#[tokio::test(start_paused = true)]
async fn the_token_of_the_ask_cancels_the_run_and_is_not_cancelled_by_it() {
    for by_token in [true, false] {
        let bench = bench_with([hangs()], no_tools);
        let stop = CancellationToken::new();
        let run = bench.board.ask(&caller(1), start("alice", "hi"), stop.clone()).await.unwrap();
        let mut followed = bench.follow(run).await;
        until(&mut followed, "text Hello").await;
        if by_token {
            stop.cancel();
        } else {
            cancel(&bench, &caller(1), run).await.unwrap();
            assert!(!stop.is_cancelled(), "other asks may hang on the same token");
        }
        assert_eq!(rest(followed).await.last().unwrap(), "end Cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_nobody_waited_for_is_still_counted() {
    // Nothing has come back yet, but the question is with the provider.
    let bench = bench_with([vec![closed_gate().1]], no_tools);
    let (run, mut followed) = bench.begin("alice", "hi").await;
    until(&mut followed, "started").await;
    let_others_run().await;
    assert_eq!(bench.model.requests().len(), 1);
    cancel(&bench, &caller(1), run).await.unwrap();
    assert_eq!(rest(followed).await, ["usage 5+0 estimated", "end Cancelled"]);
    assert_eq!(bench.spent("alice").await, [(5, 0); 3]);
}

#[derive(Debug)]
struct NeverOpens(Arc<ScriptedModel>);

impl ModelProvider for NeverOpens {
    fn name(&self) -> &str {
        "never"
    }

    fn check(&self) -> Result<(), ModelError> {
        Ok(())
    }

    fn stream(
        &self,
        request: ModelRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<BoxStream<Result<ModelEvent, ModelError>>, ModelError>> {
        Box::pin(async move {
            drop(self.0.stream(request, stop).await?);
            std::future::pending().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_does_not_even_answer_can_be_cancelled() {
    let bench = bench_with([], |setup| {
        no_tools(setup);
        setup.agent.provider = Arc::new(NeverOpens(setup.model.clone()));
    });
    let (run, followed) = bench.begin("alice", "hi").await;
    let_others_run().await;
    assert_eq!(bench.model.requests().len(), 1);
    cancel(&bench, &caller(1), run).await.unwrap();
    let expected = ["started default:web:alice:main by default", "usage 5+0 estimated", "end Cancelled"];
    assert_eq!(rest(followed).await, expected);
}

#[tokio::test(start_paused = true)]
async fn cancelled_before_the_first_call_costs_nothing() {
    let bench = bench([]);
    let gate = bench.store.block_commits();
    let stop = CancellationToken::new();
    let mut asked = bench.board.ask(&caller(1), start("alice", "hi"), stop.clone());
    assert!((&mut asked).now_or_never().is_none());
    let_others_run().await;
    assert_eq!(bench.live_runs(), 1, "it is being recorded");
    stop.cancel();
    gate.add_permits(100);
    let run = asked.await.unwrap();
    let expected = ["started default:web:alice:main by default", "end Cancelled"];
    assert_eq!(rest(bench.follow(run).await).await, expected);
    assert_eq!((bench.model.requests().len(), bench.spent("alice").await), (0, [(0, 0); 3]));
}

#[tokio::test(start_paused = true)]
async fn cancelling_stops_tools_and_records_that() {
    let bench = bench([call(&[("hangs", json!({})), ("waits", json!({}))], 10, 5)]);
    let (run, mut followed) = bench.begin("alice", "go").await;
    until(&mut followed, "usage").await;
    let_others_run().await;
    assert_eq!(bench.workshop.executed().len(), 2);
    cancel(&bench, &caller(1), run).await.unwrap();
    assert_eq!(rest(followed).await, ["error cancelled", "error cancelled", "end Cancelled"]);
    assert!(bench.workshop.hang_stop.lock().unwrap().as_ref().unwrap().is_cancelled());
    assert_eq!(bench.model.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_starts_no_further_tool() {
    let bench = bench([call(&[("echo", json!({}))], 10, 5)]);
    let gate = bench.store.block_commits();
    // The start; the model's answer and the tool's intent are being recorded when the run is cancelled.
    gate.add_permits(1);
    let (run, followed) = bench.begin("alice", "go").await;
    let_others_run().await;
    let cancelling = cancel_in_background(&bench, run);
    let_others_run().await;
    assert!(!cancelling.is_finished(), "it is acknowledged when it is stored");
    gate.add_permits(100);
    cancelling.await.unwrap().unwrap();
    assert_eq!(rest(followed).await[1..], ["call echo {}", "usage 10+5", "error cancelled", "end Cancelled"]);
    assert_eq!(bench.workshop.executed(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn strangers_can_neither_follow_nor_cancel() {
    let bench = bench_with([hangs()], no_tools);
    let (run, mut followed) = bench.begin("alice", "hi").await;
    until(&mut followed, "text Hello").await;
    let message = |result: Result<_, BoardError>| result.map(drop).unwrap_err().message;
    let live = bench.board.follow(&stranger(), Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced).await.map(drop);
    assert_eq!(message(live), "run expired or unknown");
    assert_eq!(message(cancel(&bench, &stranger(), run).await.map(drop)), "no such run is under way");
    cancel(&bench, &operator(), run).await.expect("the operator may");
    rest(followed).await;
    let ended = bench.board.follow(&stranger(), Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced).await.map(drop);
    assert_eq!(message(ended), "run expired or unknown");
    assert!(bench.board.follow(&operator(), Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_run_nobody_follows_is_cancelled_after_the_grace() {
    let bench = bench_with([hangs()], no_tools);
    let run = bench.start("alice", "hi").await;
    for (seconds, live) in [(59, 1), (1, 0)] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        let_others_run().await;
        assert_eq!(bench.live_runs(), live);
    }
    assert_eq!(bench.stored(run).await[1..], ["text Hello", "usage 5+2 estimated", "end Cancelled"]);
    assert_eq!(bench.spent("alice").await, [(7, 0); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_follower_keeps_a_run_alive_and_one_that_returns_in_time_saves_it() {
    let (gate, closed) = closed_gate();
    let bench = bench([say_and_wait(&["Hello"], closed)]);
    let (run, mut first) = bench.begin("alice", "hi").await;
    until(&mut first, "text Hello").await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    drop(first);
    tokio::time::advance(Duration::from_secs(59)).await;
    let again = bench.board.follow(&caller(2), Topic::Run(run), Seq(3), FollowerPacing::Unpaced).await.unwrap();
    tokio::time::advance(Duration::from_secs(3600)).await;
    gate.add_permits(1);
    assert_eq!(rest(again).await, ["usage 10+5", "end Completed"]);
}

#[tokio::test(start_paused = true)]
async fn an_ask_that_is_dropped_leaves_a_begun_run_alone() {
    let bench = bench([]);
    let gate = bench.store.block_commits();
    let mut asked = bench.ask(&caller(1), start("alice", "hi"));
    assert!((&mut asked).now_or_never().is_none());
    let_others_run().await;
    assert_eq!(bench.live_runs(), 1, "it is being recorded");
    drop(asked);
    gate.add_permits(100);
    let_others_run().await;
    assert_eq!((bench.live_runs(), bench.said("alice").await), (0, vec!["hi".to_owned(), "ok".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_slow_starter_holds_the_model_back() {
    let (gate, closed) = closed_gate();
    let mut script = vec![answering(), closed];
    script.extend((0..20_000).map(|_| ScriptStep::Emit(ModelEvent::Text("x".into()))));
    script.push(ScriptStep::Emit(ModelEvent::Stop(StopReason::EndOfTurn)));
    let bench = bench([script]);
    let run = bench.start("alice", "hi").await;
    let pacing = bench.board.follow(&caller(1), Topic::Run(run), Seq::FIRST, FollowerPacing::Paced).await.unwrap();
    gate.add_permits(1);
    let_others_run().await;
    let last = bench.store.last_seq(&Topic::Run(run)).await.unwrap();
    assert!((8_192..10_000).contains(&last.0), "it stops a bounded way ahead: {last}");
    let_others_run().await;
    assert_eq!(bench.store.last_seq(&Topic::Run(run)).await.unwrap(), last);
    let events = rest(pacing).await;
    assert_eq!(events.last().unwrap(), "end Completed", "and goes on when it is read");
}

/// A new board on what the old one left in its store, as after a crash.
async fn next_process(dead: Bench) -> Bench {
    let (store, clock) = (dead.store.clone(), dead.clock.clone());
    for live in dead.board.live_runs().values() {
        live.control.suspend.cancel();
    }
    drop(dead);
    let_others_run().await;
    bench_with([], |setup| {
        (setup.store, setup.clock) = (store, clock);
        setup.ids = Arc::new(CountingIds::starting_at(1_000_000));
    })
}

#[tokio::test(start_paused = true)]
async fn an_acknowledged_cancel_outlives_the_process() {
    for strategy in ["react", "tot"] {
        let bench = bench([hangs()]);
        let start = super::runs::run_of(Some("t"), "r", "go", super::runs::plan(strategy));
        let run = bench.ask(&super::runs::on_runs(1), start).await.unwrap();
        let_others_run().await;
        // Stored, but the process dies before the run can act on it.
        let request = StoreWrite::RequestOfRun { run, request: RunRequestKind::Cancel };
        bench.store.commit(WriteBatch::boundary(vec![request])).await.unwrap();
        let next = next_process(bench).await;
        assert_eq!(next.board.adopt().await.unwrap(), AdoptionReport { closed: 1, ..AdoptionReport::default() });
        let events = rest(next.follow(run).await).await;
        assert_eq!(events.last().unwrap(), "end Cancelled", "{strategy}: {events:?}");
        assert!(!events.iter().any(|event| event.starts_with("failed")), "{events:?}");
        assert_eq!(next.store.unfinished_runs().await.unwrap(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_no_process_works_on_can_be_cancelled_and_kept() {
    for request in [RunRequestKind::Cancel, RunRequestKind::Detach] {
        let bench = bench([hangs()]);
        let start = super::runs::run_of(Some("t"), "r", "go", super::runs::plan("react"));
        let run = bench.ask(&super::runs::on_runs(1), start).await.unwrap();
        let_others_run().await;
        let next = next_process(bench).await;
        let by_stranger = next.ask(&stranger(), CancelRun(run)).await.unwrap_err();
        assert_eq!(by_stranger.kind, ErrorKind::NotFound);
        match request {
            RunRequestKind::Cancel => next.ask(&caller(5), CancelRun(run)).await.unwrap(),
            RunRequestKind::Detach => next.ask(&caller(5), crate::command::DetachRun(run)).await.unwrap(),
        }
        next.board.adopt().await.unwrap();
        tokio::time::advance(Duration::from_secs(3600)).await;
        let_others_run().await;
        let expected = if request == RunRequestKind::Cancel { "end Cancelled" } else { "end Completed" };
        assert_eq!(rest(next.follow(run).await).await.last().unwrap(), expected);
    }
}
