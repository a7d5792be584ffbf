//! The hub: takes utterances, knows the apps, and gives every open message to a steward of its own.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::matcher::{Matcher, Policy};
use super::message::{MessageReport, Response, Utterance};
use super::notice::NoticeDesk;
use super::roster::Roster;
use super::route::follow_up::FollowUps;
use super::route::{HubRules, Pipeline};
use super::router::ModelRouter;
use super::steward::{Begin, Input};
use super::{Delivery, Notice, Priority};
use crate::access::Caller;
use crate::command::SubmitMessage;
use crate::error::{BoardError, ErrorKind, Retry};
use crate::id::{ConnId, MessageId};
use crate::log::Log;
use crate::port::{AuditRow, Batch, Clock, Durability, Embedder, Ids, Store, StoreError, Write};
use crate::reply::{InboxItem, Reply};

mod apps;
mod lessons;
mod reading;
mod routing;
mod stewards;

use lessons::School;
pub(super) use reading::read_back;
pub(crate) use routing::{Routed, View, ahead};
use stewards::Stewards;

/// Longest utterance in bytes; a longer one is refused.
pub const MAX_TEXT: usize = 64 * 1024;
/// Messages that are not over; the next one is refused until some are.
const MAX_OPEN: usize = 10_000;
/// A store that hangs must not hang the exit too: what is not on record by then is done again at the next start.
const FAREWELL: Duration = Duration::from_secs(5);

/// Who may register an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pairing {
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
    pub pairing: Pairing,
    pub rules: HubRules,
    pub catch_all: Option<Arc<str>>,
    /// The agent whose model routes what the local stages cannot.
    pub agent: Option<Arc<str>>,
    pub policy: Policy,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            response_timeout: Duration::from_secs(30),
            expiry: Duration::from_secs(24 * 3600),
            reroute_direct: false,
            follow_up: Duration::from_secs(300),
            pairing: Pairing::Open,
            rules: HubRules::default(),
            catch_all: None,
            agent: None,
            policy: Policy::default(),
        }
    }
}

/// What the hub is made of.
#[derive(Debug)]
pub(crate) struct HubParts {
    pub(crate) options: HubOptions,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) log: Arc<Log>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) router: Option<ModelRouter>,
    pub(crate) notices: Arc<NoticeDesk>,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Hub(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: HubOptions,
    pipeline: Pipeline,
    store: Arc<dyn Store>,
    log: Arc<Log>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    embedder: Option<Arc<dyn Embedder>>,
    /// What apps say of themselves, as vectors; by their words.
    meanings: Mutex<HashMap<Arc<str>, Arc<[f32]>>>,
    router: Option<ModelRouter>,
    notices: Arc<NoticeDesk>,
    roster: Mutex<Roster>,
    /// What is known of apps is written one after the other, newest last.
    roster_written: tokio::sync::Mutex<()>,
    matcher: RwLock<Arc<Matcher>>,
    school: Mutex<School>,
    /// A person taught something.
    taught: Notify,
    /// Apps about which something was learned that is not stored yet.
    unsaved: Mutex<HashSet<Arc<str>>>,
    follow_ups: Mutex<FollowUps>,
    open: Mutex<Stewards>,
    /// Changes with the apps that are connected, so that their tools are put together once.
    tools: super::tools::Shelf,
    tracker: TaskTracker,
    /// Stewards put down what they do; the next process goes on with it.
    closing: CancellationToken,
    /// Notices and lessons, which outlive the stewards.
    keepers: TaskTracker,
    over: CancellationToken,
    started: Instant,
}

