//! The hub protocol for apps: an app registers, receives its messages, answers them, and proves that it is alive.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::command::{ConfirmAppAlive, DeregisterApp, NextInboxEvent, RegisterApp};
use patchboard_core::event::Envelope;
use patchboard_core::reply::{InboxEvent, RegistrationRefusal};
use patchboard_core::{BoardError, ErrorKind};
use uuid::Uuid;

use super::wire::{AppFrame, FrameError, FrameErrorCode, ResponseBody, ResponseFrame};
use super::{HubDialectOptions, SURFACE, error, map};
use crate::auth::ClientIdentity;
use crate::dialect::{BoardRequest, CloseCause, Dialect, FollowId, Ticket};
use crate::limit::{RateLimit, TokenBucket};
use crate::pump::close;
use crate::telemetry;

/// Rate limits of one connection. Acknowledgements and rejections have a bucket of their own, so that a flood of
/// notifications cannot cause an acknowledgement to be dropped.
const ANSWER_RATE: RateLimit = RateLimit { per_second: 200.0, burst: 400.0 };
const OTHER_FRAMES_RATE: RateLimit = RateLimit { per_second: 200.0, burst: 400.0 };
/// Answers of one connection that the board has not recorded yet; further ones are dropped with a `rate_limited` error.
const MAX_IN_FLIGHT: usize = 1024;
/// Frames buffered during a registration; further ones are dropped with a `rate_limited` error.
const MAX_BACKLOG: usize = 64;
/// The same limit in bytes.
const MAX_BACKLOG_BYTES: usize = 1024 * 1024;

pub(super) struct HubDialect {
    options: HubDialectOptions,
    state: RegistrationState,
    /// Frames received during a registration; they are processed afterwards, so that responses keep the order of
    /// requests.
    backlog: VecDeque<AppFrame>,
    backlog_bytes: usize,
    next: u64,
    pending: HashMap<Ticket, AtClose>,
    answer_bucket: TokenBucket,
    other_bucket: TokenBucket,
    ping_at: Duration,
    /// Set while a ping is unanswered.
    pong_due: Option<Duration>,
    /// Another connection wants to register the name: the next pong must be reported to the board.
    proof_requested: bool,
    wake_at: Option<Duration>,
}

enum RegistrationState {
    Unregistered,
    /// The app's token is wrong; the refusal is sent after a delay.
    Delayed {
        until: Duration,
        refusal: FrameError,
    },
    Registering {
        name: Arc<str>,
        shows_token: bool,
    },
    Registered {
        name: Arc<str>,
    },
    /// Nothing further is sent on this connection.
    Closed,
}

/// What happens to a pending request when the connection closes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtClose {
    Cancel,
    /// An answer of the app must be recorded.
    Await,
}

/// A reply of the board.
#[derive(Debug)]
pub(super) enum HubReply {
    Registered(Result<Result<Uuid, RegistrationRefusal>, BoardError>),
    Inbox(Result<InboxEvent, BoardError>),
    /// Of a command without a response to the app.
    Recorded(Result<(), BoardError>),
}

type Step = crate::dialect::Step<HubReply>;

impl HubDialect {
    pub(super) fn new(options: HubDialectOptions) -> Self {
        Self {
            ping_at: options.timeouts.ping_interval,
            options,
            state: RegistrationState::Unregistered,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            next: 0,
            pending: HashMap::new(),
            answer_bucket: TokenBucket::new(ANSWER_RATE, Duration::ZERO),
            other_bucket: TokenBucket::new(OTHER_FRAMES_RATE, Duration::ZERO),
            pong_due: None,
            proof_requested: false,
            wake_at: None,
        }
    }

    fn receive_frame(&mut self, frame: AppFrame, size: usize, now: Duration, steps: &mut Vec<Step>) {
        let bucket = match &frame {
            AppFrame::Response(ResponseFrame { answer: ResponseBody::Ack | ResponseBody::Reject { .. }, .. }) => {
                &mut self.answer_bucket
            }
            AppFrame::Response(ResponseFrame { answer: ResponseBody::Notification(_), .. })
            | AppFrame::Registration(_)
            | AppFrame::Malformed(_) => &mut self.other_bucket,
        };
        if !bucket.take(now) {
            return write_rate_limited(steps, "too many frames in a short time: this one was ignored");
        }
        match self.state {
            RegistrationState::Closed => {}
            RegistrationState::Delayed { .. } | RegistrationState::Registering { .. } => {
                if self.backlog.len() >= MAX_BACKLOG || self.backlog_bytes + size > MAX_BACKLOG_BYTES {
                    return write_rate_limited(
                        steps,
                        "too many frames before the registration was answered: this one was ignored",
                    );
                }
                self.backlog_bytes += size;
                self.backlog.push_back(frame);
            }
            RegistrationState::Unregistered | RegistrationState::Registered { .. } => self.handle_frame(frame, steps),
        }
    }

