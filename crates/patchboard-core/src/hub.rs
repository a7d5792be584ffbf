//! The hub: accepts utterances, tracks the apps, and runs one actor per open message.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
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
use crate::reply::InboxEvent;
use crate::store::{AuditRow, Store, StoreError, StoreWrite, WriteBatch};
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
mod tools;
mod training;

pub use patchboard_matcher::{ConfidencePolicy, NO_APP};

use actors::MessageActors;
pub(crate) use model_router::{MAX_CONCURRENT_CALLS, ModelRouter};
pub(crate) use pipeline::{RoutingContext, RoutingOutcome, clear_leader};
use queries::load_report;
pub(crate) use tools::AppToolHost;
use training::Trainer;

/// Longest utterance in bytes; a longer one is refused.
pub const MAX_TEXT: usize = 64 * 1024;
/// Most open messages; past it submissions are refused until some have ended.
const MAX_OPEN: usize = 10_000;
/// Bounds the shutdown when the store hangs: what is not recorded by then is repeated at the next start.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Which apps may register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PairingMode {
    #[default]
    Open,
    /// Apps that the operator has approved.
    Approve,
    /// Apps that present a token of their own.
    Token,
}

/// Options set by the operator.
#[derive(Debug, Clone)]
pub struct HubOptions {
    pub response_timeout: Duration,
    pub expiry: Duration,
    /// Whether a message that names an app is re-routed when that app refuses or does not respond.
    pub reroute_direct: bool,
    /// How long after an app's question the user's next message goes to that app.
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

/// Dependencies of the hub.
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
    /// Embeddings of app descriptions, by description.
    description_embeddings: Mutex<HashMap<Arc<str>, Arc<[f32]>>>,
    router: Option<ModelRouter>,
    notices: Arc<Notifier>,
    roster: Mutex<Roster>,
    /// Serialises writes of the known apps, so that the newest list is written last.
    roster_write_lock: tokio::sync::Mutex<()>,
    matcher: RwLock<Arc<Matcher>>,
    trainer: Mutex<Trainer>,
    /// A person's correction was learned and is to be saved at once.
    save_requested: Notify,
    /// Apps with training data that is not stored yet.
    unsaved_apps: Mutex<HashSet<Arc<str>>>,
    follow_ups: Mutex<FollowUpWindows>,
    actors: Mutex<MessageActors>,
    /// Rebuilt when apps register or leave, not on every read.
    tools: tools::AppToolList,
    foreground_tasks: TaskTracker,
    /// Stops the message actors; the next process continues their messages.
    shutdown: CancellationToken,
    /// The notifier and the training saver, which outlive the actors.
    background_tasks: TaskTracker,
    background_stop: CancellationToken,
    started: Instant,
    is_restored: AtomicBool,
    /// Another process has the hub's role.
    is_standby: AtomicBool,
}

impl Hub {
    pub(crate) fn new(parts: HubParts) -> Self {
        let HubParts { options, store, log, clock, ids, embedder, router, notices } = parts;
        let local_router =
            LocalRouter { rules: options.rules.clone(), catch_all: options.catch_all.clone(), policy: options.policy };
        Self(Arc::new(HubState {
            local_router,
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
            is_restored: AtomicBool::new(false),
            is_standby: AtomicBool::new(false),
            options,
        }))
    }

    /// Restores apps, training data and open messages the first time, then continues open messages without an actor.
    /// Returns their number. Must be called before any other method, and only while this process has the hub's role.
    pub(crate) async fn adopt(&self) -> Result<usize, BoardError> {
        if !self.0.is_restored.load(Ordering::SeqCst) {
            self.restore_apps().await?;
            self.0.is_restored.store(true, Ordering::SeqCst);
        }
        self.0.is_standby.store(false, Ordering::SeqCst);
        let open = self.0.store.open_messages().await?;
        Ok(open.into_iter().filter(|row| self.resume_actor(row.message)).count())
    }

    /// Another process has the hub's role: apps and messages are refused here.
    pub(crate) fn stand_by(&self) {
        self.0.is_standby.store(true, Ordering::SeqCst);
    }

    fn may_act(&self) -> Result<(), BoardError> {
        self.0.log.tenure().may_act()
    }

    pub(super) fn check_active(&self) -> Result<(), BoardError> {
        if self.0.is_standby.load(Ordering::SeqCst) {
            let retry = RetryHint::After(Duration::from_secs(5));
            let message = "the hub runs on another node: connect to that one, or try again when it is gone";
            return Err(BoardError::new(ErrorKind::Unavailable, message).retry(retry));
        }
        Ok(())
    }

