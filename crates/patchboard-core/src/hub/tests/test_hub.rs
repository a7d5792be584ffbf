//! A hub on its own board, with apps that do what a test scripts. Time is paused: waiting for an event that never comes
//! fails the test instead of hanging it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::{AgentSpec, AgentTable};
use crate::app::TokenHash;
use crate::app::message::{AppNotice, AppResponse, MessageEvent, MessageReport};
use crate::app::{AppDelivery, AppProfile, InputMethod, NoticePriority, UserNotice};
use crate::approval::policy::ApprovalPolicy;
use crate::board::{Board, BoardCommand, BoardLimits, BoardParts, CommandFuture, RetentionPolicy};
use crate::budget::BudgetLimits;
use crate::budget::price::PriceTable;
use crate::caller::{Caller, GrantSet, Surface};
use crate::command::{
    AnswerMessage, CancelMessage, ConfirmAppAlive, DeregisterApp, ListMessages, NextInboxEvent, PageRequest,
    ReadMessage, RegisterApp, ResendMessage, SubmitMessage,
};
use crate::error::BoardError;
use crate::event::{Event, Topic};
use crate::faulty::FaultyStore;
use crate::hub::HubOptions;
use crate::hub::notice::NoticeOptions;
use crate::id::{ConnectionId, MessageId, Seq};
use crate::memory::MemoryOptions;
use crate::port::NoticeSink;
use crate::reply::{InboxEvent, RegistrationRefusal};
use crate::run_spec::StrategyKind;
use crate::scripted::{
    AcceptAnyArguments, AcceptAnyFolder, CountingIds, FixedSoul, ManualClock, Script, ScriptedModel,
};
use crate::store::Store;

/// Words that relate to no app.
pub(crate) const GIBBERISH: &str = "zxqv blorp wub";

/// Settings that differ from the defaults in a test.
pub(crate) struct TestSetup {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) first_id: u64,
    pub(crate) hub: HubOptions,
    pub(crate) budgets: BudgetLimits,
    pub(crate) model: Arc<ScriptedModel>,
}

pub(crate) struct TestHub {
    pub(crate) board: Board,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) shown: Arc<ShownNotices>,
}

/// Notices that reached the user.
#[derive(Debug, Default)]
pub(crate) struct ShownNotices(Mutex<Vec<Arc<UserNotice>>>);

impl NoticeSink for ShownNotices {
    fn name(&self) -> &'static str {
        "console"
    }

    fn show(&self, notice: Arc<UserNotice>, _stop: CancellationToken) -> BoxFuture<'_, Result<(), String>> {
        self.0.lock().unwrap().push(notice);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl ShownNotices {
    pub(crate) fn titles(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|notice| notice.title.to_string()).collect()
    }

    pub(crate) fn bodies(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|notice| notice.body.to_string()).collect()
    }
}

pub(crate) fn test_hub() -> TestHub {
    test_hub_with(|_| {})
}

/// A hub with a model as its last stage that follows these scripts.
pub(crate) fn with_model(scripts: impl IntoIterator<Item = Script>) -> TestHub {
    test_hub_with(|setup| {
        setup.hub.agent = Some("default".into());
        scripts.into_iter().for_each(|script| setup.model.push(script));
    })
}

/// The next process on the same store.
pub(crate) fn restarted(before: &TestHub) -> TestHub {
    on_store(before.store.clone())
}

pub(crate) fn on_store(store: Arc<FaultyStore>) -> TestHub {
    test_hub_with(|setup| {
        setup.store = store;
        setup.first_id = 1_000_000;
    })
}

