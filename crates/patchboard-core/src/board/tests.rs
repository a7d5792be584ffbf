//! The whole board on a store in memory, a scripted model and a clock that stands still. Each file is one topic.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::Semaphore;

use super::*;
use crate::agent::{AgentBinding, AgentSpec};
use crate::budget::price::ModelPrice;
use crate::caller::{GrantSet, Surface};
use crate::command::{BudgetStatus, FolderChoice, PageRequest, ReadHistory, RunKind, RunRef, SessionRef, StartRun};
use crate::conversation::ConversationOrigin;
use crate::error::ErrorKind;
use crate::event::{Event, InputAnswer, InputKind, ModelCallOutcome};
use crate::faulty::FaultyStore;
use crate::hub::HubOptions;
use crate::hub::notice::NoticeOptions;
use crate::id::{ConnectionId, SessionKey};
use crate::model::{ModelEvent, ModelRequest, ToolInput};
use crate::port::SchemaViolation;
use crate::run_spec::StrategyKind;
use crate::scripted::{
    AcceptAnyArguments, AcceptAnyFolder, CountingIds, FixedSoul, ManualClock, Script, ScriptStep, ScriptedModel,
    answering, call, say,
};
use crate::store::{AuditRow, ResultPage, RunRow, TurnRow};
use crate::tool::Glob;

mod accounts;
mod agents;
mod approvals;
mod budgets;
mod cancelling;
mod channels;
mod chat;
mod cut_anywhere;
mod cut_twice;
mod durable_waits;
mod endings;
mod engine;
mod extensions;
mod folders;
mod keys;
mod limits;
mod models;
mod plugin_host;
mod plugins;
mod programs;
mod recall;
mod records;
mod request_spans;
mod resuming;
mod run_queries;
mod runs;
mod session_owners;
mod settings;
mod storm;
mod tools;
mod two_boards;
mod workshop;
mod workspaces;

use workshop::Workshop;

/// What a test may want otherwise than usual.
struct Setup {
    store: Arc<FaultyStore>,
    clock: Arc<ManualClock>,
    ids: Arc<CountingIds>,
    model: Arc<ScriptedModel>,
    agent: AgentSpec,
    soul: Option<Arc<str>>,
    budgets: BudgetLimits,
    policy: ApprovalPolicy,
    schemas: Arc<dyn SchemaValidator>,
    memory: MemoryOptions,
    limits: BoardLimits,
    /// Besides the default one.
    agents: Vec<AgentSpec>,
    bindings: Vec<AgentBinding>,
    /// Besides the workshop.
    tools: Vec<Arc<dyn ToolHost>>,
    /// Before the workshop, so that their names win.
    tools_first: Vec<Arc<dyn ToolHost>>,
    pools: Vec<Arc<dyn ToolHost>>,
    workers: Option<Arc<dyn crate::port::WorkerSupervisor>>,
    plugins: Option<Arc<dyn PluginRuntime>>,
    channels: Vec<ChannelOptions>,
    bridge: crate::bridge::BridgeOptions,
    folders: Arc<dyn WorkingFolders>,
}

struct Bench {
    board: Board,
    store: Arc<FaultyStore>,
    clock: Arc<ManualClock>,
    model: Arc<ScriptedModel>,
    workshop: Arc<Workshop>,
}

type Followed = BoxStream<Result<Arc<Envelope>, BoardError>>;

fn bench(scripts: impl IntoIterator<Item = Script>) -> Bench {
    bench_with(scripts, |_| {})
}

