//! The hub on a board of its own, with apps that do what a test tells them. Time is paused: whoever waits for something
//! that never comes fails instead of hanging.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::hub::HubOptions;
use super::message::{AppNotice, MessageEvent, MessageReport, Response};
use super::notice::NoticeOptions;
use super::{AppProfile, Delivery, InputMethod, Notice, Priority};
use crate::access::{Caller, Grants, Surface};
use crate::agent::{AgentSpec, AgentTable, StrategyKind};
use crate::board::{Board, Keep, Limits, Parts};
use crate::budget::BudgetLimits;
use crate::budget::price::PriceTable;
use crate::command::{Command, PageRequest, RegisterApp, SubmitMessage, TokenHash};
use crate::error::BoardError;
use crate::event::{Event, Topic};
use crate::faulty::FaultyStore;
use crate::id::{ConnId, MessageId, Seq};
use crate::memory::MemoryOptions;
use crate::port::{NoticeSink, Store};
use crate::reply::{InboxItem, Reply, Unregistered};
use crate::scripted::{AnyArguments, AnyFolder, CountingIds, FixedSoul, ManualClock, Script, ScriptedModel};
use crate::tool::ApprovalPolicy;

/// Words no app has anything to do with.
pub(crate) const GIBBERISH: &str = "zxqv blorp wub";

/// What a test may want otherwise than usual.
pub(crate) struct Setup {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) first_id: u64,
    pub(crate) hub: HubOptions,
    pub(crate) budgets: BudgetLimits,
    pub(crate) model: Arc<ScriptedModel>,
}

pub(crate) struct Bench {
    pub(crate) board: Board,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) shown: Arc<Shown>,
}

/// Notices that reached the user.
#[derive(Debug, Default)]
pub(crate) struct Shown(Mutex<Vec<Arc<Notice>>>);

impl NoticeSink for Shown {
    fn name(&self) -> &'static str {
        "console"
    }

    fn show(&self, notice: Arc<Notice>, _stop: CancellationToken) -> BoxFuture<'_, Result<(), String>> {
        self.0.lock().unwrap().push(notice);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Shown {
    pub(crate) fn titles(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|notice| notice.title.to_string()).collect()
    }

    pub(crate) fn bodies(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|notice| notice.body.to_string()).collect()
    }
}

pub(crate) fn bench() -> Bench {
    bench_with(|_| {})
}

/// A hub whose last resort is a model that follows these scripts.
pub(crate) fn with_model(scripts: impl IntoIterator<Item = Script>) -> Bench {
    bench_with(|setup| {
        setup.hub.agent = Some("default".into());
        scripts.into_iter().for_each(|script| setup.model.push(script));
    })
}

/// The next process on the same store.
pub(crate) fn restarted(before: &Bench) -> Bench {
    on_store(before.store.clone())
}

pub(crate) fn on_store(store: Arc<FaultyStore>) -> Bench {
    bench_with(|setup| {
        setup.store = store;
        setup.first_id = 1_000_000;
    })
}