pub(crate) fn test_hub_with(change: impl FnOnce(&mut TestSetup)) -> TestHub {
    let mut setup = TestSetup {
        store: FaultyStore::new(),
        clock: Arc::default(),
        first_id: 0,
        hub: HubOptions::default(),
        budgets: BudgetLimits::default(),
        model: ScriptedModel::new([]),
    };
    change(&mut setup);
    let TestSetup { store, clock, first_id, hub, budgets, model } = setup;
    let agent = AgentSpec {
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
    };
    let shown = Arc::new(ShownNotices::default());
    let board = Board::assemble(BoardParts {
        store: store.clone(),
        clock: clock.clone(),
        ids: Arc::new(CountingIds::starting_at(first_id)),
        agents: AgentTable::new(vec![agent], Vec::new()).unwrap(),
        pools: Vec::new(),
        workers: None,
        plugins: None,
        channels: Vec::new(),
        telemetry: crate::bridge::TelemetryBus::default(),
        bridge: crate::bridge::BridgeOptions::default(),
        tools: Vec::new(),
        schemas: Arc::new(AcceptAnyArguments),
        souls: Arc::new(FixedSoul(None)),
        folders: Arc::new(AcceptAnyFolder),
        embedder: None,
        budgets,
        prices: PriceTable(Vec::new()),
        memory: MemoryOptions::default(),
        hub,
        notices: NoticeOptions { per_minute: 1000, ..NoticeOptions::default() },
        sinks: vec![shown.clone()],
        approval_policy: ApprovalPolicy::default(),
        limits: BoardLimits::default(),
        version: "0.0.0-test",
    });
    TestHub { board, store, clock, model, shown }
}

/// The user, through the hub itself.
pub(crate) fn user() -> Caller {
    Caller { surface: Surface::Hub, principal: "local".into(), connection: ConnectionId(1), grants: GrantSet::CLIENT }
}

pub(crate) fn operator() -> Caller {
    Caller { principal: "operator".into(), grants: GrantSet::OPERATOR, connection: ConnectionId(2), ..user() }
}

/// Yields until all other tasks are blocked. There is one thread, so a bounded number of turns is enough.
pub(crate) async fn let_others_run() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// Time is paused, so this passes only when no other task can run.
const FOR_EVER: Duration = Duration::from_secs(30 * 24 * 3600);

pub(crate) async fn within_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(FOR_EVER, future).await.expect("something happens")
}

pub(crate) fn profile(name: &str, description: &str) -> AppProfile {
    AppProfile { name: name.into(), description: description.into(), version: None, capabilities: Vec::new() }
}

pub(crate) fn reject(reason: &str) -> AppResponse {
    AppResponse::Reject { reason: Some(reason.into()) }
}

pub(crate) fn notice(body: &str) -> AppResponse {
    AppResponse::Notice(AppNotice {
        title: "App".into(),
        body: body.into(),
        priority: NoticePriority::Normal,
        expects_reply: false,
    })
}

impl TestHub {
    pub(crate) fn ask<C: BoardCommand>(&self, caller: &Caller, command: C) -> CommandFuture<C> {
        Box::pin(within_time(self.board.ask(caller, command, CancellationToken::new())))
    }

    /// From now on notices go to the sink.
    pub(crate) fn run_background(&self) -> CancellationToken {
        let stop = CancellationToken::new();
        let keep = RetentionPolicy { runs: FOR_EVER, events: FOR_EVER };
        let (board, token) = (self.board.clone(), stop.clone());
        TaskTracker::new().spawn(async move { board.run_housekeeping(keep, token).await });
        stop
    }

    pub(crate) async fn register(&self, connection: u64, name: &str) -> TestApp {
        self.try_register(connection, profile(name, &format!("I am {name}")), None).await.expect("registered")
    }

    pub(crate) async fn try_register(
        &self,
        connection: u64,
        profile: AppProfile,
        token: Option<TokenHash>,
    ) -> Result<TestApp, RegistrationRefusal> {
        let caller = Caller { connection: ConnectionId(100 + connection), ..user() };
        let app = TestApp { board: self.board.clone(), caller };
        let command = RegisterApp { profile, token, origin: None };
        self.ask(&app.caller, command).await.unwrap().map(|_client| app)
    }

    pub(crate) async fn submit(&self, text: &str) -> Arc<MessageReport> {
        self.try_submit(text, None).await.unwrap()
    }

    pub(crate) async fn try_submit(&self, text: &str, only: Option<&str>) -> Result<Arc<MessageReport>, BoardError> {
        let only = only.map(Arc::from);
        let wanted = SubmitMessage { text: text.into(), input: InputMethod::Text, confidence: None, only_app: only };
        self.ask(&user(), wanted).await
    }

    /// The report once no task has work left.
    pub(crate) async fn read(&self, message: MessageId) -> Arc<MessageReport> {
        let_others_run().await;
        self.ask(&user(), ReadMessage { message, newer_than: None }).await.unwrap()
    }

    /// State, reason and attempts in one line.
    pub(crate) async fn short(&self, message: MessageId) -> String {
        short(&*self.read(message).await)
    }