    fn handle_frame(&mut self, frame: AppFrame, steps: &mut Vec<Step>) {
        match (&self.state, frame) {
            (RegistrationState::Registered { .. }, AppFrame::Registration(_)) => {
                refuse(steps, &map::already_registered());
            }
            (_, AppFrame::Registration(Err(refusal))) => refuse(steps, &refusal),
            (_, AppFrame::Registration(Ok(registration))) => {
                let HubDialectOptions { token, origin, .. } = &self.options;
                self.register(map::register(registration, token.as_deref(), origin.clone()), steps);
            }
            (RegistrationState::Registered { name }, AppFrame::Response(response)) => {
                // Unparsable message ids are dropped without an error.
                let Some(command) = map::answer_command(response, name) else { return };
                if self.pending.len() >= MAX_IN_FLIGHT {
                    return write_rate_limited(steps, "too many answers are being recorded: this one was ignored");
                }
                self.ask(AtClose::Await, BoardRequest::new(command, HubReply::Recorded), steps);
            }
            (RegistrationState::Registered { .. }, AppFrame::Malformed(problem)) => {
                steps.push(Step::Write(map::error(&FrameError::new(FrameErrorCode::ValidationError, problem))));
            }
            (_, AppFrame::Response(_)) => {
                refuse(steps, &FrameError::new(FrameErrorCode::ValidationError, "register before answering messages"));
            }
            (_, AppFrame::Malformed(problem)) => {
                refuse(steps, &FrameError::new(FrameErrorCode::ValidationError, problem));
            }
        }
    }

    fn register(&mut self, register: RegisterApp, steps: &mut Vec<Step>) {
        let name = register.profile.name.clone();
        self.state = RegistrationState::Registering { name, shows_token: register.token.is_some() };
        self.ask(AtClose::Cancel, BoardRequest::new(register, HubReply::Registered), steps);
    }

    fn registration_answered(
        &mut self,
        result: Result<Result<Uuid, RegistrationRefusal>, BoardError>,
        now: Duration,
        steps: &mut Vec<Step>,
    ) {
        let previous = std::mem::replace(&mut self.state, RegistrationState::Unregistered);
        let RegistrationState::Registering { name, shows_token } = previous else {
            self.state = previous;
            return;
        };
        match result {
            Ok(Ok(client)) => {
                steps.push(Step::Write(map::registered(&name, client)));
                self.state = RegistrationState::Registered { name };
                self.ask(AtClose::Cancel, BoardRequest::new(NextInboxEvent, HubReply::Inbox), steps);
            }
            Ok(Err(why)) => {
                let refusal = map::not_registered(&name, why);
                if why == RegistrationRefusal::WrongToken && shows_token {
                    return self.reject_token(refusal, now, steps);
                }
                refuse(steps, &refusal);
            }
            Err(problem) => refuse(steps, &error::registration_error(&problem)),
        }
        self.process_backlog(steps);
    }

    /// Delays the refusal of a wrong token. Valid tokens are never delayed; refusals are sent one after the other.
    fn reject_token(&mut self, refusal: FrameError, now: Duration, steps: &mut Vec<Step>) {
        telemetry::refused(SURFACE, "token");
        // The hub serves loopback clients only.
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        match self.options.failed_attempts.reserve_answer_delay(here, self.options.opened_at + now) {
            Some(Duration::ZERO) => {
                refuse(steps, &refusal);
                self.process_backlog(steps);
            }
            Some(wait) => self.state = RegistrationState::Delayed { until: now + wait, refusal },
            None => {
                self.state = RegistrationState::Closed;
                steps.push(Step::Drop);
            }
        }
    }