pub(crate) fn bench_with(change: impl FnOnce(&mut Setup)) -> Bench {
    let mut setup = Setup {
        store: FaultyStore::new(),
        clock: Arc::default(),
        first_id: 0,
        hub: HubOptions::default(),
        budgets: BudgetLimits::default(),
        model: ScriptedModel::new([]),
    };
    change(&mut setup);
    let Setup { store, clock, first_id, hub, budgets, model } = setup;
    let agent = AgentSpec {
        name: "default".into(),
        provider: model.clone(),
        model: "script-1".into(),
        strategy: StrategyKind::React,
        reasoning: crate::run::strategy::Reasoning::default(),
        source: crate::agent::AgentSource::User,
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
    let shown = Arc::new(Shown::default());
    let board = Board::assemble(Parts {
        store: store.clone(),
        clock: clock.clone(),
        ids: Arc::new(CountingIds::starting_at(first_id)),
        agents: AgentTable::new(vec![agent], Vec::new()).unwrap(),
        pools: Vec::new(),
        workers: None,
        plugins: None,
        channels: Vec::new(),
        signals: crate::bridge::Signals::default(),
        bridge: crate::bridge::BridgeOptions::default(),
        tools: Vec::new(),
        schemas: Arc::new(AnyArguments),
        souls: Arc::new(FixedSoul(None)),
        folders: Arc::new(AnyFolder),
        embedder: None,
        budgets,
        prices: PriceTable(Vec::new()),
        memory: MemoryOptions::default(),
        hub,
        notices: NoticeOptions { per_minute: 1000, ..NoticeOptions::default() },
        sinks: vec![shown.clone()],
        approval_policy: ApprovalPolicy::default(),
        limits: Limits::default(),
        version: "0.0.0-test",
    });
    Bench { board, store, clock, model, shown }
}

/// The user, by way of the hub itself.
pub(crate) fn user() -> Caller {
    Caller { surface: Surface::Hub, principal: "local".into(), connection: ConnId(1), grants: Grants::CLIENT }
}

pub(crate) fn operator() -> Caller {
    Caller { principal: "operator".into(), grants: Grants::OPERATOR, connection: ConnId(2), ..user() }
}

/// Until every other task waits for something. There is one thread, so a bounded number of turns is enough.
pub(crate) async fn let_others_run() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

/// Time is paused, so this passes only when nothing else is left to happen.
const FOR_EVER: Duration = Duration::from_secs(30 * 24 * 3600);

pub(crate) async fn within_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(FOR_EVER, future).await.expect("something happens")
}

pub(crate) fn profile(name: &str, description: &str) -> AppProfile {
    AppProfile { name: name.into(), description: description.into(), version: None, capabilities: Vec::new() }
}

pub(crate) fn reject(reason: &str) -> Response {
    Response::Reject { reason: Some(reason.into()) }
}

pub(crate) fn notice(body: &str) -> Response {
    Response::Notice(AppNotice {
        title: "App".into(),
        body: body.into(),
        priority: Priority::Normal,
        expects_reply: false,
    })
}

impl Bench {
    pub(crate) fn ask(&self, caller: &Caller, command: Command) -> BoxFuture<'static, Result<Reply, BoardError>> {
        Box::pin(within_time(self.board.ask(caller, command, CancellationToken::new())))
    }

    /// Notices go to the sink from now on.
    pub(crate) fn keep_house(&self) -> CancellationToken {
        let stop = CancellationToken::new();
        let keep = Keep { runs: FOR_EVER, events: FOR_EVER };
        let (board, token) = (self.board.clone(), stop.clone());
        TaskTracker::new().spawn(async move { board.keep_house(keep, token).await });
        stop
    }

    pub(crate) async fn register(&self, connection: u64, name: &str) -> App {
        self.try_register(connection, profile(name, &format!("I am {name}")), None).await.expect("registered")
    }

    pub(crate) async fn try_register(
        &self,
        connection: u64,
        profile: AppProfile,
        token: Option<TokenHash>,
    ) -> Result<App, Unregistered> {
        let caller = Caller { connection: ConnId(100 + connection), ..user() };
        let app = App { board: self.board.clone(), caller };
        let command = Command::RegisterApp(RegisterApp { profile, token, origin: None });
        let reply = self.ask(&app.caller, command).await.unwrap();
        if let Reply::NotRegistered(refused) = reply {
            return Err(refused);
        }
        assert!(matches!(reply, Reply::Registered { .. }), "{reply:?}");
        Ok(app)
    }

    pub(crate) async fn submit(&self, text: &str) -> Arc<MessageReport> {
        self.try_submit(text, None).await.unwrap()
    }

    pub(crate) async fn try_submit(&self, text: &str, only: Option<&str>) -> Result<Arc<MessageReport>, BoardError> {
        let only = only.map(Arc::from);
        let wanted = SubmitMessage { text: text.into(), input: InputMethod::Text, confidence: None, only };
        Ok(report(self.ask(&user(), Command::SubmitMessage(wanted)).await?))
    }

    /// The message as it is when nobody has anything left to do.
    pub(crate) async fn read(&self, message: MessageId) -> Arc<MessageReport> {
        let_others_run().await;
        report(self.ask(&user(), Command::ReadMessage { message, newer_than: None }).await.unwrap())
    }

    /// State, reason and attempts in one line.
    pub(crate) async fn short(&self, message: MessageId) -> String {
        short(&*self.read(message).await)
    }

    pub(crate) async fn resend(&self, message: MessageId, app: Option<&str>) -> Arc<MessageReport> {
        let command = Command::ResendMessage { message, app: app.map(Arc::from) };
        report(self.ask(&user(), command).await.unwrap())
    }

    pub(crate) async fn cancel(&self, message: MessageId) -> Arc<MessageReport> {
        report(self.ask(&user(), Command::CancelMessage(message)).await.unwrap())
    }

    pub(crate) async fn list(&self) -> Vec<Arc<MessageReport>> {
        let command = Command::ListMessages { state: None, page: PageRequest::new(None, None) };
        let Reply::MessageList(page) = self.ask(&user(), command).await.unwrap() else { panic!("no list") };
        page.items
    }

    /// What is on record of it, folded anew.
    pub(crate) async fn replayed(&self, message: MessageId) -> MessageReport {
        super::hub::read_back(&*self.store, message).await.unwrap().expect("it is on record")
    }

    /// Its records by kind.
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
                MessageEvent::Rested { .. } => "rested",
                MessageEvent::Ended { .. } => "ended",
                MessageEvent::Reopened { .. } => "reopened",
            }
        };
        records.iter().map(|record| kind(&record.event)).collect()
    }
}

