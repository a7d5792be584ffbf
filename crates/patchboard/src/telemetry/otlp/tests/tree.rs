//! One run of a real board with a scripted model, a tool and a pool of workers, seen as a trace.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::board::BoardParts;
use patchboard_core::bridge::{MeasuredValue, TelemetryBus, TelemetryEvent};
use patchboard_core::caller::{Caller, GrantSet, Surface};
use patchboard_core::command::{ListAgents, RunKind, StartRun};
use patchboard_core::conversation::ConversationOrigin;

use patchboard_core::id::ConnectionId;
use patchboard_core::model::{ModelError, ToolCall};
use patchboard_core::port::ToolScope;

use patchboard_core::port::{Clock, ToolHost};
use patchboard_core::scripted::{ManualClock, Script, ScriptStep, call, say};
use patchboard_core::tool::{ToolEffect, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use patchboard_core::{Board, trace};
use patchboard_testkit::board::TestBoard;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::telemetry::otlp::span::TraceSampler;
use crate::telemetry::otlp::{AttributeValue, FinishedSpan, IdSource, SpanQueue, TraceLayer, TraceSpanKind, layer};
use crate::telemetry::watch_worker_events;

const CLIENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const CLIENT_UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

type Position = Option<Arc<str>>;

/// Keeps where it was called from.
#[derive(Debug)]
struct Tool {
    name: &'static str,
    kind: ToolKind,
    /// The position it found itself at, and the one that travelled to it.
    seen: Mutex<Vec<(Position, Position)>>,
}

impl Tool {
    fn new(name: &'static str, kind: ToolKind) -> Arc<Self> {
        Arc::new(Self { name, kind, seen: Mutex::default() })
    }
}

impl ToolHost for Tool {
    fn kind(&self) -> ToolKind {
        self.kind
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        Arc::new([ToolSpec {
            name: self.name.into(),
            description: "it does".into(),
            input_schema: json!({"type": "object"}).into(),
            effect: ToolEffect::ReadOnly,
            unknown_outcome: UnknownOutcomePolicy::Retry,
            timeout: None,
            kind: self.kind,
            traits: None,
        }])
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        _call: &'a ToolCall,
        arguments: &'a Json,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let travelled = scope.call_metadata.as_ref().and_then(|call_metadata| call_metadata.trace.clone());
            self.seen.lock().unwrap().push((trace::current_traceparent(), travelled));
            match arguments["fail"] == true {
                true => ToolOutput::error("a private reason"),
                false => ToolOutput::ok("a private answer"),
            }
        })
    }
}

struct Bench {
    board: Board,
    signals: TelemetryBus,
    local: Arc<Tool>,
    worker: Arc<Tool>,
    spans: SpanQueue,
    finished: mpsc::Receiver<FinishedSpan>,
    _subscriber: tracing::subscriber::DefaultGuard,
}

fn bench(ratio: f64, scripts: impl IntoIterator<Item = Script>) -> Bench {
    let clock: Arc<ManualClock> = Arc::default();
    let (spans, finished) = SpanQueue::new(IdSource::starting_at(1));
    let layer = TraceLayer::new(spans.clone(), TraceSampler::new(ratio), clock.clone());
    trace::install_backend(layer::SPAN_BACKEND);
    // Nothing is logged: traces do not depend on it.
    let logs = tracing_subscriber::fmt::layer().with_writer(std::io::sink).with_filter(EnvFilter::new("off"));
    let subscriber = tracing_subscriber::registry().with(logs).with(layer.with_filter(TraceLayer::filter()));
    let subscriber = tracing::subscriber::set_default(subscriber);
    let (local, worker) = (Tool::new("look", ToolKind::BuiltIn), Tool::new("add", ToolKind::Worker));
    let signals = TelemetryBus::default();
    let change = |parts: &mut BoardParts| {
        parts.clock = clock;
        parts.tools = vec![local.clone()];
        parts.pools = vec![worker.clone()];
        parts.telemetry = signals.clone();
    };
    let board = TestBoard::new(scripts).with(change).assemble();
    Bench { board, signals, local, worker, spans, finished, _subscriber: subscriber }
}

impl Bench {
    /// Lets a client ask for one run and waits until it is over. Spans are in the order of their ends.
    async fn run(&mut self, traceparent: Option<&str>) -> Vec<FinishedSpan> {
        let caller = Caller {
            surface: Surface::Gateway,
            principal: "someone".into(),
            connection: ConnectionId(7),
            grants: GrantSet::CLIENT,
        };
        let origin = ConversationOrigin {
            channel: "test".to_owned(),
            account: "a".to_owned(),
            peer: None,
            guild: None,
            team: None,
        };
        let start = StartRun {
            client_tools: Vec::new(),
            origin,
            content: "a private question".into(),
            client_id: "1".into(),
            model: None,

            folder: Default::default(),
            kind: RunKind::Chat { agent: None },
        };
        let asking = self.board.ask_traced(&caller, start, CancellationToken::new(), traceparent);
        asking.await.unwrap();
        self.board.drain(Duration::from_secs(60)).await.unwrap();
        self.finished()
    }

