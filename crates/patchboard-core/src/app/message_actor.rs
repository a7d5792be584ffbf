//! One message from its submission to its end: routed, sent, answered, re-routed, waiting. Every message has its own
//! steward, so that nothing that happens to one can hold up another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::AppProfile;
use super::hub::{self, Hub, InboxOutcome};
use super::message::{AppResponse, AttemptFailure, MessageEvent, MessageReport, Utterance};
use crate::backoff::{Backoff, BackoffSchedule};
use crate::error::BoardError;
use crate::event::Topic;
use crate::id::{ConnectionId, MessageId, Seq};
use crate::log::TopicWriter;
use crate::port::StoreError;
use crate::reply::BoardReply;

mod dispatch;
mod recording;
mod responses;

/// How long a message that is over stays at hand.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Pauses between tries to store or read what happened; the last one repeats.
const STORE_PAUSES: BackoffSchedule = BackoffSchedule::listed(&[
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
]);
/// Apps tend to come one after the other: so long after one, no model is asked again about a message that waits.
const MODEL_COOLDOWN: Duration = Duration::from_secs(1);
/// Letters that wait for one steward, more than one app can have under way. What is said beyond that is refused; that
/// apps came or went is looked up afterwards.
pub(super) const MAILBOX_CAPACITY: usize = 2048;
/// How often an app whose inbox is full is tried again.
const INBOX_RETRY_INTERVAL: Duration = Duration::from_secs(1);

type SubmitReply = oneshot::Sender<Result<Arc<MessageReport>, BoardError>>;
/// Dropped when the steward has done what it can about it without asking a model.
type JoinAck = oneshot::Sender<()>;
type ReplySender = oneshot::Sender<Result<BoardReply, BoardError>>;

/// What a steward starts from.
#[derive(Debug)]
pub(super) enum ActorStart {
    New {
        utterance: Arc<Utterance>,
        reply: SubmitReply,
    },
    /// It is on record, and nobody is at work on it.
    Stored,
}

#[derive(Debug)]
pub(super) enum ActorInput {
    Response { app: Arc<str>, response: AppResponse, reply: ReplySender },
    AppJoined { app: Arc<str>, ack: Option<JoinAck> },
    AppLeft { app: Arc<str>, connection: ConnectionId },
    Resend { app: Option<Arc<str>>, by: Arc<str>, reply: ReplySender },
    Cancel { by: Arc<str>, reply: ReplySender },
}

#[derive(Debug)]
pub(super) struct MessageActor {
    hub: Hub,
    message: MessageId,
    report_sender: watch::Sender<Option<Arc<MessageReport>>>,
    mailbox: ActorMailbox,
}

/// What a steward is told, and whether something did not fit in.
#[derive(Debug)]
pub(super) struct ActorMailbox {
    pub(super) receiver: mpsc::Receiver<ActorInput>,
    pub(super) missed_app_change: Arc<AtomicBool>,
}

/// A steward with its message in hand.
struct ActiveMessage {
    hub: Hub,
    message: MessageId,
    report_sender: watch::Sender<Option<Arc<MessageReport>>>,
    mailbox: mpsc::Receiver<ActorInput>,
    /// Apps came or went while there was no room for more letters.
    missed_app_change: Arc<AtomicBool>,
    /// Letters that came while it was busy.
    deferred_inputs: VecDeque<ActorInput>,
    writer: TopicWriter,
    /// Its submission goes on record with the first thing that happens to it, in one commit.
    is_stored: bool,
    report: MessageReport,
    /// Apps that have it and owe an answer.
    pending_responses: Vec<PendingResponse>,
    /// The server has just started: until then, whoever is not there yet may still come.
    reconnect_deadline: Option<Instant>,
    /// The connection whose app had it last and did not answer in time: that one is not given it again by itself.
    silent_connection: Option<ConnectionId>,
    /// When to try again although nothing happened.
    retry_at: Option<Instant>,
    /// No model is asked before: it failed a moment ago, or apps are just coming.
    models_allowed_at: Option<Instant>,
    /// Apps of which the models said that none clearly fits, since the message was last sent to anybody.
    unmatched_apps: Vec<Arc<AppProfile>>,
    model_backoff: Backoff,
    submit_reply: Option<SubmitReply>,
    reopen_reply: Option<ReplySender>,
    join_ack: Option<JoinAck>,
}

struct PendingResponse {
    app: Arc<str>,
    /// `None`: it had the message when the last process ended, and has not come back yet.
    connection: Option<ConnectionId>,
    until: Instant,
    /// It could not take it yet: when to try again.
    inbox_retry_at: Option<Instant>,
}

/// The hub is going down, or the message could not be taken: put everything down as it is on record.
struct ActorStopped;