    /// Processes the buffered frames.
    fn process_backlog(&mut self, steps: &mut Vec<Step>) {
        // A buffered frame may start another registration, which ends the loop.
        while matches!(self.state, RegistrationState::Unregistered | RegistrationState::Registered { .. })
            && let Some(frame) = self.backlog.pop_front()
        {
            self.handle_frame(frame, steps);
        }
        if self.backlog.is_empty() {
            self.backlog_bytes = 0;
        }
    }

    /// Exactly one `NextInboxEvent` is pending while an app is registered.
    fn inbox_answered(&mut self, result: Result<InboxEvent, BoardError>, now: Duration, steps: &mut Vec<Step>) {
        match result {
            Ok(event) => {
                match event {
                    InboxEvent::Deliver(delivery) => steps.push(Step::Write(map::delivery(&delivery))),
                    InboxEvent::ProveAlive => {
                        self.proof_requested = true;
                        self.ping(now, steps);
                    }
                }
                self.ask(AtClose::Cancel, BoardRequest::new(NextInboxEvent, HubReply::Inbox), steps);
            }
            Err(problem) => match problem.kind {
                // Another connection has taken over the name, because this one was considered dead; nothing more is
                // sent on it.
                ErrorKind::Conflict => {
                    self.state = RegistrationState::Closed;
                    steps.push(Step::Drop);
                }
                ErrorKind::Unavailable | ErrorKind::Cancelled => {
                    steps.push(Step::Close { code: close::GOING_AWAY, reason: "Server shutting down" });
                }
                ErrorKind::Invalid
                | ErrorKind::Unauthenticated
                | ErrorKind::Forbidden
                | ErrorKind::NotFound
                | ErrorKind::Exhausted
                | ErrorKind::Timeout
                | ErrorKind::Upstream
                | ErrorKind::Internal => {
                    tracing::warn!(error = %problem, "messages cannot be delivered to an app; it has to register again");
                    steps.push(Step::Close { code: close::TRY_AGAIN_LATER, reason: "try again later" });
                }
            },
        }
    }

    fn ping(&mut self, now: Duration, steps: &mut Vec<Step>) {
        steps.push(Step::Ping);
        self.pong_due.get_or_insert(now.saturating_add(self.options.timeouts.pong_timeout));
    }

    fn ask(&mut self, at_close: AtClose, request: BoardRequest<HubReply>, steps: &mut Vec<Step>) {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.pending.insert(ticket, at_close);
        steps.push(Step::Ask(ticket, request));
    }

    /// Schedules the timer for the next deadline.
    fn schedule_wake(&mut self, steps: &mut Vec<Step>) {
        let register_by = match &self.state {
            RegistrationState::Unregistered => Some(self.options.timeouts.register_timeout),
            RegistrationState::Delayed { until, .. } => Some(*until),
            RegistrationState::Registering { .. } | RegistrationState::Registered { .. } => None,
            RegistrationState::Closed => return,
        };
        let due = [self.pong_due, register_by].into_iter().flatten().fold(self.ping_at, Duration::min);
        if self.wake_at != Some(due) {
            self.wake_at = Some(due);
            steps.push(Step::WakeAt(due));
        }
    }
}

impl Dialect for HubDialect {
    type Reply = HubReply;

    fn opened(&mut self, identity: Option<ClientIdentity>, _now: Duration, steps: &mut Vec<Step>) {
        if identity.is_none() {
            // Every accepted connection has an identity; app tokens are presented at registration.
            self.state = RegistrationState::Closed;
            return steps.push(Step::Close { code: close::POLICY, reason: "not signed in" });
        }
        self.schedule_wake(steps);
    }

    fn text(&mut self, text: &str, now: Duration, steps: &mut Vec<Step>) {
        self.receive_frame(AppFrame::read(text), text.len(), now, steps);
        self.schedule_wake(steps);
    }

    fn binary(&mut self, bytes: &[u8], now: Duration, steps: &mut Vec<Step>) {
        self.receive_frame(AppFrame::read_bytes(bytes), bytes.len(), now, steps);
        self.schedule_wake(steps);
    }

    fn authenticated(&mut self, _identity: Option<ClientIdentity>, _now: Duration, _steps: &mut Vec<Step>) {}