fn bench_with(scripts: impl IntoIterator<Item = Script>, change: impl FnOnce(&mut Setup)) -> Bench {
    let model = ScriptedModel::new(scripts);
    let mut setup = Setup {
        store: FaultyStore::new(),
        clock: Arc::default(),
        ids: Arc::default(),
        agent: AgentSpec {
            name: "default".into(),
            provider: model.clone(),
            model: "script-1".into(),
            strategy: StrategyKind::React,
            reasoning: crate::run_spec::reasoning::ReasoningOptions::default(),
            source: crate::run_spec::AgentSource::User,
            description: None,
            max_tokens: 1000,
            temperature: None,
            system_prompt: None,
            tools: None,
            budget: BudgetLimits::default(),
            max_run_tokens: None,
            run_timeout: Duration::from_secs(24 * 3600),
            context_window: 100_000,
        },
        model,
        soul: None,
        budgets: BudgetLimits::default(),
        policy: ApprovalPolicy::default(),
        schemas: Arc::new(AcceptAnyArguments),
        memory: MemoryOptions::default(),
        limits: BoardLimits::default(),
        agents: Vec::new(),
        bindings: Vec::new(),
        tools: Vec::new(),
        tools_first: Vec::new(),
        pools: Vec::new(),
        workers: None,
        plugins: None,
        channels: Vec::new(),
        bridge: crate::bridge::BridgeOptions::default(),
        folders: Arc::new(AcceptAnyFolder),
    };
    change(&mut setup);
    let Setup { store, clock, ids, model, agent, soul, budgets, policy, schemas, memory, limits, .. } = setup;
    let workshop = Arc::new(Workshop::new(store.clone()));
    let mut tools = setup.tools_first;
    tools.push(workshop.clone());
    tools.extend(setup.tools);
    let mut agents = vec![agent];
    agents.extend(setup.agents);
    let board = Board::assemble(BoardParts {
        store: store.clone(),
        clock: clock.clone(),
        ids,
        agents: AgentTable::new(agents, setup.bindings).unwrap(),
        pools: setup.pools,
        workers: setup.workers,
        plugins: setup.plugins,
        channels: setup.channels,
        telemetry: crate::bridge::TelemetryBus::default(),
        bridge: setup.bridge,
        tools,
        schemas,
        souls: Arc::new(FixedSoul(soul)),
        folders: setup.folders,
        embedder: None,
        budgets,
        prices: PriceTable(vec![ModelPrice { model: Glob::new("script-*"), input: 1.0, output: 2.0 }]),
        memory,
        hub: HubOptions::default(),
        notices: NoticeOptions::default(),
        sinks: Vec::new(),
        approval_policy: policy,
        limits,
        version: "0.0.0-test",
    });
    Bench { board, store, clock, model, workshop }
}

fn caller(connection: u64) -> Caller {
    Caller {
        surface: Surface::Gateway,
        principal: "local".into(),
        connection: ConnectionId(connection),
        grants: GrantSet::CLIENT,
    }
}

fn stranger() -> Caller {
    Caller { principal: "stranger".into(), ..caller(99) }
}

fn operator() -> Caller {
    Caller { principal: "operator".into(), grants: GrantSet::OPERATOR, ..caller(98) }
}

fn origin(account: &str) -> ConversationOrigin {
    ConversationOrigin { channel: "web".into(), account: account.into(), peer: None, guild: None, team: None }
}

fn session(account: &str) -> SessionKey {
    origin(account).session_key("default")
}

fn start(account: &str, content: &str) -> StartRun {
    StartRun {
        origin: origin(account),
        content: content.into(),
        client_id: content.into(),
        model: None,
        client_tools: Vec::new(),
        folder: FolderChoice::Configured,
        kind: RunKind::Chat { agent: None },
    }
}

fn closed_gate() -> (Arc<Semaphore>, ScriptStep) {
    let gate = Arc::new(Semaphore::new(0));
    (gate.clone(), ScriptStep::Wait(gate))
}

/// A cancellation that a store which stalls cannot acknowledge yet.
fn cancel_in_background(bench: &Bench, run: RunId) -> tokio::task::JoinHandle<Result<(), BoardError>> {
    let cancel = crate::command::CancelRun(run);
    TaskTracker::new().spawn(bench.board.ask(&operator(), cancel, CancellationToken::new()))
}

/// Until no run is worked on: those whose end could not be recorded have been released.
async fn until_released(bench: &Bench) {
    for _ in 0..1000 {
        if bench.live_runs() == 0 {
            return;
        }
        let_others_run().await;
    }
    panic!("a run is still at work");
}

/// Until every other task waits for something. There is one thread, so a bounded number of turns is enough.
async fn let_others_run() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// An answer that says `pieces`, then waits at the gate before it ends.
fn say_and_wait(pieces: &[&str], gate: ScriptStep) -> Script {
    let mut script = say(pieces, 10, 5);
    script.insert(pieces.len() + 1, gate);
    script
}

type AskFn = dyn Fn(&Bench, &Caller) -> BoxFuture<'static, Result<(), BoardError>>;