impl MessageActor {
    pub(super) fn new(
        hub: Hub,
        message: MessageId,
        told: watch::Sender<Option<Arc<MessageReport>>>,
        mail: ActorMailbox,
    ) -> Self {
        Self { hub, message, report_sender: told, mailbox: mail }
    }

    pub(super) async fn run(self, begin: ActorStart) {
        let hub = self.hub.clone();
        let message = self.message;
        let (mut letters, error) = match self.start(begin).await {
            Ok(mut work) => {
                match work.run_loop().await {
                    Ok(()) => return,
                    // The rest is on record; the next process goes on with it.
                    Err(ActorStopped) if work.is_stored => {
                        work.drain_responses().await;
                        tracing::trace!(message.id = %message, "put down");
                        return;
                    }
                    Err(ActorStopped) => (work.mailbox, hub::unknown_message()),
                }
            }
            Err(nothing) => nothing,
        };
        // Nobody else knows of it: say so to whoever asked, and be gone.
        while !hub.remove_actor(message, &letters, false) {
            while let Ok(letter) = letters.try_recv() {
                letter.refuse(&error);
            }
        }
    }

    async fn start(self, begin: ActorStart) -> Result<ActiveMessage, (mpsc::Receiver<ActorInput>, BoardError)> {
        let topic = Topic::Message(self.message);
        match begin {
            ActorStart::New { utterance, reply: taken } => {
                let report = MessageReport::new(self.message, utterance, self.hub.now());
                let writer = self.hub.log().open(topic, Seq::FIRST);
                Ok(self.into_active(writer, report, Some(taken), false))
            }
            ActorStart::Stored => {
                let report = match self.load_report().await {
                    Ok(Some(report)) => report,
                    Ok(None) => return Err((self.mailbox.receiver, hub::unknown_message())),
                    Err(error) => return Err((self.mailbox.receiver, error.into())),
                };
                let writer = self.hub.log().open(topic, report.version.next());
                let mut work = self.into_active(writer, report, None, true);
                work.report_sender.send_replace(Some(Arc::new(work.report.clone())));
                if !work.report.state.is_final() {
                    work.await_reconnects();
                }
                Ok(work)
            }
        }
    }

    /// A store that is merely slow or gone for a while must not cost a message its steward.
    async fn load_report(&self) -> Result<Option<MessageReport>, StoreError> {
        let mut failures = 0;
        loop {
            let error = match hub::load_report(self.hub.store(), self.message).await {
                Err(error @ (StoreError::Busy | StoreError::Full | StoreError::Failed { .. })) => error,
                answer @ (Ok(_) | Err(StoreError::Closed | StoreError::Corrupt { .. } | StoreError::BadCursor)) => {
                    if let Err(error) = &answer {
                        tracing::error!(message.id = %self.message, %error, "a message cannot be read back");
                    }
                    return answer;
                }
            };
            if failures == 0 {
                tracing::error!(message.id = %self.message, %error, "a message cannot be read back; trying again");
            }
            tokio::select! {
                () = tokio::time::sleep(STORE_PAUSES.delay(failures)) => failures += 1,
                () = self.hub.shutdown().cancelled() => return Err(error),
            }
        }
    }

    fn into_active(
        self,
        writer: TopicWriter,
        report: MessageReport,
        taken: Option<SubmitReply>,
        is_stored: bool,
    ) -> ActiveMessage {
        let Self {
            hub,
            message,
            report_sender: told,
            mailbox: ActorMailbox { receiver: letters, missed_app_change: missed },
        } = self;
        ActiveMessage {
            hub,
            message,
            report_sender: told,
            mailbox: letters,
            missed_app_change: missed,
            deferred_inputs: VecDeque::new(),
            writer,
            report,
            pending_responses: Vec::new(),
            reconnect_deadline: None,
            silent_connection: None,
            retry_at: None,
            models_allowed_at: None,
            unmatched_apps: Vec::new(),
            model_backoff: Backoff::new(dispatch::MODEL_PAUSES),
            submit_reply: taken,
            reopen_reply: None,
            join_ack: None,
            is_stored,
        }
    }
}

impl ActorInput {
    pub(super) fn refuse(self, error: &BoardError) {
        match self {
            Self::Response { reply, .. } | Self::Resend { reply, .. } | Self::Cancel { reply, .. } => {
                drop(reply.send(Err(BoardError::new(error.kind, error.message.clone()))));
            }
            Self::AppJoined { .. } | Self::AppLeft { .. } => {}
        }
    }
}

impl ActiveMessage {
    /// Apps that had the message when the last process ended may come back with their answers, or for it; and those
    /// that did not have it yet may come.
    fn await_reconnects(&mut self) {
        let until = Instant::now() + self.hub.options().response_timeout;
        self.reconnect_deadline = Some(until);
        let owing =
            |app: &Arc<str>| PendingResponse { app: app.clone(), connection: None, until, inbox_retry_at: None };
        self.pending_responses = self.report.pending().map(|attempt| owing(&attempt.app)).collect();
    }