    fn replied(&mut self, ticket: Ticket, reply: HubReply, now: Duration, steps: &mut Vec<Step>) {
        if self.pending.remove(&ticket).is_some() {
            match reply {
                HubReply::Registered(result) => self.registration_answered(result, now, steps),
                HubReply::Inbox(result) => self.inbox_answered(result, now, steps),
                HubReply::Recorded(Ok(())) => {}
                HubReply::Recorded(Err(problem)) => log_unrecorded(&problem),
            }
        }
        self.schedule_wake(steps);
    }

    fn observed(&mut self, _follow: FollowId, _envelope: &Envelope, _now: Duration, _steps: &mut Vec<Step>) {}

    fn follow_ended(&mut self, _follow: FollowId, _error: Option<BoardError>, _steps: &mut Vec<Step>) {}

    fn timer_fired(&mut self, now: Duration, steps: &mut Vec<Step>) {
        self.wake_at = None;
        if self.pong_due.is_some_and(|due| due <= now) {
            return steps.push(Step::Drop);
        }
        match &self.state {
            RegistrationState::Unregistered if now >= self.options.timeouts.register_timeout => {
                self.state = RegistrationState::Closed;
                return steps.push(Step::Drop);
            }
            RegistrationState::Delayed { until, refusal } if now >= *until => {
                refuse(steps, refusal);
                self.state = RegistrationState::Unregistered;
                self.process_backlog(steps);
            }
            RegistrationState::Unregistered
            | RegistrationState::Delayed { .. }
            | RegistrationState::Registering { .. }
            | RegistrationState::Registered { .. }
            | RegistrationState::Closed => {}
        }
        if self.ping_at <= now {
            self.ping_at = now.saturating_add(self.options.timeouts.ping_interval);
            self.ping(now, steps);
        }
        self.schedule_wake(steps);
    }

    /// Only a pong proves liveness: a client that merely sends may not be reading.
    fn pong_received(&mut self, _now: Duration, steps: &mut Vec<Step>) {
        self.pong_due = None;
        if std::mem::take(&mut self.proof_requested) {
            self.ask(AtClose::Cancel, BoardRequest::new(ConfirmAppAlive, HubReply::Recorded), steps);
        }
        self.schedule_wake(steps);
    }

    /// Waits until the app's answers are recorded, and stops deliveries to it.
    fn closed(&mut self, _cause: CloseCause, steps: &mut Vec<Step>) {
        let mut pending: Vec<(Ticket, AtClose)> = self.pending.drain().collect();
        pending.sort_unstable_by_key(|(ticket, _)| *ticket);
        steps.extend(pending.into_iter().map(|(ticket, at_close)| match at_close {
            AtClose::Await => Step::AwaitReply(ticket),
            AtClose::Cancel => Step::CancelAsk(ticket),
        }));
        match std::mem::replace(&mut self.state, RegistrationState::Closed) {
            // The registration may have succeeded although its reply was not received.
            RegistrationState::Registered { .. } | RegistrationState::Registering { .. } => {
                self.next += 1;
                let request = BoardRequest::new(DeregisterApp, HubReply::Recorded);
                steps.push(Step::Ask(Ticket(self.next), request));
            }
            RegistrationState::Unregistered | RegistrationState::Delayed { .. } | RegistrationState::Closed => {}
        }
    }
}

fn refuse(steps: &mut Vec<Step>, refusal: &FrameError) {
    steps.push(Step::Write(map::refused(refusal)));
}

fn write_rate_limited(steps: &mut Vec<Step>, message: &str) {
    steps.push(Step::Write(map::error(&FrameError::new(FrameErrorCode::RateLimited, message))));
}

/// The app is not informed, because the protocol has no response to an answer.
fn log_unrecorded(problem: &BoardError) {
    match problem.kind {
        // The message is unknown, or another connection has registered the app since.
        ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Cancelled => {}
        ErrorKind::Invalid
        | ErrorKind::Unauthenticated
        | ErrorKind::Forbidden
        | ErrorKind::Exhausted
        | ErrorKind::Timeout
        | ErrorKind::Unavailable
        | ErrorKind::Upstream
        | ErrorKind::Internal => {
            let cause = problem.source.as_ref().map(ToString::to_string);
            tracing::warn!(error = %problem, cause, "an app's answer was not recorded");
        }
    }
}

#[cfg(test)]
mod tests;
