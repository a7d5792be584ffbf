//! Whatever record a run is cut after, it is resumed to the same end, and what is on record is not done again.

use std::sync::Mutex;

use super::runs::{on_runs, plan, run_of};
use super::*;
use crate::model::{ContentPart, StopReason, TokenCount};
use crate::port::ModelProvider;
use crate::run_spec::reasoning::ReasoningOptions;
use crate::store::{RunState, StoreWrite, WriteBatch};

/// Answers from what it is asked alone, so that it says the same in every process.
#[derive(Debug, Default)]
pub(super) struct Reader {
    asked: Mutex<u32>,
}

impl ModelProvider for Reader {
    fn name(&self) -> &str {
        "reader"
    }

    fn check(&self) -> Result<(), crate::model::ModelError> {
        Ok(())
    }

    fn stream(
        &self,
        request: ModelRequest,
        _stop: CancellationToken,
    ) -> BoxFuture<'_, Result<BoxStream<Result<ModelEvent, crate::model::ModelError>>, crate::model::ModelError>> {
        *self.asked.lock().unwrap() += 1;
        let script: Vec<_> = answer(&request).into_iter().map(Ok).collect();
        let stream: BoxStream<_> = Box::pin(futures_util::stream::iter(script));
        Box::pin(std::future::ready(Ok(stream)))
    }
}

fn answer(request: &ModelRequest) -> Vec<ModelEvent> {
    let asked: String = request.messages.last().map(crate::model::ModelMessage::text).unwrap_or_default();
    let has_results = request
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .any(|part| matches!(part, ContentPart::ToolResult(_)));
    let mut events = vec![ModelEvent::ModelSelected { provider: "reader".into(), model: "script-1".into() }];
    let text = if asked.contains("\"nodes\"") && asked.contains("\"edges\"") && request.tools.is_empty() {
        r#"{"nodes":[{"id":"a","description":"first"},{"id":"b","description":"second"},{"id":"c","description":"join"}],"edges":[["a","c"],["b","c"]]}"#
    } else if asked.contains("CANDIDATE") {
        "CANDIDATE 1: THOUGHT: look at it closely | TOOL_CALLS: [{\"name\":\"write\",\"arguments\":{\"at\":1}}]\nCANDIDATE 2: THOUGHT: ask someone else instead | TOOL_CALLS: []"
    } else if asked.contains("scores") {
        r#"{"scores":[0.9,0.2]}"#
    } else if !request.tools.is_empty() && !has_results {
        for (index, name) in [(0, "echo"), (1, "write")] {
            let input = ToolInput::Json(json!({"for": index}).into());
            events.push(ModelEvent::ToolCall { index, id: "x".into(), name: name.into(), input });
        }
        "let me see"
    } else {
        "that is it"
    };
    events.extend(text.split_inclusive(' ').map(|piece| ModelEvent::Text(piece.to_owned())));
    events.push(ModelEvent::Usage(TokenCount { input: 1, output: 1 }));
    events.push(ModelEvent::Stop(StopReason::EndOfTurn));
    events
}

pub(super) fn reading(store: Option<Arc<FaultyStore>>) -> Bench {
    bench_with([], |setup| {
        setup.agent.provider = Arc::new(Reader::default());
        setup.agent.reasoning = ReasoningOptions::default();
        if let Some(store) = store {
            setup.store = store;
            setup.ids = Arc::new(CountingIds::starting_at(1_000_000));
        }
    })
}

/// What is left of a run: how it ended, what it said, and which results it got, by call.
pub(super) async fn outcome(bench: &Bench, run: RunId) -> (String, Vec<String>, usize) {
    let events = rest(bench.follow(run).await).await;
    let session = SessionKey::conversation("default", "runs", "local", "t");
    let query = crate::store::TurnQuery { session, limit: 10, before: None };
    let turns = bench.store.turns(query).await.unwrap().items;
    let said = turns.iter().flat_map(|turn| turn.messages.iter().map(crate::model::ModelMessage::text)).collect();
    let results = events.iter().filter(|event| event.starts_with("result")).count();
    (events.last().cloned().unwrap_or_default(), said, results)
}

async fn cut_everywhere(strategy: &str, results: usize) {
    let whole = reading(None);
    let run = whole.ask(&on_runs(1), run_of(Some("t"), "r", "go", plan(strategy))).await.unwrap();
    let expected = outcome(&whole, run).await;
    assert_eq!((&*expected.0, expected.2), ("end Completed", results), "{strategy}");
    let row = whole.store.run(run).await.unwrap().unwrap();
    let records = whole.store.events(&Topic::Run(run), Seq::FIRST, 10_000).await.unwrap();
    for kept in 2..records.len() {
        let store = FaultyStore::new();
        let mut writes = vec![StoreWrite::OpenRun(crate::store::RunRow { state: RunState::Running, ..row.clone() })];
        writes.extend(records[..kept].iter().cloned().map(StoreWrite::Event));
        store.commit(WriteBatch::boundary(writes)).await.unwrap();
        let bench = reading(Some(store));
        let recovered = bench.board.adopt().await.unwrap();
        assert_eq!(recovered.resumed, 1, "{strategy} cut after {kept}");
        let found = outcome(&bench, run).await;
        let on_record = records[..kept].iter().filter(|record| short(record).starts_with("result")).count();
        let cut_after = short(&records[kept - 1]);
        // A call that was cut off is told as such to the model, which then has one good result less.
        assert_eq!((&found.0, &found.1), (&expected.0, &expected.1), "{strategy} cut after {kept}: {cut_after}");
        let executed = bench.workshop.executed().len();
        assert!(
            executed + on_record <= expected.2,
            "{strategy} cut after {kept} ({cut_after}): {on_record} on record, {executed} more, {} in all",
            expected.2
        );
    }
}

#[tokio::test(start_paused = true)]
async fn react_ends_the_same() {
    cut_everywhere("react", 2).await;
}

#[tokio::test(start_paused = true)]
async fn dup_ends_the_same() {
    cut_everywhere("dup", 2).await;
}

#[tokio::test(start_paused = true)]
async fn tot_ends_the_same() {
    cut_everywhere("tot", 1).await;
}

#[tokio::test(start_paused = true)]
async fn got_ends_the_same() {
    cut_everywhere("got", 6).await;
}