    /// Submits an utterance. Replies once it is stored and, where no model has to be asked, routed.
    pub(crate) async fn submit(
        &self,
        caller: &Caller,
        request: SubmitMessage,
    ) -> Result<Arc<MessageReport>, BoardError> {
        let SubmitMessage { text, input, confidence, only_app } = request;
        self.check_active()?;
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
            only_app: only_app.map(|name| self.canonical_name(&name).unwrap_or(name)),
            principal: caller.principal.text(),
            surface: caller.surface.name().into(),
            expires_at: self.0.clock.now().checked_add(expiry).unwrap_or(Timestamp::MAX),
        });
        let (reply, answer) = oneshot::channel();
        self.spawn_actor(MessageId(self.0.ids.next()), ActorStart::New { utterance, reply });
        answer.await.unwrap_or_else(|_| Err(BoardError::shutting_down()))
    }

    /// Passes an app's response on to the message's actor. Responses take effect in call order.
    pub(crate) fn respond(
        &self,
        caller: &Caller,
        message: MessageId,
        response: AppResponse,
    ) -> oneshot::Receiver<Result<(), BoardError>> {
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
    ) -> Result<Arc<MessageReport>, BoardError> {
        let app = app.map(|name| self.canonical_name(&name)).transpose()?;
        let by = caller.principal.text();
        let (reply, answer) = oneshot::channel();
        self.send_to_actor(message, ActorInput::Resend { app: app.clone(), by, reply });
        let report = answer.await.unwrap_or_else(|_| Err(BoardError::shutting_down()))?;
        let detail = app.map_or_else(|| Arc::from(""), |app| format!("to {app}").into());
        self.record_audit(caller, "message.resend", &message.to_string(), detail).await?;
        Ok(report)
    }

    pub(crate) async fn cancel(&self, caller: &Caller, message: MessageId) -> Result<Arc<MessageReport>, BoardError> {
        let (reply, answer) = oneshot::channel();
        self.send_to_actor(message, ActorInput::Cancel { by: caller.principal.text(), reply });
        let report = answer.await.unwrap_or_else(|_| Err(BoardError::shutting_down()))?;
        self.record_audit(caller, "message.cancel", &message.to_string(), "".into()).await?;
        Ok(report)
    }

    /// Runs background work until `stop` or [`close`](Self::close): notices to their sinks, training data to the store.
    pub(crate) fn run_background(&self, stop: CancellationToken) {
        let hub = self.clone();
        self.0.background_tasks.spawn(async move {
            let cancel = hub.0.background_stop.child_token();
            let workers =
                async { tokio::join!(hub.0.notices.run(cancel.clone()), hub.run_training_saver(cancel.clone())) };
            tokio::pin!(workers);
            tokio::select! {
                _ = &mut workers => return,
                () = stop.cancelled() => cancel.cancel(),
            }
            workers.await;
        });
    }

    /// Ends inbox streams, suspends the actors, then flushes notices and training data.
    pub(crate) async fn close(&self) {
        self.0.shutdown.cancel();
        self.0.foreground_tasks.close();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, self.0.foreground_tasks.wait()).await.is_err() {
            tracing::warn!("some messages could not be suspended in time; they continue from their last record");
        }
        // Only now: the last responses of apps are still shown and learned from.
        self.0.background_stop.cancel();
        self.0.background_tasks.close();
        let flush = async {
            self.0.background_tasks.wait().await;
            self.save_training().await;
        };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, flush).await.is_err() {
            tracing::warn!("some notices could not be shown in time");
        }
    }

    /// The name in the app's own spelling, connected or known.
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
            principal: caller.principal.text(),
            surface: caller.surface.name().into(),
            action: action.into(),
            subject: subject.into(),
            run: None,
            detail,
        };
        self.0.store.commit(WriteBatch::boundary(vec![StoreWrite::Audit(audit)])).await
    }

    fn actors(&self) -> MutexGuard<'_, MessageActors> {
        lock(&self.0.actors)
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        lock(&self.0.roster)
    }
}

/// Result of putting a delivery into an inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InboxOutcome {
    Queued(ConnectionId),
    /// The inbox is full.
    Full(ConnectionId),
    Disconnected,
}

/// What message actors need of the hub.
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

    /// Posts a notice in the hub's own name.
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

/// A poisoned lock still holds consistent data, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests;