    fn finished(&mut self) -> Vec<FinishedSpan> {
        std::iter::from_fn(|| self.finished.try_recv().ok()).collect()
    }
}

fn find<'a>(spans: &'a [FinishedSpan], name: &str) -> Vec<&'a FinishedSpan> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn text<'a>(span: &'a FinishedSpan, key: &str) -> Option<&'a str> {
    span.attributes.iter().find(|(name, _)| *name == key).and_then(|(_, value)| match value {
        AttributeValue::Text(text) => Some(text.as_str()),
        AttributeValue::Int(_) | AttributeValue::Float(_) | AttributeValue::Bool(_) => None,
    })
}

fn two_tools() -> [Script; 2] {
    [call(&[("look", json!({})), ("add", json!({}))], 10, 5), say(&["done"], 20, 6)]
}

#[tokio::test]
async fn client_request_run_tool_worker() {
    let mut bench = bench(0.0, two_tools());
    let spans = bench.run(Some(CLIENT)).await;
    let client = trace::TraceParent::parse(CLIENT).unwrap();
    assert!(spans.iter().all(|span| span.trace == client.trace), "one trace: {spans:#?}");
    let mut names: Vec<&str> = spans.iter().map(|span| &*span.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["model_call", "model_call", "request", "run", "tool_call", "tool_call"]);

    let [request] = find(&spans, "request")[..] else { panic!("{spans:#?}") };
    let [run] = find(&spans, "run")[..] else { panic!("{spans:#?}") };
    assert_eq!((request.parent, request.kind), (Some(client.span), TraceSpanKind::Server));
    assert_eq!((run.parent, run.kind), (Some(request.span), TraceSpanKind::Internal));
    for (name, kinds) in
        [("model_call", [TraceSpanKind::Client; 2]), ("tool_call", [TraceSpanKind::Internal, TraceSpanKind::Client])]
    {
        let found = find(&spans, name);
        assert!(found.iter().all(|span| span.parent == Some(run.span) && span.error.is_none()), "{found:#?}");
        assert_eq!(found.iter().map(|span| span.kind).collect::<Vec<_>>(), kinds);
    }

    // Where the tools were, and what travelled to the worker.
    let [looked, added] = find(&spans, "tool_call")[..] else { panic!("{spans:#?}") };
    let at = |span: &FinishedSpan| {
        let position = trace::TraceParent { trace: span.trace, span: span.span, is_sampled: true };
        Some(Arc::<str>::from(position.to_string()))
    };
    assert_eq!(*bench.local.seen.lock().unwrap(), [(at(looked), None)]);
    assert_eq!(*bench.worker.seen.lock().unwrap(), [(at(added), at(added))]);

    // The worker tells of its own part.
    let stop = CancellationToken::new();
    let watching = watch_worker_events(bench.signals.subscribe(), Some(bench.spans.clone()), stop.clone());
    bench.signals.emit(|| {
        TelemetryEvent::new("tool.execution.stop", ManualClock::default().now())
            .with_metadata("traceparent", at(added).unwrap())
            .with_metadata("tool", "add")
            .with_metadata("worker_id", "w-1")
            .with_metadata("pool_name", "python")
            .with_measure("duration", MeasuredValue::Int(1_500_000_000))
            .with_measure("python_pid", MeasuredValue::Int(4711))
    });
    tokio::pin!(watching);
    let work = tokio::select! {
        work = bench.finished.recv() => work.unwrap(),
        () = &mut watching => panic!("it watches until it is stopped"),
    };
    stop.cancel();
    watching.await;
    let end = ManualClock::default().now();
    let expected = FinishedSpan {
        trace: client.trace,
        span: work.span,
        parent: Some(added.span),
        name: "worker add".into(),
        kind: TraceSpanKind::Server,
        start: end - Duration::from_millis(1500),
        end,
        attributes: vec![
            ("tool.name", AttributeValue::text("add")),
            ("gen_ai.tool.name", AttributeValue::text("add")),
            ("worker_id", AttributeValue::text("w-1")),
            ("pool_name", AttributeValue::text("python")),
            ("python_pid", AttributeValue::Int(4711)),
        ],
        error: None,
    };
    assert_eq!(work, expected);
}

#[tokio::test]
async fn attributes() {
    let mut bench = bench(1.0, two_tools());
    let spans = bench.run(None).await;
    let of = |span: &FinishedSpan| {
        let line = |(key, value): &(&str, AttributeValue)| match value {
            AttributeValue::Text(text) => format!("{key}={text}"),
            AttributeValue::Int(number) => format!("{key}={number}"),
            AttributeValue::Float(number) => format!("{key}={number}"),
            AttributeValue::Bool(flag) => format!("{key}={flag}"),
        };
        span.attributes.iter().map(line).collect::<Vec<_>>()
    };
    let run = find(&spans, "run")[0];
    assert_eq!(of(find(&spans, "request")[0]), ["surface=gateway", "request.name=start_run", "conn.id=7"]);
    let id = text(run, "run.id").unwrap();
    let session = text(run, "session.key").unwrap();
    assert_eq!(
        of(run),
        [
            format!("run.id={id}").as_str(),
            &format!("session.key={session}"),
            "agent.name=default",
            "run.outcome=completed",
            "gen_ai.operation.name=invoke_agent",
            &format!("gen_ai.conversation.id={session}"),
            "gen_ai.agent.name=default",
        ]
    );
    assert_eq!(
        of(find(&spans, "model_call")[0]),
        [
            "model.provider=scripted",
            "model.name=script-1",
            "model.answered=script-1",
            "tokens.input=10",
            "tokens.output=5",
            "gen_ai.operation.name=chat",
            "gen_ai.provider.name=scripted",
            "gen_ai.request.model=script-1",
            "gen_ai.response.model=script-1",
            "gen_ai.usage.input_tokens=10",
            "gen_ai.usage.output_tokens=5",
        ]
    );
    let tool = find(&spans, "tool_call")[1];
    let call = text(tool, "tool.call_id").unwrap();
    assert_eq!(
        of(tool),
        [
            "tool.name=add",
            "tool.kind=worker",
            &format!("tool.call_id={call}"),
            "gen_ai.operation.name=execute_tool",
            "gen_ai.tool.name=add",
            &format!("gen_ai.tool.call.id={call}"),
        ]
    );
    assert!(!format!("{spans:?}").contains("private"), "nothing that was said is sent");
}

#[tokio::test]
async fn failures_are_marked() {
    let scripts = [
        call(&[("look", json!({"fail": true}))], 10, 5),
        vec![ScriptStep::Fail(ModelError::Rejected("a private refusal".to_owned()))],
    ];
    let mut bench = bench(1.0, scripts);
    let spans = bench.run(None).await;
    let errors = |name| find(&spans, name).iter().map(|span| span.error.as_deref()).collect::<Vec<_>>();
    assert_eq!(errors("request"), [None]);
    assert_eq!(errors("tool_call"), [Some("tool_error")]);
    assert_eq!(errors("model_call"), [None, Some("rejected")]);
    assert_eq!(errors("run"), [Some("failed")]);
    assert!(!format!("{spans:?}").contains("private"), "nothing that was said is sent");
}

#[tokio::test]
async fn which_traces_are_kept() {
    for (ratio, client, kept) in [
        (0.0, None, 0),
        (1.0, None, 3),
        // The caller that began the trace decides.
        (0.0, Some(CLIENT), 3),
        (1.0, Some(CLIENT_UNSAMPLED), 0),
        // What is no position begins a new trace.
        (1.0, Some("00-nonsense"), 3),
        (0.0, Some("00-nonsense"), 0),
    ] {
        let mut bench = bench(ratio, [say(&["hello"], 1, 1)]);
        let spans = bench.run(client).await;
        assert_eq!(spans.len(), kept, "{ratio} {client:?}");
    }
}

/// Even where nothing is kept here, a worker goes on with the client's trace.
#[tokio::test]
async fn a_trace_that_is_not_kept_is_still_passed_on() {
    let mut bench = bench(1.0, [call(&[("add", json!({}))], 1, 1), say(&["done"], 1, 1)]);
    assert_eq!(bench.run(Some(CLIENT_UNSAMPLED)).await, []);
    let seen = bench.worker.seen.lock().unwrap().clone();
    let [(_, Some(travelled))] = &seen[..] else { panic!("{seen:?}") };
    let travelled = trace::TraceParent::parse(travelled).unwrap();
    let client = trace::TraceParent::parse(CLIENT_UNSAMPLED).unwrap();
    assert_eq!((travelled.trace, travelled.is_sampled), (client.trace, false));
    assert_ne!(travelled.span, client.span);
}

#[tokio::test]
async fn what_only_looks_something_up_is_no_request() {
    let mut bench = bench(1.0, []);
    let caller = Caller {
        surface: Surface::Cli,
        principal: "operator".into(),
        connection: ConnectionId(1),
        grants: GrantSet::OPERATOR,
    };
    bench.board.ask_traced(&caller, ListAgents, CancellationToken::new(), Some(CLIENT)).await.unwrap();
    assert_eq!(bench.finished(), []);
}