    pub(crate) async fn resend(&self, message: MessageId, app: Option<&str>) -> Arc<MessageReport> {
        let command = ResendMessage { message, app: app.map(Arc::from) };
        self.ask(&user(), command).await.unwrap()
    }

    pub(crate) async fn cancel(&self, message: MessageId) -> Arc<MessageReport> {
        self.ask(&user(), CancelMessage(message)).await.unwrap()
    }

    pub(crate) async fn list(&self) -> Vec<Arc<MessageReport>> {
        let command = ListMessages { state: None, page: PageRequest::new(None, None) };
        self.ask(&user(), command).await.unwrap().items
    }

    /// The report rebuilt from the records.
    pub(crate) async fn replayed(&self, message: MessageId) -> MessageReport {
        crate::hub::queries::load_report(&*self.store, message).await.unwrap().expect("it is on record")
    }

    /// The kinds of its records.
    pub(crate) async fn records(&self, message: MessageId) -> Vec<&'static str> {
        let records = self.store.events(&Topic::Message(message), Seq::FIRST, 1000).await.unwrap();
        let kind = |event: &Event| {
            let Event::Message(event) = event else { panic!("{event:?} in a message's log") };
            match event {
                MessageEvent::Submitted(_) => "submitted",
                MessageEvent::Decided(_) => "decided",
                MessageEvent::Sent { .. } => "sent",
                MessageEvent::Answered { .. } => "answered",
                MessageEvent::Failed { .. } => "failed",
                MessageEvent::Parked { .. } => "rested",
                MessageEvent::Ended { .. } => "ended",
                MessageEvent::Reopened { .. } => "reopened",
            }
        };
        records.iter().map(|record| kind(&record.event)).collect()
    }
}

pub(crate) fn short(report: &MessageReport) -> String {
    let mut line = report.state.name().to_owned();
    if let Some(reason) = &report.reason {
        line.push_str(&format!(" ({reason})"));
    }
    for attempt in &report.attempts {
        let past = if attempt.is_superseded { "past " } else { "" };
        line.push_str(&format!(" | {past}{} {}", attempt.app, attempt.state.name()));
        if let Some(reason) = &attempt.reason {
            line.push_str(&format!(": {reason}"));
        }
    }
    line
}

/// A connected app.
#[derive(Debug, Clone)]
pub(crate) struct TestApp {
    board: Board,
    pub(crate) caller: Caller,
}

impl TestApp {
    pub(crate) async fn ask<C: BoardCommand>(&self, command: C) -> Result<C::Reply, BoardError> {
        within_time(self.board.ask(&self.caller, command, CancellationToken::new())).await
    }

    pub(crate) async fn take(&self) -> Result<InboxEvent, BoardError> {
        self.ask(NextInboxEvent).await
    }

    /// Waits for the next delivery.
    pub(crate) async fn delivery(&self) -> Arc<AppDelivery> {
        match self.take().await.unwrap() {
            InboxEvent::Deliver(delivery) => delivery,
            InboxEvent::ProveAlive => panic!("asked for a sign of life"),
        }
    }

    /// The delivery received by now, if any.
    pub(crate) async fn given(&self) -> Option<Arc<AppDelivery>> {
        let_others_run().await;
        let taking = self.board.ask(&self.caller, NextInboxEvent, CancellationToken::new());
        let reply = taking.now_or_never()?.unwrap();
        let InboxEvent::Deliver(delivery) = reply else { panic!("{reply:?}") };
        Some(delivery)
    }

    pub(crate) async fn answer(&self, message: MessageId, response: AppResponse) -> Result<(), BoardError> {
        self.ask(AnswerMessage { message, response }).await
    }

    pub(crate) async fn ack(&self, message: MessageId) {
        self.answer(message, AppResponse::Ack).await.unwrap();
    }

    pub(crate) async fn reject(&self, message: MessageId, reason: &str) {
        self.answer(message, reject(reason)).await.unwrap();
    }

    pub(crate) async fn notify(&self, message: MessageId, body: &str) {
        self.answer(message, notice(body)).await.unwrap();
    }

    pub(crate) async fn prove(&self) {
        self.ask(ConfirmAppAlive).await.unwrap();
    }

    pub(crate) async fn leave(&self) {
        self.ask(DeregisterApp).await.unwrap();
    }
}
