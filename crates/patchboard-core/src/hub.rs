//! The hub: takes utterances, knows the apps, and gives every open message to a steward of its own.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::message::{AppResponse, MessageReport, Utterance};
use crate::app::{AppDelivery, NoticePriority, UserNotice};
use crate::caller::Caller;
use crate::command::SubmitMessage;
use crate::error::{BoardError, ErrorKind, RetryHint};
use crate::hub::message_actor::{ActorInput, ActorStart};
use crate::hub::notice::Notifier;
use crate::hub::roster::Roster;
use crate::hub::routing::follow_up::FollowUpWindows;
use crate::hub::routing::{HubRules, LocalRouter};
use crate::id::{ConnectionId, MessageId};
use crate::log::EventLog;
use crate::port::{Clock, Embedder, IdGenerator};
use crate::reply::{BoardReply, InboxEvent};
use crate::store::{AuditRow, Durability, Store, StoreError, StoreWrite, WriteBatch};
use patchboard_matcher::Matcher;

mod actors;
mod apps;
mod message_actor;
mod model_router;
pub mod notice;
mod pipeline;
mod queries;
mod roster;
pub mod routing;
#[cfg(test)]
pub(crate) mod test_hub;
mod tools;
mod training;

pub use patchboard_matcher::{ConfidencePolicy, NO_APP};

use actors::MessageActors;
pub(crate) use model_router::{MAX_CONCURRENT_CALLS, ModelRouter};
pub(crate) use pipeline::{RoutingContext, RoutingOutcome, clear_leader};
use queries::load_report;
pub(crate) use tools::AppTools;
use training::Trainer;

/// Longest utterance in bytes; a longer one is refused.
pub const MAX_TEXT: usize = 64 * 1024;
/// Messages that are not over; the next one is refused until some are.
const MAX_OPEN: usize = 10_000;
/// A store that hangs must not hang the exit too: what is not on record by then is done again at the next start.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Who may register an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PairingMode {
    #[default]
    Open,
    /// Apps the operator has approved.
    Approve,
    /// Apps that show a token of their own.
    Token,
}

/// What the operator decides.
#[derive(Debug, Clone)]
pub struct HubOptions {
    pub response_timeout: Duration,
    pub expiry: Duration,
    /// Are messages that name an app brought to others when it refuses or does not answer?
    pub reroute_direct: bool,
    /// How long an app's question keeps the user's next words for it.
    pub follow_up: Duration,
    pub pairing: PairingMode,
    pub rules: HubRules,
    pub catch_all: Option<Arc<str>>,
    /// The agent whose model routes what the local stages cannot.
    pub agent: Option<Arc<str>>,
    pub policy: ConfidencePolicy,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            response_timeout: Duration::from_secs(30),
            expiry: Duration::from_secs(24 * 3600),
            reroute_direct: false,
            follow_up: Duration::from_secs(300),
            pairing: PairingMode::Open,
            rules: HubRules::default(),
            catch_all: None,
            agent: None,
            policy: ConfidencePolicy::default(),
        }
    }
}

/// What the hub is made of.
#[derive(Debug)]
pub(crate) struct HubParts {
    pub(crate) options: HubOptions,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdGenerator>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) router: Option<ModelRouter>,
    pub(crate) notices: Arc<Notifier>,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Hub(Arc<HubState>);

#[derive(Debug)]
struct HubState {
    options: HubOptions,
    local_router: LocalRouter,
    store: Arc<dyn Store>,
    log: Arc<EventLog>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGenerator>,
    embedder: Option<Arc<dyn Embedder>>,
    /// What apps say of themselves, as vectors; by their words.
    description_embeddings: Mutex<HashMap<Arc<str>, Arc<[f32]>>>,
    router: Option<ModelRouter>,
    notices: Arc<Notifier>,
    roster: Mutex<Roster>,
    /// What is known of apps is written one after the other, newest last.
    roster_write_lock: tokio::sync::Mutex<()>,
    matcher: RwLock<Arc<Matcher>>,
    trainer: Mutex<Trainer>,
    /// A person taught something.
    save_requested: Notify,
    /// Apps about which something was learned that is not stored yet.
    unsaved_apps: Mutex<HashSet<Arc<str>>>,
    follow_ups: Mutex<FollowUpWindows>,
    actors: Mutex<MessageActors>,
    /// Changes with the apps that are connected, so that their tools are put together once.
    tools: tools::AppToolList,
    foreground_tasks: TaskTracker,
    /// Stewards put down what they do; the next process goes on with it.
    shutdown: CancellationToken,
    /// Notices and lessons, which outlive the stewards.
    background_tasks: TaskTracker,
    background_stop: CancellationToken,
    started: Instant,
}

