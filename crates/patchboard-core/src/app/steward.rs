//! One message from its submission to its end: routed, sent, answered, re-routed, waiting. Every message has its own
//! steward, so that nothing that happens to one can hold up another.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::AppProfile;
use super::hub::{self, Handed, Hub};
use super::message::{Failure, MessageEvent, MessageReport, Response, Utterance};
use crate::error::BoardError;
use crate::event::Topic;
use crate::id::{ConnId, MessageId, Seq};
use crate::log::TopicWriter;
use crate::port::StoreError;
use crate::reply::Reply;

mod answers;
mod keeping;
mod routing;

/// How long a message that is over stays at hand.
const LINGER: Duration = Duration::from_secs(300);
/// Pauses between tries to store or read what happened; the last one repeats.
const STORE_PAUSES: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(5)];
/// Apps tend to come one after the other: so long after one, no model is asked again about a message that waits.
const CALM: Duration = Duration::from_secs(1);
/// Letters that wait for one steward, more than one app can have under way. What is said beyond that is refused; that
/// apps came or went is looked up afterwards.
pub(super) const MAILBOX: usize = 2048;
/// How often an app whose inbox is full is tried again.
const HAND_AGAIN: Duration = Duration::from_secs(1);

type Taken = oneshot::Sender<Result<Arc<MessageReport>, BoardError>>;
/// Dropped when the steward has done what it can about it without asking a model.
type Heard = oneshot::Sender<()>;
type Replied = oneshot::Sender<Result<Reply, BoardError>>;

/// What a steward starts from.
#[derive(Debug)]
pub(super) enum Begin {
    New {
        utterance: Arc<Utterance>,
        taken: Taken,
    },
    /// It is on record, and nobody is at work on it.
    Stored,
}

#[derive(Debug)]
pub(super) enum Input {
    Answer { app: Arc<str>, response: Response, reply: Replied },
    Joined { app: Arc<str>, heard: Option<Heard> },
    Left { app: Arc<str>, connection: ConnId },
    Resend { app: Option<Arc<str>>, by: Arc<str>, reply: Replied },
    Cancel { by: Arc<str>, reply: Replied },
}

#[derive(Debug)]
pub(super) struct Steward {
    hub: Hub,
    message: MessageId,
    told: watch::Sender<Option<Arc<MessageReport>>>,
    mail: Mail,
}

/// What a steward is told, and whether something did not fit in.
#[derive(Debug)]
pub(super) struct Mail {
    pub(super) letters: mpsc::Receiver<Input>,
    pub(super) missed: Arc<AtomicBool>,
}

/// A steward with its message in hand.
struct Work {
    hub: Hub,
    message: MessageId,
    told: watch::Sender<Option<Arc<MessageReport>>>,
    letters: mpsc::Receiver<Input>,
    /// Apps came or went while there was no room for more letters.
    missed: Arc<AtomicBool>,
    /// Letters that came while it was busy.
    unread: VecDeque<Input>,
    writer: TopicWriter,
    /// Its submission goes on record with the first thing that happens to it, in one commit.
    is_stored: bool,
    report: MessageReport,
    /// Apps that have it and owe an answer.
    with: Vec<Owing>,
    /// The server has just started: until then, whoever is not there yet may still come.
    patience: Option<Instant>,
    /// The connection whose app had it last and did not answer in time: that one is not given it again by itself.
    silent: Option<ConnId>,
    /// When to try again although nothing happened.
    retry_at: Option<Instant>,
    /// No model is asked before: it failed a moment ago, or apps are just coming.
    ask_from: Option<Instant>,
    /// Apps of which the models said that none clearly fits, since the message was last sent to anybody.
    asked: Vec<Arc<AppProfile>>,
    model_failures: usize,
    taken: Option<Taken>,
    reopened: Option<Replied>,
    heard: Option<Heard>,
}

struct Owing {
    app: Arc<str>,
    /// `None`: it had the message when the last process ended, and has not come back yet.
    connection: Option<ConnId>,
    until: Instant,
    /// It could not take it yet: when to try again.
    hand_at: Option<Instant>,
}

/// The hub is going down, or the message could not be taken: put everything down as it is on record.
struct Closing;

