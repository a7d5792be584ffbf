//! Whatever commit a run is cut after, and whatever commit of the process that goes on with it: it comes to the same end,
//! no result on record is fetched again, and every question to the model is paid for once.

use super::cut_anywhere::{outcome, reading};
use super::runs::{on_runs, plan, run_of};
use super::*;
use crate::command::RunPlan;
use crate::model::{ModelError, StopReason};
use crate::port::ModelProvider;
use crate::store::{StoreWrite, UsageGrouping, UsageQuery, WriteBatch};

/// A store that has seen these batches and nothing else.
async fn after(batches: &[WriteBatch], delay: usize) -> Arc<FaultyStore> {
    let store = FaultyStore::slow(delay);
    for batch in batches {
        store.commit(batch.clone()).await.unwrap();
    }
    store
}

fn results(batches: &[WriteBatch]) -> usize {
    let is_result = |write: &&StoreWrite| matches!(write, StoreWrite::Event(record) if matches!(&record.event, Event::ToolFinished { output, .. } if !output.is_error));
    batches.iter().flat_map(|batch| &batch.writes).filter(is_result).count()
}

fn opened(batches: &[WriteBatch]) -> u64 {
    let is_question = |write: &&StoreWrite| matches!(write, StoreWrite::OpenModelCall(_));
    batches.iter().flat_map(|batch| &batch.writes).filter(is_question).count() as u64
}

/// Goes on after these batches to the end; answers all that was committed.
async fn go_on(
    batches: &[WriteBatch],
    run: RunId,
    expected: &(String, Vec<String>, usize),
    delay: usize,
) -> Vec<WriteBatch> {
    let bench = reading(Some(after(batches, delay).await));
    assert_eq!(
        bench.board.adopt().await.unwrap(),
        AdoptionReport { resumed: 1, closed: 0, messages: 0, deliveries: 0 }
    );
    let found = outcome(&bench, run).await;
    assert_eq!((&found.0, &found.1), (&expected.0, &expected.1));
    let executed = bench.workshop.executed().len();
    assert!(executed + results(batches) <= expected.2, "{executed} more, {} on record", results(batches));
    bench.board.0.tracker.close();
    bench.board.0.tracker.wait().await;
    let journal = bench.store.journal();
    let query = UsageQuery {
        since: None,
        group_by: UsageGrouping::Agent,
        then_by: None,
        owners: None,
        limit: 10,
        cursor: None,
    };
    let usage = bench.store.usage(query).await.unwrap().items;
    assert_eq!(usage[0].calls, opened(&journal), "each question is settled once");
    assert_eq!(bench.store.unfinished_runs().await.unwrap(), []);
    assert!(bench.board.0.run_names.lock().unwrap().is_empty());
    journal
}

