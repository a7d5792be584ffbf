//! The actor of one message, from submission to end: routing, delivery, response, re-routing, waiting. Each message has
//! its own actor, so that a stall of one message cannot delay another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::app::AppProfile;
use crate::app::message::{AppResponse, AttemptFailure, MessageEvent, MessageReport, Utterance};
use crate::backoff::{Backoff, BackoffSchedule};
use crate::error::BoardError;
use crate::event::Topic;
use crate::hub::{self, Hub, InboxOutcome};
use crate::id::{ConnectionId, MessageId, Seq};
use crate::log::TopicWriter;
use crate::store::StoreError;

mod dispatch;
mod recording;
mod responses;

/// How long the actor of an ended message stays in memory, for late responses.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Back-off between attempts to write to or read from the store; the last delay repeats.
const STORE_PAUSES: BackoffSchedule = BackoffSchedule::listed(&[
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
]);
/// Apps tend to register one after the other: for this long after an `AppJoined` input the models are not asked again
/// about a parked message.
const MODEL_COOLDOWN: Duration = Duration::from_secs(1);
/// Mailbox capacity, above the number of requests that one app can have in flight. Past it, responses, resends and
/// cancels are refused with a retry hint, and app joins and departures are looked up later
/// ([`ActorMailbox::missed_app_change`]).
pub(super) const MAILBOX_CAPACITY: usize = 2048;
/// How often delivery to a full inbox is retried.
const INBOX_RETRY_INTERVAL: Duration = Duration::from_secs(1);

type ReportReply = oneshot::Sender<Result<Arc<MessageReport>, BoardError>>;
/// Dropped when the actor has done all it can about the app without asking a model.
type JoinAck = oneshot::Sender<()>;
type ResponseReply = oneshot::Sender<Result<(), BoardError>>;

/// What an actor starts from.
#[derive(Debug)]
pub(super) enum ActorStart {
    New {
        utterance: Arc<Utterance>,
        reply: ReportReply,
    },
    /// Stored, with no running actor.
    Stored,
}

#[derive(Debug)]
pub(super) enum ActorInput {
    Response { app: Arc<str>, response: AppResponse, reply: ResponseReply },
    AppJoined { app: Arc<str>, ack: Option<JoinAck> },
    AppLeft { app: Arc<str>, connection: ConnectionId },
    Resend { app: Option<Arc<str>>, by: Arc<str>, reply: ReportReply },
    Cancel { by: Arc<str>, reply: ReportReply },
}

#[derive(Debug)]
pub(super) struct UnloadedActor {
    hub: Hub,
    message: MessageId,
    report_sender: watch::Sender<Option<Arc<MessageReport>>>,
    mailbox: ActorMailbox,
}

/// The actor's receiver, and a flag for app changes that did not fit.
#[derive(Debug)]
pub(super) struct ActorMailbox {
    pub(super) receiver: mpsc::Receiver<ActorInput>,
    pub(super) missed_app_change: Arc<AtomicBool>,
}

/// A message actor with its state loaded.
struct MessageActor {
    hub: Hub,
    message: MessageId,
    report_sender: watch::Sender<Option<Arc<MessageReport>>>,
    mailbox: mpsc::Receiver<ActorInput>,
    /// Apps registered or left while the mailbox was full.
    missed_app_change: Arc<AtomicBool>,
    /// Inputs received while a model was being asked.
    deferred_inputs: VecDeque<ActorInput>,
    writer: TopicWriter,
    /// `false` until the first commit, which stores the submission together with the first event.
    is_stored: bool,
    report: MessageReport,
    /// Apps that were sent the message and have not responded yet.
    pending_responses: Vec<PendingResponse>,
    /// Set after a restart: until then, apps of the previous process may still reconnect.
    reconnect_deadline: Option<Instant>,
    /// The connection whose app last failed to respond in time. The message is not sent to this connection again
    /// automatically.
    silent_connection: Option<ConnectionId>,
    /// When to try again without an input.
    retry_at: Option<Instant>,
    /// No model is asked before this time: a call has just failed, or apps are just registering.
    models_allowed_at: Option<Instant>,
    /// Apps that the models found no clear match among, since the message was last sent.
    unmatched_apps: Vec<Arc<AppProfile>>,
    model_backoff: Backoff,
    submit_reply: Option<ReportReply>,
    reopen_reply: Option<ReportReply>,
    join_ack: Option<JoinAck>,
}

struct PendingResponse {
    app: Arc<str>,
    /// `None`: the app had the message when the previous process ended, and has not reconnected yet.
    connection: Option<ConnectionId>,
    until: Instant,
    /// When to retry the delivery; set while the app's inbox is full.
    inbox_retry_at: Option<Instant>,
}