impl Steward {
    pub(super) fn new(
        hub: Hub,
        message: MessageId,
        told: watch::Sender<Option<Arc<MessageReport>>>,
        mail: Mail,
    ) -> Self {
        Self { hub, message, told, mail }
    }

    pub(super) async fn work(self, begin: Begin) {
        let hub = self.hub.clone();
        let message = self.message;
        let (mut letters, error) = match self.begin(begin).await {
            Ok(mut work) => {
                match work.live().await {
                    Ok(()) => return,
                    // The rest is on record; the next process goes on with it.
                    Err(Closing) if work.is_stored => {
                        work.hear_last_words().await;
                        tracing::trace!(message.id = %message, "put down");
                        return;
                    }
                    Err(Closing) => (work.letters, hub::unknown_message()),
                }
            }
            Err(nothing) => nothing,
        };
        // Nobody else knows of it: say so to whoever asked, and be gone.
        while !hub.dismiss(message, &letters, false) {
            while let Ok(letter) = letters.try_recv() {
                letter.refuse(&error);
            }
        }
    }

    async fn begin(self, begin: Begin) -> Result<Work, (mpsc::Receiver<Input>, BoardError)> {
        let topic = Topic::Message(self.message);
        match begin {
            Begin::New { utterance, taken } => {
                let report = MessageReport::new(self.message, utterance, self.hub.now());
                let writer = self.hub.log().open(topic, Seq::FIRST);
                Ok(self.with(writer, report, Some(taken), false))
            }
            Begin::Stored => {
                let report = match self.read_back().await {
                    Ok(Some(report)) => report,
                    Ok(None) => return Err((self.mail.letters, hub::unknown_message())),
                    Err(error) => return Err((self.mail.letters, error.into())),
                };
                let writer = self.hub.log().open(topic, report.version.next());
                let mut work = self.with(writer, report, None, true);
                work.told.send_replace(Some(Arc::new(work.report.clone())));
                if !work.report.state.is_final() {
                    work.expect_back();
                }
                Ok(work)
            }
        }
    }

    /// A store that is merely slow or gone for a while must not cost a message its steward.
    async fn read_back(&self) -> Result<Option<MessageReport>, StoreError> {
        let mut failures = 0;
        loop {
            let error = match hub::read_back(self.hub.store(), self.message).await {
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
                () = tokio::time::sleep(store_pause(failures)) => failures += 1,
                () = self.hub.closing().cancelled() => return Err(error),
            }
        }
    }

    fn with(self, writer: TopicWriter, report: MessageReport, taken: Option<Taken>, is_stored: bool) -> Work {
        let Self { hub, message, told, mail: Mail { letters, missed } } = self;
        Work {
            hub,
            message,
            told,
            letters,
            missed,
            unread: VecDeque::new(),
            writer,
            report,
            with: Vec::new(),
            patience: None,
            silent: None,
            retry_at: None,
            ask_from: None,
            asked: Vec::new(),
            model_failures: 0,
            taken,
            reopened: None,
            heard: None,
            is_stored,
        }
    }
}

impl Input {
    pub(super) fn refuse(self, error: &BoardError) {
        match self {
            Self::Answer { reply, .. } | Self::Resend { reply, .. } | Self::Cancel { reply, .. } => {
                drop(reply.send(Err(BoardError::new(error.kind, error.message.clone()))));
            }
            Self::Joined { .. } | Self::Left { .. } => {}
        }
    }
}

impl Work {
    /// Apps that had the message when the last process ended may come back with their answers, or for it; and those
    /// that did not have it yet may come.
    fn expect_back(&mut self) {
        let until = Instant::now() + self.hub.options().response_timeout;
        self.patience = Some(until);
        let owing = |app: &Arc<str>| Owing { app: app.clone(), connection: None, until, hand_at: None };
        self.with = self.report.pending().map(|attempt| owing(&attempt.app)).collect();
    }

    async fn live(&mut self) -> Result<(), Closing> {
        self.advance().await?;
        loop {
            if self.missed.swap(false, Ordering::Relaxed) {
                self.catch_up().await?;
            }
            self.tell_taken();
            let input = if self.is_over() && self.unread.is_empty() {
                match self.linger().await? {
                    Some(letter) => Some(letter),
                    None => return Ok(()),
                }
            } else {
                self.next().await?
            };
            self.handle(input).await?;
        }
    }