async fn cut_twice(strategy: &str, delay: usize) {
    let whole = reading(Some(FaultyStore::slow(delay)));
    let plan = RunPlan { detach: true, ..plan(strategy) };
    let run = whole.ask(&on_runs(1), run_of(Some("t"), "r", "go", plan)).await.unwrap();
    let expected = outcome(&whole, run).await;
    assert_eq!(expected.0, "end Completed");
    let journal = whole.store.journal();
    for first in 1..journal.len() {
        let second_process = go_on(&journal[..first], run, &expected, delay).await;
        // Once more in the process that goes on, at a few places of it.
        for second in (first + 1..second_process.len()).step_by(2) {
            go_on(&second_process[..second], run, &expected, delay).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn react_ends_the_same() {
    for delay in [0, 1] {
        cut_twice("react", delay).await;
    }
}

#[tokio::test(start_paused = true)]
async fn dup_ends_the_same() {
    cut_twice("dup", 1).await;
}

#[tokio::test(start_paused = true)]
async fn tot_ends_the_same() {
    cut_twice("tot", 1).await;
}

#[tokio::test(start_paused = true)]
async fn got_ends_the_same() {
    for delay in [0, 1, 3] {
        cut_twice("got", delay).await;
    }
}

/// The disk is full in the middle of a run: nothing of it stays behind in this process, and the next one goes on.
async fn fails_in_the_middle(strategy: &str, delay: usize) {
    let plan = RunPlan { detach: true, ..plan(strategy) };
    let start = || run_of(Some("t"), "r", "go", plan.clone());
    let whole = reading(Some(FaultyStore::slow(delay)));
    let run = whole.ask(&on_runs(1), start()).await.unwrap();
    let expected = outcome(&whole, run).await;
    let commits = whole.store.journal().len();
    for kept in 1..commits {
        let bench = reading(Some(FaultyStore::slow(delay)));
        bench.store.fail_after(kept);
        let run = bench.ask(&on_runs(1), start()).await.unwrap();
        bench.board.0.tracker.close();
        bench.board.0.tracker.wait().await;
        bench.store.stop_failing();
        assert_eq!(bench.live_runs(), 0);
        assert!(bench.board.0.run_names.lock().unwrap().is_empty());
        assert!(bench.spent("any").await.iter().all(|(_, reserved)| *reserved == 0), "{strategy} after {kept}");
        go_on(&bench.store.journal(), run, &expected, delay).await;
        // The session is not stuck either.
        bench.ask(&on_runs(1), start()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_in_the_middle_leaves_nothing_behind() {
    for strategy in ["react", "dup", "tot", "got"] {
        for delay in [0, 1] {
            fails_in_the_middle(strategy, delay).await;
        }
    }
}

/// Plans five tasks. The second one calls a tool whenever it may, until it fails; the others answer after a while.
#[derive(Debug)]
struct Stubborn {
    takes: usize,
}

const FIVE_TASKS: &str = r#"{"nodes":[{"id":"a","description":"first"},{"id":"b","description":"second"},
    {"id":"c","description":"third"},{"id":"d","description":"fourth"},{"id":"e","description":"fifth"}],
    "edges":[["a","c"],["a","d"]]}"#;

impl ModelProvider for Stubborn {
    fn name(&self) -> &str {
        "stubborn"
    }

    fn check(&self) -> Result<(), ModelError> {
        Ok(())
    }

    fn stream(
        &self,
        request: ModelRequest,
        _stop: CancellationToken,
    ) -> BoxFuture<'_, Result<BoxStream<Result<ModelEvent, ModelError>>, ModelError>> {
        let asked: String = request.messages.iter().map(crate::model::ModelMessage::text).collect();
        let (answer, takes) = if asked.contains("\"nodes\"") && request.tools.is_empty() {
            (ModelEvent::Text(FIVE_TASKS.to_owned()), 0)
        } else if asked.contains("second") && !request.tools.is_empty() {
            let input = ToolInput::Json(json!({}).into());
            (ModelEvent::ToolCall { index: 0, id: "x".into(), name: "echo".into(), input }, 0)
        } else {
            (ModelEvent::Text("that is it".to_owned()), self.takes)
        };
        Box::pin(async move {
            for _ in 0..takes {
                tokio::task::yield_now().await;
            }
            let events = [answer, ModelEvent::Stop(StopReason::EndOfTurn)];
            Ok(Box::pin(futures_util::stream::iter(events.map(Ok))) as BoxStream<_>)
        })
    }
}

fn stubborn(store: Arc<FaultyStore>, takes: usize) -> Bench {
    bench_with([], |setup| {
        setup.agent.provider = Arc::new(Stubborn { takes });
        setup.agent.reasoning.max_model_calls = Some(12);
        setup.agent.reasoning.got.parallel = 2;
        setup.store = store;
        setup.ids = Arc::new(CountingIds::starting_at(1_000_000));
    })
}

/// A result is on record before the strategy hears of it, an answer after: the order on record is not always the order in
/// which they were heard, and which task is begun next may depend on that.
#[tokio::test(start_paused = true)]
async fn an_answer_and_a_result_at_the_same_time_are_heard_in_the_same_order_again() {
    for takes in 2..9 {
        let whole = stubborn(FaultyStore::slow(1), takes);
        let command = run_of(Some("t"), "r", "go", RunPlan { detach: true, ..plan("got") });
        let run = whole.ask(&on_runs(1), command).await.unwrap();
        let expected = outcome(&whole, run).await;
        let journal = whole.store.journal();
        for kept in 1..journal.len() {
            let bench = stubborn(after(&journal[..kept], 1).await, takes);
            let recovered = bench.board.adopt().await.unwrap();
            assert_eq!(
                recovered,
                AdoptionReport { resumed: 1, closed: 0, messages: 0, deliveries: 0 },
                "{takes}: cut after {kept}"
            );
            let found = outcome(&bench, run).await;
            assert_eq!((&found.0, &found.1), (&expected.0, &expected.1), "{takes}: cut after {kept}");
            let events = rest(bench.follow(run).await).await;
            let begun = events.iter().filter(|event| event.starts_with("found TaskStarted")).count();
            assert_eq!(begun, 5, "each task is begun once");
        }
    }
}