/// The hub is shutting down, or the submission could not be stored. The actor stops; the next process continues from
/// the records.
struct ActorSuspended;

impl UnloadedActor {
    pub(super) fn new(
        hub: Hub,
        message: MessageId,
        report_sender: watch::Sender<Option<Arc<MessageReport>>>,
        mailbox: ActorMailbox,
    ) -> Self {
        Self { hub, message, report_sender, mailbox }
    }

    pub(super) async fn run(self, start: ActorStart) {
        let hub = self.hub.clone();
        let message = self.message;
        let (mut mailbox, error) = match self.start(start).await {
            Ok(mut active) => {
                match active.run_loop().await {
                    Ok(()) => return,
                    // The rest is recorded; the next process continues.
                    Err(ActorSuspended) if active.is_stored => {
                        active.drain_responses().await;
                        tracing::trace!(message.id = %message, "actor suspended");
                        return;
                    }
                    Err(ActorSuspended) => (active.mailbox, hub::unknown_message()),
                }
            }
            Err(failed) => failed,
        };
        // The message could not be stored or read: refuse the inputs in the mailbox, then remove the actor.
        while !hub.remove_actor(message, &mailbox, false) {
            while let Ok(input) = mailbox.try_recv() {
                input.refuse(&error);
            }
        }
    }

    async fn start(self, start: ActorStart) -> Result<MessageActor, (mpsc::Receiver<ActorInput>, BoardError)> {
        let topic = Topic::Message(self.message);
        match start {
            ActorStart::New { utterance, reply: submit_reply } => {
                let report = MessageReport::new(self.message, utterance, self.hub.now());
                let writer = self.hub.log().open(topic, Seq::FIRST);
                Ok(self.into_active(writer, report, Some(submit_reply), false))
            }
            ActorStart::Stored => {
                let report = match self.load_report().await {
                    Ok(Some(report)) => report,
                    Ok(None) => return Err((self.mailbox.receiver, hub::unknown_message())),
                    Err(error) => return Err((self.mailbox.receiver, error.into())),
                };
                let writer = self.hub.log().open(topic, report.version.next());
                let mut active = self.into_active(writer, report, None, true);
                active.report_sender.send_replace(Some(Arc::new(active.report.clone())));
                if !active.report.state.is_final() {
                    active.await_reconnects();
                }
                Ok(active)
            }
        }
    }