pub(crate) fn report(reply: Reply) -> Arc<MessageReport> {
    let Reply::Message(report) = reply else { panic!("{reply:?} is no message") };
    report
}

pub(crate) fn short(report: &MessageReport) -> String {
    let mut line = report.state.name().to_owned();
    if let Some(reason) = &report.reason {
        line.push_str(&format!(" ({reason})"));
    }
    for attempt in &report.attempts {
        let past = if attempt.is_past { "past " } else { "" };
        line.push_str(&format!(" | {past}{} {}", attempt.app, attempt.state.name()));
        if let Some(reason) = &attempt.reason {
            line.push_str(&format!(": {reason}"));
        }
    }
    line
}

/// A connected app.
#[derive(Debug, Clone)]
pub(crate) struct App {
    board: Board,
    pub(crate) caller: Caller,
}

impl App {
    pub(crate) async fn ask(&self, command: Command) -> Result<Reply, BoardError> {
        within_time(self.board.ask(&self.caller, command, CancellationToken::new())).await
    }

    pub(crate) async fn take(&self) -> Result<InboxItem, BoardError> {
        let reply = self.ask(Command::TakeFromInbox).await?;
        let Reply::Inbox(item) = reply else { panic!("{reply:?}") };
        Ok(item)
    }

    /// The next delivery, waited for.
    pub(crate) async fn delivery(&self) -> Arc<Delivery> {
        match self.take().await.unwrap() {
            InboxItem::Deliver(delivery) => delivery,
            InboxItem::Prove => panic!("asked for a sign of life"),
        }
    }

    /// What it was given by now, if anything.
    pub(crate) async fn given(&self) -> Option<Arc<Delivery>> {
        let_others_run().await;
        let taking = self.board.ask(&self.caller, Command::TakeFromInbox, CancellationToken::new());
        let reply = taking.now_or_never()?.unwrap();
        let Reply::Inbox(InboxItem::Deliver(delivery)) = reply else { panic!("{reply:?}") };
        Some(delivery)
    }

    pub(crate) async fn answer(&self, message: MessageId, response: Response) -> Result<Reply, BoardError> {
        self.ask(Command::AnswerMessage { message, response }).await
    }

    pub(crate) async fn ack(&self, message: MessageId) {
        assert_eq!(self.answer(message, Response::Ack).await.unwrap(), Reply::Done);
    }

    pub(crate) async fn reject(&self, message: MessageId, reason: &str) {
        assert_eq!(self.answer(message, reject(reason)).await.unwrap(), Reply::Done);
    }

    pub(crate) async fn notify(&self, message: MessageId, body: &str) {
        assert_eq!(self.answer(message, notice(body)).await.unwrap(), Reply::Done);
    }

    pub(crate) async fn prove(&self) {
        assert_eq!(self.ask(Command::ProveApp).await.unwrap(), Reply::Done);
    }

    pub(crate) async fn leave(&self) {
        assert_eq!(self.ask(Command::LeaveApp).await.unwrap(), Reply::Done);
    }
}