impl Hub {
    pub(crate) fn new(parts: HubParts) -> Self {
        let HubParts { options, store, log, clock, ids, embedder, router, notices } = parts;
        let pipeline =
            Pipeline { rules: options.rules.clone(), catch_all: options.catch_all.clone(), policy: options.policy };
        Self(Arc::new(Inner {
            pipeline,
            store,
            log,
            clock,
            ids,
            embedder,
            meanings: Mutex::default(),
            router,
            notices,
            roster: Mutex::default(),
            roster_written: tokio::sync::Mutex::default(),
            matcher: RwLock::default(),
            school: Mutex::default(),
            taught: Notify::new(),
            unsaved: Mutex::default(),
            follow_ups: Mutex::new(FollowUps::new(options.follow_up)),
            open: Mutex::default(),
            tools: super::tools::Shelf::default(),
            tracker: TaskTracker::new(),
            closing: CancellationToken::new(),
            keepers: TaskTracker::new(),
            over: CancellationToken::new(),
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
            self.take_up(row.message);
        }
        Ok(count)
    }

    /// What a user said. Answered when it is stored and, where that needs nobody else, on its way.
    pub(crate) async fn submit(
        &self,
        caller: &Caller,
        wanted: SubmitMessage,
    ) -> Result<Arc<MessageReport>, BoardError> {
        let SubmitMessage { text, input, confidence, only } = wanted;
        check_text(&text)?;
        if confidence.is_some_and(|confidence| !(0.0..=1.0).contains(&confidence)) {
            return Err(BoardError::invalid("confidence is out of range: it lies between 0 and 1"));
        }
        if self.0.closing.is_cancelled() {
            return Err(BoardError::shutting_down());
        }
        if self.stewards().by_message.len() >= MAX_OPEN {
            let message = format!("{MAX_OPEN} messages wait already: have some delivered or cancelled first");
            let retry = Retry::After(Duration::from_secs(5));
            return Err(BoardError::new(ErrorKind::Exhausted, message).retry(retry));
        }
        let expiry = SignedDuration::try_from(self.0.options.expiry).unwrap_or(SignedDuration::MAX);
        let utterance = Arc::new(Utterance {
            text,
            input,
            confidence,
            only: only.map(|name| self.name_of(&name).unwrap_or(name)),
            principal: caller.principal.clone(),
            surface: caller.surface.name().into(),
            expires_at: self.0.clock.now().checked_add(expiry).unwrap_or(Timestamp::MAX),
        });
        let (taken, answer) = oneshot::channel();
        self.employ(MessageId(self.0.ids.next()), Begin::New { utterance, taken });
        answer.await.unwrap_or_else(|_| Err(BoardError::shutting_down()))
    }

    /// Something an app says about a message. The order of calls is the order in which it counts.
    pub(crate) fn answer(
        &self,
        caller: &Caller,
        message: MessageId,
        response: Response,
    ) -> oneshot::Receiver<Result<Reply, BoardError>> {
        let (reply, answer) = oneshot::channel();
        let app = self.roster().by_connection(caller.connection).map(|app| app.profile.name.clone());
        match app {
            Some(app) => self.tell(message, Input::Answer { app, response, reply }),
            None => drop(reply.send(Err(BoardError::forbidden("this connection is no app; register first")))),
        }
        answer
    }

    pub(crate) async fn resend(
        &self,
        caller: &Caller,
        message: MessageId,
        app: Option<Arc<str>>,
    ) -> Result<Reply, BoardError> {
        let app = app.map(|name| self.name_of(&name)).transpose()?;
        let by = caller.principal.clone();
        let (reply, answer) = oneshot::channel();
        self.tell(message, Input::Resend { app: app.clone(), by, reply });
        let done = answer.await.unwrap_or_else(|_| Err(BoardError::shutting_down()))?;
        let detail = app.map_or_else(|| Arc::from(""), |app| format!("to {app}").into());
        self.note(caller, "message.resend", &message.to_string(), detail).await?;
        Ok(done)
    }

    pub(crate) async fn cancel(&self, caller: &Caller, message: MessageId) -> Result<Reply, BoardError> {
        let (reply, answer) = oneshot::channel();
        self.tell(message, Input::Cancel { by: caller.principal.clone(), reply });
        let done = answer.await.unwrap_or_else(|_| Err(BoardError::shutting_down()))?;
        self.note(caller, "message.cancel", &message.to_string(), "".into()).await?;
        Ok(done)
    }

    /// Background work until `stop` or the hub's end: notices to their sinks, lessons to the store.
    pub(crate) fn keep(&self, stop: CancellationToken) {
        let hub = self.clone();
        self.0.keepers.spawn(async move {
            let over = hub.0.over.child_token();
            let keeping = async { tokio::join!(hub.0.notices.run(over.clone()), hub.keep_lessons(over.clone())) };
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
        self.0.closing.cancel();
        self.0.tracker.close();
        if tokio::time::timeout(FAREWELL, self.0.tracker.wait()).await.is_err() {
            tracing::warn!("some messages could not be put down in time; they go on from their last record");
        }
        // Only now: what apps said last is still shown and learned from.
        self.0.over.cancel();
        self.0.keepers.close();
        let ending = async {
            self.0.keepers.wait().await;
            self.save_lessons().await;
        };
        if tokio::time::timeout(FAREWELL, ending).await.is_err() {
            tracing::warn!("some notices could not be shown in time");
        }
    }

    /// The name as the app writes it itself, connected or known.
    fn name_of(&self, name: &str) -> Result<Arc<str>, BoardError> {
        let roster = self.roster();
        let connected = roster.by_name(name).map(|app| app.profile.name.clone());
        connected.or_else(|| roster.known_app(name).map(|known| known.profile.name.clone())).ok_or_else(|| {
            BoardError::not_found(format!("no app is called `{name}`; `patchboard hub clients` lists them"))
        })
    }

    async fn note(&self, caller: &Caller, action: &str, subject: &str, detail: Arc<str>) -> Result<(), StoreError> {
        let audit = AuditRow {
            at: self.0.clock.now(),
            principal: caller.principal.clone(),
            surface: caller.surface.name().into(),
            action: action.into(),
            subject: subject.into(),
            run: None,
            detail,
        };
        self.0.store.commit(Batch { durability: Durability::Boundary, writes: vec![Write::Audit(audit)] }).await
    }

    fn stewards(&self) -> MutexGuard<'_, Stewards> {
        lock(&self.0.open)
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        lock(&self.0.roster)
    }
}

/// Where a delivery went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handed {
    To(ConnId),
    /// It takes nothing more at present.
    Full(ConnId),
    Gone,
}

/// What stewards need of the hub.
impl Hub {
    pub(super) fn options(&self) -> &HubOptions {
        &self.0.options
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    pub(super) fn log(&self) -> &Arc<Log> {
        &self.0.log
    }

    pub(super) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    pub(super) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    pub(super) fn tools(&self) -> Arc<[crate::tool::ToolSpec]> {
        self.0.tools.specs()
    }

    /// Puts a delivery into an app's inbox.
    pub(super) fn hand(&self, app: &str, delivery: Delivery) -> Handed {
        let roster = self.roster();
        let Some(app) = roster.by_name(app) else { return Handed::Gone };
        match app.inbox.try_send(InboxItem::Deliver(Arc::new(delivery))) {
            Ok(()) => Handed::To(app.connection),
            Err(mpsc::error::TrySendError::Full(_)) => Handed::Full(app.connection),
            Err(mpsc::error::TrySendError::Closed(_)) => Handed::Gone,
        }
    }

    pub(super) fn connection_of(&self, app: &str) -> Option<ConnId> {
        self.roster().by_name(app).map(|app| app.connection)
    }

    /// Tells the user something in the hub's own name.
    pub(super) fn say(&self, message: MessageId, title: &str, body: String) {
        self.0.notices.post(Notice {
            app: None,
            title: title.into(),
            body: body.into(),
            priority: Priority::Normal,
            message: Some(message),
            at: self.0.clock.now(),
        });
    }

    pub(super) fn post(&self, notice: Notice) {
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