impl Hub {
    pub(crate) fn new(parts: HubParts) -> Self {
        let HubParts { options, store, log, clock, ids, embedder, router, notices } = parts;
        let pipeline =
            LocalRouter { rules: options.rules.clone(), catch_all: options.catch_all.clone(), policy: options.policy };
        Self(Arc::new(HubState {
            local_router: pipeline,
            store,
            log,
            clock,
            ids,
            embedder,
            description_embeddings: Mutex::default(),
            router,
            notices,
            roster: Mutex::default(),
            roster_write_lock: tokio::sync::Mutex::default(),
            matcher: RwLock::default(),
            trainer: Mutex::default(),
            save_requested: Notify::new(),
            unsaved_apps: Mutex::default(),
            follow_ups: Mutex::new(FollowUpWindows::new(options.follow_up)),
            actors: Mutex::default(),
            tools: tools::AppToolList::default(),
            foreground_tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            background_tasks: TaskTracker::new(),
            background_stop: CancellationToken::new(),
            started: Instant::now(),
            options,
        }))
    }

    /// Reads back who was known, what was learned and what is still on its way. Before anything is asked.
    pub(crate) async fn recover(&self) -> Result<usize, BoardError> {
        self.restore_apps().await?;
        let open = self.0.store.open_messages().await?;
        let count = open.len();
        for row in open {
            self.resume_actor(row.message);
        }
        Ok(count)
    }

    /// What a user said. Answered when it is stored and, where that needs nobody else, on its way.
    pub(crate) async fn submit(
        &self,
        caller: &Caller,
        wanted: SubmitMessage,
    ) -> Result<Arc<MessageReport>, BoardError> {
        let SubmitMessage { text, input, confidence, only_app: only } = wanted;
        check_text(&text)?;
        if confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return Err(BoardError::invalid("confidence is out of range: it lies between 0 and 1"));
        }
        if self.0.shutdown.is_cancelled() {
            return Err(BoardError::shutting_down());
        }
        if self.actors().by_message.len() >= MAX_OPEN {
            let message = format!("{MAX_OPEN} messages wait already: have some delivered or cancelled first");
            let retry = RetryHint::After(Duration::from_secs(5));
            return Err(BoardError::new(ErrorKind::Exhausted, message).retry(retry));
        }
        let expiry = SignedDuration::try_from(self.0.options.expiry).unwrap_or(SignedDuration::MAX);
        let utterance = Arc::new(Utterance {
            text,
            input,
            confidence,
            only_app: only.map(|name| self.canonical_name(&name).unwrap_or(name)),
            principal: caller.principal.clone(),
            surface: caller.surface.name().into(),
            expires_at: self.0.clock.now().checked_add(expiry).unwrap_or(Timestamp::MAX),
        });
        let (taken, answer) = oneshot::channel();
        self.spawn_actor(MessageId(self.0.ids.next()), ActorStart::New { utterance, reply: taken });
        answer.await.unwrap_or_else(|_| Err(BoardError::shutting_down()))
    }

    /// Something an app says about a message. The order of calls is the order in which it counts.
    pub(crate) fn respond(
        &self,
        caller: &Caller,
        message: MessageId,
        response: AppResponse,
    ) -> oneshot::Receiver<Result<BoardReply, BoardError>> {
        let (reply, answer) = oneshot::channel();
        let app = self.roster().by_connection(caller.connection).map(|app| app.profile.name.clone());
        match app {
            Some(app) => self.send_to_actor(message, ActorInput::Response { app, response, reply }),
            None => drop(reply.send(Err(BoardError::forbidden("this connection is no app; register first")))),
        }
        answer
    }

    pub(crate) async fn resend(
        &self,
        caller: &Caller,
        message: MessageId,
        app: Option<Arc<str>>,
    ) -> Result<BoardReply, BoardError> {
        let app = app.map(|name| self.canonical_name(&name)).transpose()?;
        let by = caller.principal.clone();
        let (reply, answer) = oneshot::channel();
        self.send_to_actor(message, ActorInput::Resend { app: app.clone(), by, reply });
        let done = answer.await.unwrap_or_else(|_| Err(BoardError::shutting_down()))?;
        let detail = app.map_or_else(|| Arc::from(""), |app| format!("to {app}").into());
        self.record_audit(caller, "message.resend", &message.to_string(), detail).await?;
        Ok(done)
    }

    pub(crate) async fn cancel(&self, caller: &Caller, message: MessageId) -> Result<BoardReply, BoardError> {
        let (reply, answer) = oneshot::channel();
        self.send_to_actor(message, ActorInput::Cancel { by: caller.principal.clone(), reply });
        let done = answer.await.unwrap_or_else(|_| Err(BoardError::shutting_down()))?;
        self.record_audit(caller, "message.cancel", &message.to_string(), "".into()).await?;
        Ok(done)
    }

    /// Background work until `stop` or the hub's end: notices to their sinks, lessons to the store.
    pub(crate) fn run_background(&self, stop: CancellationToken) {
        let hub = self.clone();
        self.0.background_tasks.spawn(async move {
            let over = hub.0.background_stop.child_token();
            let keeping = async { tokio::join!(hub.0.notices.run(over.clone()), hub.run_training_saver(over.clone())) };
            tokio::pin!(keeping);
            tokio::select! {
                _ = &mut keeping => return,
                () = stop.cancelled() => over.cancel(),
            }
            keeping.await;
        });
    }

    /// Connections hear that it is over, stewards put down their work, what was learned is stored.
    pub(crate) async fn close(&self) {
        self.0.shutdown.cancel();
        self.0.foreground_tasks.close();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.0.foreground_tasks.wait()).await.is_err() {
            tracing::warn!("some messages could not be put down in time; they go on from their last record");
        }
        // Only now: what apps said last is still shown and learned from.
        self.0.background_stop.cancel();
        self.0.background_tasks.close();
        let ending = async {
            self.0.background_tasks.wait().await;
            self.save_training().await;
        };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, ending).await.is_err() {
            tracing::warn!("some notices could not be shown in time");
        }
    }

    /// The name as the app writes it itself, connected or known.
    fn canonical_name(&self, name: &str) -> Result<Arc<str>, BoardError> {
        let roster = self.roster();
        let connected = roster.by_name(name).map(|app| app.profile.name.clone());
        connected.or_else(|| roster.known_app(name).map(|known| known.profile.name.clone())).ok_or_else(|| {
            BoardError::not_found(format!("no app is called `{name}`; `patchboard hub clients` lists them"))
        })
    }

    async fn record_audit(
        &self,
        caller: &Caller,
        action: &str,
        subject: &str,
        detail: Arc<str>,
    ) -> Result<(), StoreError> {
        let audit = AuditRow {
            at: self.0.clock.now(),
            principal: caller.principal.clone(),
            surface: caller.surface.name().into(),
            action: action.into(),
            subject: subject.into(),
            run: None,
            detail,
        };
        self.0
            .store
            .commit(WriteBatch { durability: Durability::Boundary, writes: vec![StoreWrite::Audit(audit)] })
            .await
    }

    fn actors(&self) -> MutexGuard<'_, MessageActors> {
        lock(&self.0.actors)
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        lock(&self.0.roster)
    }
}