/// A command of any type, for tests that try several and look only at whether they are refused.
#[derive(Clone)]
struct AnyCommand {
    text: String,
    ask: Rc<AskFn>,
}

impl AnyCommand {
    fn new(command: impl BoardCommand + Clone) -> Self {
        let text = format!("{command:?}");
        let ask = move |bench: &Bench, caller: &Caller| -> BoxFuture<'static, Result<(), BoardError>> {
            let reply = bench.ask(caller, command.clone());
            Box::pin(async move { reply.await.map(drop) })
        };
        Self { text, ask: Rc::new(ask) }
    }

    async fn ask(&self, bench: &Bench, caller: &Caller) -> Result<(), BoardError> {
        (self.ask)(bench, caller).await
    }
}

impl fmt::Debug for AnyCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Bench {
    /// An ask whose token nobody cancels.
    fn ask<C: BoardCommand>(&self, caller: &Caller, command: C) -> CommandFuture<C> {
        self.board.ask(caller, command, CancellationToken::new())
    }

    async fn start(&self, account: &str, content: &str) -> RunId {
        self.ask(&caller(1), start(account, content)).await.unwrap()
    }

    async fn follow(&self, run: RunId) -> Followed {
        self.board.follow(&caller(1), Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced).await.unwrap()
    }

    /// Starts a run and follows it at once, as a surface does.
    async fn begin(&self, account: &str, content: &str) -> (RunId, Followed) {
        let run = self.start(account, content).await;
        (run, self.follow(run).await)
    }

    /// One whole turn: its events in short.
    async fn chat(&self, account: &str, content: &str) -> Vec<String> {
        let (_, followed) = self.begin(account, content).await;
        rest(followed).await
    }

    async fn history(&self, account: &str) -> Vec<TurnRow> {
        let session = SessionRef::Origin(origin(account));
        let command = ReadHistory { session, page: PageRequest::new(None, None) };
        self.ask(&caller(1), command).await.unwrap().turns.items
    }

    /// What was said in the stored turns, in order.
    async fn said(&self, account: &str) -> Vec<String> {
        self.history(account)
            .await
            .iter()
            .flat_map(|turn| turn.messages.iter().map(crate::model::ModelMessage::text))
            .collect()
    }

    /// `(used, reserved)` of session, day and month.
    async fn spent(&self, account: &str) -> [(u64, u64); 3] {
        let command = BudgetStatus { session: Some(SessionRef::Origin(origin(account))) };
        let report = self.ask(&caller(1), command).await.unwrap();
        [report.session.unwrap(), report.daily, report.monthly].map(|line| (line.used, line.reserved))
    }

    async fn audit(&self) -> Vec<AuditRow> {
        let ResultPage { items, .. } = self.store.audit(100, None).await.unwrap();
        items
    }

    /// The run as stored, whoever asks: its events in short.
    async fn stored(&self, run: RunId) -> Vec<String> {
        self.store
            .events(&Topic::Run(run), Seq::FIRST, 1000)
            .await
            .unwrap()
            .iter()
            .map(|record| short(record))
            .collect()
    }

    /// How many tools there are.
    fn offered(&self) -> usize {
        self.board.0.run_deps.registry.tool_set_for_agent(None, None).specs.len()
    }

    fn live_runs(&self) -> usize {
        self.board.live_runs().len()
    }

    /// The last request's messages as text, tool traffic included.
    fn last_prompt(&self) -> Vec<String> {
        prompt(self.model.requests().last().expect("a request"))
    }
}

fn prompt(request: &ModelRequest) -> Vec<String> {
    use crate::model::ContentPart;
    let words = |part: &ContentPart| match part {
        ContentPart::Text(text) => text.to_string(),
        ContentPart::ToolCall(call) => format!("<call {}>", call.name),
        ContentPart::ToolResult(result) if result.is_error => format!("<error {}>", result.content),
        ContentPart::ToolResult(result) => format!("<result {}>", result.content),
    };
    request.messages.iter().map(|message| message.parts.iter().map(words).collect::<String>()).collect()
}

/// Time is paused, so this passes only when nothing else is left to happen: a test fails instead of hanging.
const FOR_EVER: Duration = Duration::from_secs(30 * 24 * 3600);

async fn next(followed: &mut Followed) -> Option<Arc<Envelope>> {
    let record = tokio::time::timeout(FOR_EVER, followed.next()).await.expect("something happens");
    record.map(Result::unwrap)
}