    async fn run_loop(&mut self) -> Result<(), ActorStopped> {
        self.advance().await?;
        loop {
            if self.missed_app_change.swap(false, Ordering::Relaxed) {
                self.resync_apps().await?;
            }
            self.reply_to_waiters();
            let input = if self.is_over() && self.deferred_inputs.is_empty() {
                match self.idle().await? {
                    Some(letter) => Some(letter),
                    None => return Ok(()),
                }
            } else {
                self.next_input().await?
            };
            self.handle(input).await?;
        }
    }

    /// What apps said before the end is put on record; nothing else is begun.
    async fn drain_responses(&mut self) {
        while let Some(letter) = self.deferred_inputs.pop_front().or_else(|| self.mailbox.try_recv().ok()) {
            if let ActorInput::Response { app, response, reply } = letter {
                let Ok(answer) = self.on_response(&app, response).await else { return };
                drop(reply.send(answer));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.report.state.is_final() && self.pending_responses.is_empty()
    }

    /// Stays at hand for late words. `None`: gone for good.
    async fn idle(&mut self) -> Result<Option<ActorInput>, ActorStopped> {
        let lingers = self.hub.reserve_idle();
        let until = Instant::now() + if lingers { IDLE_TIMEOUT } else { Duration::ZERO };
        loop {
            let letter = tokio::select! {
                biased;
                () = self.hub.shutdown().cancelled() => return Err(ActorStopped),
                letter = self.mailbox.recv() => letter.ok_or(ActorStopped)?,
                () = tokio::time::sleep_until(until) => {
                    if self.hub.remove_actor(self.message, &self.mailbox, lingers) {
                        return Ok(None);
                    }
                    continue;
                }
            };
            match letter {
                // Nothing to an ended message.
                ActorInput::AppJoined { .. } | ActorInput::AppLeft { .. } => {}
                letter @ (ActorInput::Response { .. } | ActorInput::Resend { .. } | ActorInput::Cancel { .. }) => {
                    if lingers {
                        self.hub.release_idle();
                    }
                    return Ok(Some(letter));
                }
            }
        }
    }

    /// The next letter, or `None` when time is up for something.
    async fn next_input(&mut self) -> Result<Option<ActorInput>, ActorStopped> {
        if let Some(letter) = self.deferred_inputs.pop_front() {
            return Ok(Some(letter));
        }
        let due = self.next_deadline();
        tokio::select! {
            biased;
            () = self.hub.shutdown().cancelled() => Err(ActorStopped),
            letter = self.mailbox.recv() => letter.map(Some).ok_or(ActorStopped),
            () = tokio::time::sleep_until(due) => Ok(None),
        }
    }

    /// When there is something to do although nobody says anything.
    fn next_deadline(&self) -> Instant {
        if self.pending_responses.is_empty() && !self.report.state.is_final() {
            let expiry = Instant::now() + self.time_to_expiry();
            return self.retry_at.map_or(expiry, |at| at.min(expiry));
        }
        let owing = self
            .pending_responses
            .iter()
            .map(|owing| owing.inbox_retry_at.map_or(owing.until, |at| at.min(owing.until)));
        owing.min().unwrap_or_else(|| Instant::now() + MAX_SLEEP)
    }

    /// Until it expires.
    fn time_to_expiry(&self) -> Duration {
        let left = self.report.expires_at().duration_since(self.hub.now());
        Duration::try_from(left).unwrap_or(Duration::ZERO).min(MAX_SLEEP)
    }

    async fn handle(&mut self, input: Option<ActorInput>) -> Result<(), ActorStopped> {
        match input {
            None => self.on_deadline().await?,
            Some(ActorInput::Response { app, response, reply }) => {
                let answer = self.on_response(&app, response).await?;
                drop(reply.send(answer));
            }
            Some(ActorInput::AppJoined { app, ack: heard }) => {
                self.join_ack = heard;
                self.on_app_joined(&app).await?;
            }
            Some(ActorInput::AppLeft { app, connection }) => {
                if !self.is_awaiting(&app, connection) {
                    // Nobody fits better because somebody is gone.
                    return Ok(());
                }
                self.fail_attempt(&app, AttemptFailure::Disconnected).await?;
            }
            Some(ActorInput::Resend { app, by, reply }) => {
                self.reopen(app, by).await?;
                self.reopen_reply = Some(reply);
            }
            Some(ActorInput::Cancel { by, reply }) => {
                self.cancel(&by).await?;
                drop(reply.send(Ok(BoardReply::Message(Arc::new(self.report.clone())))));
            }
        }
        self.advance().await?;
        self.join_ack = None;
        Ok(())
    }

    async fn on_deadline(&mut self) -> Result<(), ActorStopped> {
        let now = Instant::now();
        self.retry_at = self.retry_at.filter(|at| *at > now);
        let late = self.pending_responses.iter().filter(|owing| owing.until <= now);
        let late: Vec<(Arc<str>, Option<ConnectionId>, bool)> =
            late.map(|owing| (owing.app.clone(), owing.connection, owing.inbox_retry_at.is_none())).collect();
        for (app, connection, was_handed) in late {
            let failure = if connection.is_none() { AttemptFailure::Interrupted } else { AttemptFailure::Timeout };
            self.silent_connection = connection.filter(|_| was_handed);
            self.fail_attempt(&app, failure).await?;
        }
        let full = self.pending_responses.iter().filter(|owing| owing.inbox_retry_at.is_some_and(|at| at <= now));
        let full: Vec<Arc<str>> = full.map(|owing| owing.app.clone()).collect();
        for app in full {
            self.push_to_inbox(&app).await?;
        }
        Ok(())
    }

    /// Looks who is there, where it could not be told.
    async fn resync_apps(&mut self) -> Result<(), ActorStopped> {
        let owing: Vec<(Arc<str>, Option<ConnectionId>)> =
            self.pending_responses.iter().map(|owing| (owing.app.clone(), owing.connection)).collect();
        for (app, connection) in owing {
            match (connection, self.hub.connection_of(&app)) {
                (Some(had), now) if now != Some(had) => self.fail_attempt(&app, AttemptFailure::Disconnected).await?,
                (None, Some(_)) => self.on_app_joined(&app).await?,
                (Some(_) | None, Some(_) | None) => {}
            }
        }
        self.retry_at = None;
        self.advance().await
    }

    async fn on_app_joined(&mut self, app: &Arc<str>) -> Result<(), ActorStopped> {
        let now = Instant::now();
        self.retry_at = None;
        if self.is_parked() && self.models_allowed_at.is_none_or(|from| from < now) {
            self.models_allowed_at = Some(now + MODEL_COOLDOWN);
        }
        let owes = self.pending_responses.iter().any(|owing| owing.is_from(app) && owing.connection.is_none());
        if owes {
            self.fail_attempt(app, AttemptFailure::Interrupted).await?;
            // It had the message when the last process ended. Better twice, under the same id, than never.
            if !self.report.has_tried(app) {
                self.record(vec![MessageEvent::Sent { app: app.clone() }]).await?;
                self.deliver_to(app).await?;
            }
        }
        Ok(())
    }

    fn is_awaiting(&self, app: &str, connection: ConnectionId) -> bool {
        self.pending_responses.iter().any(|owing| owing.is_from(app) && owing.connection == Some(connection))
    }

    /// No answer will come of this attempt.
    async fn fail_attempt(&mut self, app: &Arc<str>, failure: AttemptFailure) -> Result<(), ActorStopped> {
        self.pending_responses.retain(|owing| !owing.is_from(app));
        self.record(vec![MessageEvent::Failed { app: app.clone(), failure }]).await
    }

    /// Puts it into the app's inbox; that it was sent is on record.
    async fn deliver_to(&mut self, app: &Arc<str>) -> Result<(), ActorStopped> {
        let until = Instant::now() + self.hub.options().response_timeout;
        self.pending_responses.push(PendingResponse {
            app: app.clone(),
            connection: None,
            until,
            inbox_retry_at: None,
        });
        self.push_to_inbox(app).await
    }

    async fn push_to_inbox(&mut self, app: &Arc<str>) -> Result<(), ActorStopped> {
        let (connection, hand_at) = match self.hub.push_to_inbox(app, self.delivery(app)) {
            InboxOutcome::Queued(connection) => (connection, None),
            // It has as long to make room as it has to answer.
            InboxOutcome::Full(connection) => (connection, Some(Instant::now() + INBOX_RETRY_INTERVAL)),
            InboxOutcome::Disconnected => return self.fail_attempt(app, AttemptFailure::Disconnected).await,
        };
        for owing in self.pending_responses.iter_mut().filter(|owing| owing.is_from(app)) {
            owing.connection = Some(connection);
            owing.inbox_retry_at = hand_at;
        }
        Ok(())
    }

    /// Whoever waits for it hears where it stands.
    fn reply_to_waiters(&mut self) {
        self.join_ack = None;
        // They may be gone; it is on its way all the same.
        if let Some(taken) = self.submit_reply.take() {
            drop(taken.send(Ok(Arc::new(self.report.clone()))));
        }
        if let Some(reopened) = self.reopen_reply.take() {
            drop(reopened.send(Ok(BoardReply::Message(Arc::new(self.report.clone())))));
        }
    }
}

impl PendingResponse {
    fn is_from(&self, app: &str) -> bool {
        self.app.eq_ignore_ascii_case(app)
    }
}

const MAX_SLEEP: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests;