/// Where a delivery went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InboxOutcome {
    Queued(ConnectionId),
    /// It takes nothing more at present.
    Full(ConnectionId),
    Disconnected,
}

/// What stewards need of the hub.
impl Hub {
    pub(super) fn options(&self) -> &HubOptions {
        &self.0.options
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    pub(super) fn log(&self) -> &Arc<EventLog> {
        &self.0.log
    }

    pub(super) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    pub(super) fn shutdown(&self) -> &CancellationToken {
        &self.0.shutdown
    }

    pub(super) fn tools(&self) -> Arc<[crate::tool::ToolSpec]> {
        self.0.tools.specs()
    }

    /// Puts a delivery into an app's inbox.
    pub(super) fn push_to_inbox(&self, app: &str, delivery: AppDelivery) -> InboxOutcome {
        let roster = self.roster();
        let Some(app) = roster.by_name(app) else { return InboxOutcome::Disconnected };
        match app.inbox.try_send(InboxEvent::Deliver(Arc::new(delivery))) {
            Ok(()) => InboxOutcome::Queued(app.connection),
            Err(mpsc::error::TrySendError::Full(_)) => InboxOutcome::Full(app.connection),
            Err(mpsc::error::TrySendError::Closed(_)) => InboxOutcome::Disconnected,
        }
    }

    pub(super) fn connection_of(&self, app: &str) -> Option<ConnectionId> {
        self.roster().by_name(app).map(|app| app.connection)
    }

    /// Tells the user something in the hub's own name.
    pub(super) fn notify_user(&self, message: MessageId, title: &str, body: String) {
        self.0.notices.post(UserNotice {
            app: None,
            title: title.into(),
            body: body.into(),
            priority: NoticePriority::Normal,
            message: Some(message),
            at: self.0.clock.now(),
        });
    }

    pub(super) fn post_notice(&self, notice: UserNotice) {
        self.0.notices.post(notice);
    }
}

pub(super) fn unknown_message() -> BoardError {
    BoardError::not_found("no such message; it may have been pruned")
}

fn check_text(text: &str) -> Result<(), BoardError> {
    if text.trim().is_empty() {
        return Err(BoardError::invalid("text is empty: say something to be routed"));
    }
    if text.len() > MAX_TEXT {
        return Err(BoardError::invalid(format!("text is too long: at most {MAX_TEXT} bytes are accepted")));
    }
    Ok(())
}

/// A panic under one of these locks leaves plain data behind; going on is safe.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