/// Everything still to come, in short; checks that no number is missing or told twice.
async fn rest(mut followed: Followed) -> Vec<String> {
    let mut events = Vec::new();
    let mut expected: Option<Seq> = None;
    while let Some(record) = next(&mut followed).await {
        assert_eq!(expected.unwrap_or(record.seq), record.seq, "numbers follow each other");
        expected = Some(record.last_seq().next());
        events.push(short(&record));
    }
    events
}

/// Reads up to the first event that starts with `wanted`.
async fn until(followed: &mut Followed, wanted: &str) -> Arc<Envelope> {
    loop {
        let record = next(followed).await.unwrap_or_else(|| panic!("the stream ended before `{wanted}`"));
        if short(&record).starts_with(wanted) {
            return record;
        }
    }
}

fn number(record: &Envelope) -> String {
    record.node.map_or_else(String::new, |node| format!("-{node}"))
}

fn short(record: &Envelope) -> String {
    let tool_input = |input: &ToolInput| match input {
        ToolInput::Json(value) => value.to_string(),
        ToolInput::Malformed(text) => format!("malformed {text}"),
    };
    match &record.event {
        Event::RunStarted { session, agent, .. } => format!("started {session} by {agent}"),
        Event::AnswerText(pieces) => format!("text {}", pieces.iter().collect::<Vec<_>>().join("|")),
        Event::ThoughtText(pieces) => format!("thought {}", pieces.iter().collect::<Vec<_>>().join("|")),
        Event::ToolRequested(call) => format!("call {} {}", call.name, tool_input(&call.input)),
        Event::ToolFinished { output, .. } if output.is_error => format!("error {}", output.content),
        Event::ToolFinished { output, .. } => format!("result {}", output.content),
        Event::InputRequested(request) => match &request.kind {
            InputKind::Approval { call, .. } => format!("may {} run", call.name),
            InputKind::ClientToolCall(call) => format!("client runs {} {}", call.name, tool_input(&call.input)),
            InputKind::Question { message, .. } => format!("asks {message}"),
        },
        Event::InputProvided { answer, by, .. } => match answer {
            InputAnswer::ToolResult { .. } | InputAnswer::Answered(_) => format!("{} by {by}", answer.name()),
            InputAnswer::Approved
            | InputAnswer::ApprovedForSession
            | InputAnswer::Refused
            | InputAnswer::Expired
            | InputAnswer::Withdrawn => format!("approved {} by {by}", answer.is_approval()),
        },
        Event::ModelUsage(note) => {
            let mark = if note.estimated { " estimated" } else { "" };
            format!("usage {}+{}{mark}", note.tokens.input, note.tokens.output)
        }
        Event::RunResumed => "resumed".to_owned(),
        Event::RunBriefed(briefing) => format!("briefed {} for {}", briefing.strategy.name(), briefing.client_id),
        Event::NodeEntered { name, is_reentry: false, .. } => format!("enter {name}{}", number(record)),
        Event::NodeEntered { name, is_reentry: true, .. } => format!("enter {name}{} again", number(record)),
        Event::NodeLeft(outcome) => format!("leave{} {outcome:?}", number(record)),
        Event::DraftText(pieces) => format!("draft {}", pieces.iter().collect::<Vec<_>>().join("|")),
        Event::ToolArguments { name, pieces, is_first: begins, .. } => {
            let mark = if *begins { "" } else { "…" };
            format!("arguments {mark}{name} {}", pieces.iter().collect::<Vec<_>>().join("|"))
        }
        Event::ModelCallEnded(ModelCallOutcome::Completed { calls, .. }) => {
            format!("answered with {}", calls.iter().map(|call| &*call.name).collect::<Vec<_>>().join(","))
        }
        Event::ModelCallEnded(ModelCallOutcome::Failed(message)) => format!("not answered: {message}"),
        Event::FindingRecorded(finding) => format!("found {finding:?}"),
        Event::ToolStarted { name, .. } => format!("tool {name}"),
        Event::ToolProgress { pieces, .. } => format!("said {}", pieces.iter().collect::<Vec<_>>().join("|")),
        Event::RunFailed { message } => format!("failed {message}"),
        Event::RunEnded { outcome } => format!("end {outcome:?}"),
        Event::Message(event) => format!("message {event:?}"),
    }
}