    /// What apps said before the end is put on record; nothing else is begun.
    async fn hear_last_words(&mut self) {
        while let Some(letter) = self.unread.pop_front().or_else(|| self.letters.try_recv().ok()) {
            if let Input::Answer { app, response, reply } = letter {
                let Ok(answer) = self.answer(&app, response).await else { return };
                drop(reply.send(answer));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.report.state.is_final() && self.with.is_empty()
    }

    /// Stays at hand for late words. `None`: gone for good.
    async fn linger(&mut self) -> Result<Option<Input>, Closing> {
        let lingers = self.hub.may_linger();
        let until = Instant::now() + if lingers { LINGER } else { Duration::ZERO };
        loop {
            let letter = tokio::select! {
                biased;
                () = self.hub.closing().cancelled() => return Err(Closing),
                letter = self.letters.recv() => letter.ok_or(Closing)?,
                () = tokio::time::sleep_until(until) => {
                    if self.hub.dismiss(self.message, &self.letters, lingers) {
                        return Ok(None);
                    }
                    continue;
                }
            };
            match letter {
                // Nothing to an ended message.
                Input::Joined { .. } | Input::Left { .. } => {}
                letter @ (Input::Answer { .. } | Input::Resend { .. } | Input::Cancel { .. }) => {
                    if lingers {
                        self.hub.stop_lingering();
                    }
                    return Ok(Some(letter));
                }
            }
        }
    }

    /// The next letter, or `None` when time is up for something.
    async fn next(&mut self) -> Result<Option<Input>, Closing> {
        if let Some(letter) = self.unread.pop_front() {
            return Ok(Some(letter));
        }
        let due = self.due();
        tokio::select! {
            biased;
            () = self.hub.closing().cancelled() => Err(Closing),
            letter = self.letters.recv() => letter.map(Some).ok_or(Closing),
            () = tokio::time::sleep_until(due) => Ok(None),
        }
    }

    /// When there is something to do although nobody says anything.
    fn due(&self) -> Instant {
        if self.with.is_empty() && !self.report.state.is_final() {
            let expiry = Instant::now() + self.left();
            return self.retry_at.map_or(expiry, |at| at.min(expiry));
        }
        let owing = self.with.iter().map(|owing| owing.hand_at.map_or(owing.until, |at| at.min(owing.until)));
        owing.min().unwrap_or_else(|| Instant::now() + LONG)
    }

    /// Until it expires.
    fn left(&self) -> Duration {
        let left = self.report.expires_at().duration_since(self.hub.now());
        Duration::try_from(left).unwrap_or(Duration::ZERO).min(LONG)
    }

    async fn handle(&mut self, input: Option<Input>) -> Result<(), Closing> {
        match input {
            None => self.time_is_up().await?,
            Some(Input::Answer { app, response, reply }) => {
                let answer = self.answer(&app, response).await?;
                drop(reply.send(answer));
            }
            Some(Input::Joined { app, heard }) => {
                self.heard = heard;
                self.joined(&app).await?;
            }
            Some(Input::Left { app, connection }) => {
                if !self.has(&app, connection) {
                    // Nobody fits better because somebody is gone.
                    return Ok(());
                }
                self.lost(&app, Failure::Disconnected).await?;
            }
            Some(Input::Resend { app, by, reply }) => {
                self.reopen(app, by).await?;
                self.reopened = Some(reply);
            }
            Some(Input::Cancel { by, reply }) => {
                self.cancel(&by).await?;
                drop(reply.send(Ok(Reply::Message(Arc::new(self.report.clone())))));
            }
        }
        self.advance().await?;
        self.heard = None;
        Ok(())
    }

    async fn time_is_up(&mut self) -> Result<(), Closing> {
        let now = Instant::now();
        self.retry_at = self.retry_at.filter(|at| *at > now);
        let late = self.with.iter().filter(|owing| owing.until <= now);
        let late: Vec<(Arc<str>, Option<ConnId>, bool)> =
            late.map(|owing| (owing.app.clone(), owing.connection, owing.hand_at.is_none())).collect();
        for (app, connection, was_handed) in late {
            let failure = if connection.is_none() { Failure::Interrupted } else { Failure::Timeout };
            self.silent = connection.filter(|_| was_handed);
            self.lost(&app, failure).await?;
        }
        let full = self.with.iter().filter(|owing| owing.hand_at.is_some_and(|at| at <= now));
        let full: Vec<Arc<str>> = full.map(|owing| owing.app.clone()).collect();
        for app in full {
            self.hand_again(&app).await?;
        }
        Ok(())
    }

    /// Looks who is there, where it could not be told.
    async fn catch_up(&mut self) -> Result<(), Closing> {
        let owing: Vec<(Arc<str>, Option<ConnId>)> =
            self.with.iter().map(|owing| (owing.app.clone(), owing.connection)).collect();
        for (app, connection) in owing {
            match (connection, self.hub.connection_of(&app)) {
                (Some(had), now) if now != Some(had) => self.lost(&app, Failure::Disconnected).await?,
                (None, Some(_)) => self.joined(&app).await?,
                (Some(_) | None, Some(_) | None) => {}
            }
        }
        self.retry_at = None;
        self.advance().await
    }

    async fn joined(&mut self, app: &Arc<str>) -> Result<(), Closing> {
        let now = Instant::now();
        self.retry_at = None;
        if self.is_resting() && self.ask_from.is_none_or(|from| from < now) {
            self.ask_from = Some(now + CALM);
        }
        let owes = self.with.iter().any(|owing| owing.is(app) && owing.connection.is_none());
        if owes {
            self.lost(app, Failure::Interrupted).await?;
            // It had the message when the last process ended. Better twice, under the same id, than never.
            if !self.report.has_tried(app) {
                self.record(vec![MessageEvent::Sent { app: app.clone() }]).await?;
                self.hand_over(app).await?;
            }
        }
        Ok(())
    }

    fn has(&self, app: &str, connection: ConnId) -> bool {
        self.with.iter().any(|owing| owing.is(app) && owing.connection == Some(connection))
    }

    /// No answer will come of this attempt.
    async fn lost(&mut self, app: &Arc<str>, failure: Failure) -> Result<(), Closing> {
        self.with.retain(|owing| !owing.is(app));
        self.record(vec![MessageEvent::Failed { app: app.clone(), failure }]).await
    }

    /// Puts it into the app's inbox; that it was sent is on record.
    async fn hand_over(&mut self, app: &Arc<str>) -> Result<(), Closing> {
        let until = Instant::now() + self.hub.options().response_timeout;
        self.with.push(Owing { app: app.clone(), connection: None, until, hand_at: None });
        self.hand_again(app).await
    }

    async fn hand_again(&mut self, app: &Arc<str>) -> Result<(), Closing> {
        let (connection, hand_at) = match self.hub.hand(app, self.delivery(app)) {
            Handed::To(connection) => (connection, None),
            // It has as long to make room as it has to answer.
            Handed::Full(connection) => (connection, Some(Instant::now() + HAND_AGAIN)),
            Handed::Gone => return self.lost(app, Failure::Disconnected).await,
        };
        for owing in self.with.iter_mut().filter(|owing| owing.is(app)) {
            owing.connection = Some(connection);
            owing.hand_at = hand_at;
        }
        Ok(())
    }

    /// Whoever waits for it hears where it stands.
    fn tell_taken(&mut self) {
        self.heard = None;
        // They may be gone; it is on its way all the same.
        if let Some(taken) = self.taken.take() {
            drop(taken.send(Ok(Arc::new(self.report.clone()))));
        }
        if let Some(reopened) = self.reopened.take() {
            drop(reopened.send(Ok(Reply::Message(Arc::new(self.report.clone())))));
        }
    }
}

impl Owing {
    fn is(&self, app: &str) -> bool {
        self.app.eq_ignore_ascii_case(app)
    }
}

const LONG: Duration = Duration::from_secs(365 * 24 * 3600);

fn store_pause(failures: usize) -> Duration {
    STORE_PAUSES.get(failures.min(STORE_PAUSES.len() - 1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