    /// Retries while the store is slow or temporarily unavailable, so that the message keeps its actor.
    async fn load_report(&self) -> Result<Option<MessageReport>, StoreError> {
        let mut failures = 0;
        loop {
            let error = match hub::load_report(self.hub.store(), self.message).await {
                Err(error @ (StoreError::Busy | StoreError::Full | StoreError::Failed { .. })) => error,
                answer @ (Ok(_)
                | Err(
                    StoreError::Closed
                    | StoreError::Fenced
                    | StoreError::Conflict
                    | StoreError::Corrupt { .. }
                    | StoreError::BadCursor,
                )) => {
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
        submit_reply: Option<ReportReply>,
        is_stored: bool,
    ) -> MessageActor {
        let Self { hub, message, report_sender, mailbox: ActorMailbox { receiver: mailbox, missed_app_change } } = self;
        MessageActor {
            hub,
            message,
            report_sender,
            mailbox,
            missed_app_change,
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
            submit_reply,
            reopen_reply: None,
            join_ack: None,
            is_stored,
        }
    }
}

impl ActorInput {
    pub(super) fn refuse(self, error: &BoardError) {
        let error = BoardError::new(error.kind, error.message.clone());
        match self {
            Self::Response { reply, .. } => drop(reply.send(Err(error))),
            Self::Resend { reply, .. } | Self::Cancel { reply, .. } => drop(reply.send(Err(error))),
            Self::AppJoined { .. } | Self::AppLeft { .. } => {}
        }
    }
}

impl MessageActor {
    /// After a restart: apps that had the message may reconnect with their response or to receive it again, and apps
    /// that did not have it yet may register.
    fn await_reconnects(&mut self) {
        let until = Instant::now() + self.hub.options().response_timeout;
        self.reconnect_deadline = Some(until);
        let pending_response =
            |app: &Arc<str>| PendingResponse { app: app.clone(), connection: None, until, inbox_retry_at: None };
        self.pending_responses = self.report.pending().map(|attempt| pending_response(&attempt.app)).collect();
    }

    async fn run_loop(&mut self) -> Result<(), ActorSuspended> {
        self.advance().await?;
        loop {
            if self.missed_app_change.swap(false, Ordering::Relaxed) {
                self.resync_apps().await?;
            }
            self.reply_to_waiters();
            let input = if self.is_over() && self.deferred_inputs.is_empty() {
                match self.idle().await? {
                    Some(input) => Some(input),
                    None => return Ok(()),
                }
            } else {
                self.next_input().await?
            };
            self.handle(input).await?;
        }
    }

    /// Records responses that apps sent before the shutdown; starts nothing else.
    async fn drain_responses(&mut self) {
        while let Some(input) = self.deferred_inputs.pop_front().or_else(|| self.mailbox.try_recv().ok()) {
            if let ActorInput::Response { app, response, reply } = input {
                let Ok(answer) = self.on_response(&app, response).await else { return };
                drop(reply.send(answer));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.report.state.is_final() && self.pending_responses.is_empty()
    }

    /// Waits for late inputs to an ended message. `None`: the actor was removed.
    async fn idle(&mut self) -> Result<Option<ActorInput>, ActorSuspended> {
        let has_idle_slot = self.hub.reserve_idle();
        let until = Instant::now() + if has_idle_slot { IDLE_TIMEOUT } else { Duration::ZERO };
        loop {
            let input = tokio::select! {
                biased;
                () = self.hub.shutdown().cancelled() => return Err(ActorSuspended),
                input = self.mailbox.recv() => input.ok_or(ActorSuspended)?,
                () = tokio::time::sleep_until(until) => {
                    if self.hub.remove_actor(self.message, &self.mailbox, has_idle_slot) {
                        return Ok(None);
                    }
                    continue;
                }
            };
            match input {
                // An ended message is not routed again.
                ActorInput::AppJoined { .. } | ActorInput::AppLeft { .. } => {}
                input @ (ActorInput::Response { .. } | ActorInput::Resend { .. } | ActorInput::Cancel { .. }) => {
                    if has_idle_slot {
                        self.hub.release_idle();
                    }
                    return Ok(Some(input));
                }
            }
        }
    }

    /// The next input, or `None` when a deadline has passed.
    async fn next_input(&mut self) -> Result<Option<ActorInput>, ActorSuspended> {
        if let Some(input) = self.deferred_inputs.pop_front() {
            return Ok(Some(input));
        }
        let due = self.next_deadline();
        tokio::select! {
            biased;
            () = self.hub.shutdown().cancelled() => Err(ActorSuspended),
            input = self.mailbox.recv() => input.map(Some).ok_or(ActorSuspended),
            () = tokio::time::sleep_until(due) => Ok(None),
        }
    }

    /// When to act without an input.
    fn next_deadline(&self) -> Instant {
        if self.pending_responses.is_empty() && !self.report.state.is_final() {
            let expiry = Instant::now() + self.time_to_expiry();
            return self.retry_at.map_or(expiry, |at| at.min(expiry));
        }
        let deadlines = self
            .pending_responses
            .iter()
            .map(|pending| pending.inbox_retry_at.map_or(pending.until, |at| at.min(pending.until)));
        deadlines.min().unwrap_or_else(|| Instant::now() + MAX_SLEEP)
    }

    fn time_to_expiry(&self) -> Duration {
        let remaining = self.report.expires_at().duration_since(self.hub.now());
        Duration::try_from(remaining).unwrap_or(Duration::ZERO).min(MAX_SLEEP)
    }

    async fn handle(&mut self, input: Option<ActorInput>) -> Result<(), ActorSuspended> {
        match input {
            None => self.on_deadline().await?,
            Some(ActorInput::Response { app, response, reply }) => {
                let answer = self.on_response(&app, response).await?;
                drop(reply.send(answer));
            }
            Some(ActorInput::AppJoined { app, ack }) => {
                self.join_ack = ack;
                self.on_app_joined(&app).await?;
            }
            Some(ActorInput::AppLeft { app, connection }) => {
                if !self.is_awaiting(&app, connection) {
                    // An app that leaves makes no other app a better match.
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
                drop(reply.send(Ok(Arc::new(self.report.clone()))));
            }
        }
        self.advance().await?;
        self.join_ack = None;
        Ok(())
    }

    async fn on_deadline(&mut self) -> Result<(), ActorSuspended> {
        let now = Instant::now();
        self.retry_at = self.retry_at.filter(|at| *at > now);
        let late = self.pending_responses.iter().filter(|pending| pending.until <= now);
        let late: Vec<(Arc<str>, Option<ConnectionId>, bool)> =
            late.map(|pending| (pending.app.clone(), pending.connection, pending.inbox_retry_at.is_none())).collect();
        for (app, connection, was_delivered) in late {
            let failure = if connection.is_none() { AttemptFailure::Interrupted } else { AttemptFailure::Timeout };
            self.silent_connection = connection.filter(|_| was_delivered);
            self.fail_attempt(&app, failure).await?;
        }
        let to_retry =
            self.pending_responses.iter().filter(|pending| pending.inbox_retry_at.is_some_and(|at| at <= now));
        let to_retry: Vec<Arc<str>> = to_retry.map(|pending| pending.app.clone()).collect();
        for app in to_retry {
            self.push_to_inbox(&app).await?;
        }
        Ok(())
    }

    /// Compares with the roster when app changes may have been missed.
    async fn resync_apps(&mut self) -> Result<(), ActorSuspended> {
        let pending: Vec<(Arc<str>, Option<ConnectionId>)> =
            self.pending_responses.iter().map(|pending| (pending.app.clone(), pending.connection)).collect();
        for (app, connection) in pending {
            match (connection, self.hub.connection_of(&app)) {
                (Some(old), now) if now != Some(old) => self.fail_attempt(&app, AttemptFailure::Disconnected).await?,
                (None, Some(_)) => self.on_app_joined(&app).await?,
                (Some(_) | None, Some(_) | None) => {}
            }
        }
        self.retry_at = None;
        self.advance().await
    }

    async fn on_app_joined(&mut self, app: &Arc<str>) -> Result<(), ActorSuspended> {
        let now = Instant::now();
        self.retry_at = None;
        if self.is_parked() && self.models_allowed_at.is_none_or(|from| from < now) {
            self.models_allowed_at = Some(now + MODEL_COOLDOWN);
        }
        let is_interrupted =
            self.pending_responses.iter().any(|pending| pending.is_from(app) && pending.connection.is_none());
        if is_interrupted {
            self.fail_attempt(app, AttemptFailure::Interrupted).await?;
            // The app had the message when the previous process ended. A second delivery under the same id is better
            // than none.
            if !self.report.has_tried(app) {
                self.record(vec![MessageEvent::Sent { app: app.clone() }]).await?;
                self.deliver_to(app).await?;
            }
        }
        Ok(())
    }

    fn is_awaiting(&self, app: &str, connection: ConnectionId) -> bool {
        self.pending_responses.iter().any(|pending| pending.is_from(app) && pending.connection == Some(connection))
    }

    /// Records that this attempt gets no response.
    async fn fail_attempt(&mut self, app: &Arc<str>, failure: AttemptFailure) -> Result<(), ActorSuspended> {
        self.pending_responses.retain(|pending| !pending.is_from(app));
        self.record(vec![MessageEvent::Failed { app: app.clone(), failure }]).await
    }

    /// Puts the message into the app's inbox; the caller has recorded `Sent` before.
    async fn deliver_to(&mut self, app: &Arc<str>) -> Result<(), ActorSuspended> {
        let until = Instant::now() + self.hub.options().response_timeout;
        self.pending_responses.push(PendingResponse {
            app: app.clone(),
            connection: None,
            until,
            inbox_retry_at: None,
        });
        self.push_to_inbox(app).await
    }

    async fn push_to_inbox(&mut self, app: &Arc<str>) -> Result<(), ActorSuspended> {
        self.hub.may_act().map_err(|_| ActorSuspended)?;
        let (connection, inbox_retry_at) = match self.hub.push_to_inbox(app, self.delivery(app)) {
            InboxOutcome::Queued(connection) => (connection, None),
            // A full inbox counts against the response timeout.
            InboxOutcome::Full(connection) => (connection, Some(Instant::now() + INBOX_RETRY_INTERVAL)),
            InboxOutcome::Disconnected => return self.fail_attempt(app, AttemptFailure::Disconnected).await,
        };
        for pending in self.pending_responses.iter_mut().filter(|pending| pending.is_from(app)) {
            pending.connection = Some(connection);
            pending.inbox_retry_at = inbox_retry_at;
        }
        Ok(())
    }

    /// Replies to a pending submit or resend, and acknowledges a pending `AppJoined`.
    fn reply_to_waiters(&mut self) {
        self.join_ack = None;
        // The callers may have disconnected; the message is processed all the same.
        if let Some(submit_reply) = self.submit_reply.take() {
            drop(submit_reply.send(Ok(Arc::new(self.report.clone()))));
        }
        if let Some(reopen_reply) = self.reopen_reply.take() {
            drop(reopen_reply.send(Ok(Arc::new(self.report.clone()))));
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
