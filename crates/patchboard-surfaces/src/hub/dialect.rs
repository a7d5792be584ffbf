//! What a hub connection means: it registers an app, takes what is meant for it, answers, and shows that it is alive.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::command::{Command, RegisterApp};
use patchboard_core::event::Envelope;
use patchboard_core::reply::{InboxItem, Reply, Unregistered};
use patchboard_core::{BoardError, ErrorKind};

use super::wire::{Answer, Code, Frame, Refusal, Response};
use super::{DialectOptions, SURFACE, error, map};
use crate::auth::Identity;
use crate::dialect::{Dialect, FollowId, Gone, Step, Ticket};
use crate::limit::{Bucket, Rate};
use crate::pump::close;
use crate::telemetry;

/// Acknowledgements and rejections of one connection, and everything else it says: counted apart, so that no flood of
/// notifications keeps an acknowledgement from being heard.
const ANSWERS: Rate = Rate { per_second: 200.0, burst: 400.0 };
const THE_REST: Rate = Rate { per_second: 200.0, burst: 400.0 };
/// Answers of one connection the board has not recorded yet; the next one is ignored, and its sender told.
const MAX_UNDER_WAY: usize = 1024;
/// Frames that wait while a registration is under way; the next one is ignored, and its sender told.
const MAX_BACKLOG: usize = 64;
/// The same in bytes.
const MAX_BACKLOG_BYTES: usize = 1024 * 1024;

pub(super) struct HubDialect {
    options: DialectOptions,
    standing: Standing,
    /// Frames that came while a registration was under way, so that answers keep the order of questions.
    backlog: VecDeque<Frame>,
    backlog_bytes: usize,
    next: u64,
    asked: HashMap<Ticket, Pending>,
    answers: Bucket,
    rest: Bucket,
    ping_at: Duration,
    /// Set while a ping is not answered.
    pong_due: Option<Duration>,
    /// Another connection wants the name: the next pong has to be told.
    must_prove: bool,
    alarm: Option<Duration>,
}

enum Standing {
    Unregistered,
    /// The token it showed is wrong, and it is told so only then.
    HeldBack {
        until: Duration,
        refusal: Refusal,
    },
    Registering {
        name: Arc<str>,
        shows_token: bool,
    },
    App {
        name: Arc<str>,
    },
    /// Nothing is to be done for this connection any more.
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pending {
    Register,
    Inbox,
    Prove,
    Answer,
}

impl HubDialect {
    pub(super) fn new(options: DialectOptions) -> Self {
        Self {
            ping_at: options.times.ping_interval,
            options,
            standing: Standing::Unregistered,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            next: 0,
            asked: HashMap::new(),
            answers: Bucket::new(ANSWERS, Duration::ZERO),
            rest: Bucket::new(THE_REST, Duration::ZERO),
            pong_due: None,
            must_prove: false,
            alarm: None,
        }
    }

    fn heard(&mut self, frame: Frame, size: usize, now: Duration, steps: &mut Vec<Step>) {
        let bucket = match &frame {
            Frame::Response(Response { answer: Answer::Ack | Answer::Reject { .. }, .. }) => &mut self.answers,
            Frame::Response(Response { answer: Answer::Notification(_), .. })
            | Frame::Registration(_)
            | Frame::Malformed(_) => &mut self.rest,
        };
        if !bucket.take(now) {
            return limited(steps, "too many frames in a short time: this one was ignored");
        }
        match self.standing {
            Standing::Over => {}
            Standing::HeldBack { .. } | Standing::Registering { .. } => {
                if self.backlog.len() >= MAX_BACKLOG || self.backlog_bytes + size > MAX_BACKLOG_BYTES {
                    return limited(
                        steps,
                        "too many frames before the registration was answered: this one was ignored",
                    );
                }
                self.backlog_bytes += size;
                self.backlog.push_back(frame);
            }
            Standing::Unregistered | Standing::App { .. } => self.act(frame, steps),
        }
    }

    fn act(&mut self, frame: Frame, steps: &mut Vec<Step>) {
        match (&self.standing, frame) {
            (Standing::App { .. }, Frame::Registration(_)) => refuse(steps, &map::already_registered()),
            (_, Frame::Registration(Err(refusal))) => refuse(steps, &refusal),
            (_, Frame::Registration(Ok(registration))) => {
                let DialectOptions { token, origin, .. } = &self.options;
                self.register(map::register(registration, token.as_deref(), origin.clone()), steps);
            }
            (Standing::App { name }, Frame::Response(response)) => {
                // Who answers a message that never was is not told so.
                let Some(command) = map::answer(response, name) else { return };
                if self.asked.len() >= MAX_UNDER_WAY {
                    return limited(steps, "too many answers are being recorded: this one was ignored");
                }
                self.ask(Pending::Answer, command, steps);
            }
            (Standing::App { .. }, Frame::Malformed(problem)) => {
                steps.push(Step::Write(map::error(&Refusal::new(Code::ValidationError, problem))));
            }
            (_, Frame::Response(_)) => {
                refuse(steps, &Refusal::new(Code::ValidationError, "register before answering messages"));
            }
            (_, Frame::Malformed(problem)) => refuse(steps, &Refusal::new(Code::ValidationError, problem)),
        }
    }

    fn register(&mut self, register: RegisterApp, steps: &mut Vec<Step>) {
        let name = register.profile.name.clone();
        self.standing = Standing::Registering { name, shows_token: register.token.is_some() };
        self.ask(Pending::Register, Command::RegisterApp(register), steps);
    }

    fn registered(&mut self, answer: Result<Reply, BoardError>, now: Duration, steps: &mut Vec<Step>) {
        let standing = std::mem::replace(&mut self.standing, Standing::Unregistered);
        let Standing::Registering { name, shows_token } = standing else {
            self.standing = standing;
            return;
        };
        match answer {
            Ok(Reply::Registered { client }) => {
                steps.push(Step::Write(map::registered(&name, client)));
                self.standing = Standing::App { name };
                self.ask(Pending::Inbox, Command::TakeFromInbox, steps);
            }
            Ok(Reply::NotRegistered(why)) => {
                let refusal = map::not_registered(&name, why);
                if why == Unregistered::WrongToken && shows_token {
                    return self.wrong_token(refusal, now, steps);
                }
                refuse(steps, &refusal);
            }
            Ok(_) => refuse(steps, &Refusal::new(Code::ValidationError, "internal error: unexpected answer")),
            Err(problem) => refuse(steps, &error::refusal(&problem)),
        }
        self.go_on(steps);
    }

    /// Right tokens never wait; wrong ones are answered one after the other.
    fn wrong_token(&mut self, refusal: Refusal, now: Duration, steps: &mut Vec<Step>) {
        telemetry::refused(SURFACE, "token");
        // Apps come from this machine.
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        match self.options.wrong_tokens.next_answer(here, self.options.opened_at + now) {
            Some(Duration::ZERO) => {
                refuse(steps, &refusal);
                self.go_on(steps);
            }
            Some(wait) => self.standing = Standing::HeldBack { until: now + wait, refusal },
            None => {
                self.standing = Standing::Over;
                steps.push(Step::Drop);
            }
        }
    }

    /// With what came meanwhile.
    fn go_on(&mut self, steps: &mut Vec<Step>) {
        // Until one of them is a registration again.
        while matches!(self.standing, Standing::Unregistered | Standing::App { .. })
            && let Some(frame) = self.backlog.pop_front()
        {
            self.act(frame, steps);
        }
        if self.backlog.is_empty() {
            self.backlog_bytes = 0;
        }
    }

    /// There is always exactly one question after the next thing for the app.
    fn inbox(&mut self, answer: Result<Reply, BoardError>, now: Duration, steps: &mut Vec<Step>) {
        match answer {
            Ok(Reply::Inbox(item)) => {
                match item {
                    InboxItem::Deliver(delivery) => steps.push(Step::Write(map::delivery(&delivery))),
                    InboxItem::Prove => {
                        self.must_prove = true;
                        self.ping(now, steps);
                    }
                }
                self.ask(Pending::Inbox, Command::TakeFromInbox, steps);
            }
            Ok(_) => {
                tracing::error!("the board answered something else than what is in the inbox");
                steps.push(Step::Close { code: close::TRY_AGAIN_LATER, reason: "internal error" });
            }
            Err(problem) => match problem.kind {
                // Another connection has the name by now: this one was thought dead, and is not spoken to.
                ErrorKind::Conflict => {
                    self.standing = Standing::Over;
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
                    tracing::warn!(error = %problem, "an app cannot be brought its messages; it has to register again");
                    steps.push(Step::Close { code: close::TRY_AGAIN_LATER, reason: "try again later" });
                }
            },
        }
    }

    fn ping(&mut self, now: Duration, steps: &mut Vec<Step>) {
        steps.push(Step::Ping);
        self.pong_due.get_or_insert(now.saturating_add(self.options.times.pong_timeout));
    }

    fn ask(&mut self, pending: Pending, command: Command, steps: &mut Vec<Step>) {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.asked.insert(ticket, pending);
        steps.push(Step::Ask(ticket, command));
    }

    /// Wakes when the next thing is due.
    fn set_alarm(&mut self, steps: &mut Vec<Step>) {
        let register_by = match &self.standing {
            Standing::Unregistered => Some(self.options.times.register_timeout),
            Standing::HeldBack { until, .. } => Some(*until),
            Standing::Registering { .. } | Standing::App { .. } => None,
            Standing::Over => return,
        };
        let due = [self.pong_due, register_by].into_iter().flatten().fold(self.ping_at, Duration::min);
        if self.alarm != Some(due) {
            self.alarm = Some(due);
            steps.push(Step::WakeAt(due));
        }
    }
}

impl Dialect for HubDialect {
    fn opened(&mut self, identity: Option<Identity>, _now: Duration, steps: &mut Vec<Step>) {
        if identity.is_none() {
            // Whoever gets in at all is somebody; tokens are shown when an app registers.
            self.standing = Standing::Over;
            return steps.push(Step::Close { code: close::POLICY, reason: "not signed in" });
        }
        self.set_alarm(steps);
    }

    fn text(&mut self, text: &str, now: Duration, steps: &mut Vec<Step>) {
        self.heard(Frame::read(text), text.len(), now, steps);
        self.set_alarm(steps);
    }

    fn binary(&mut self, bytes: &[u8], now: Duration, steps: &mut Vec<Step>) {
        self.heard(Frame::read_bytes(bytes), bytes.len(), now, steps);
        self.set_alarm(steps);
    }

    fn authenticated(&mut self, _identity: Option<Identity>, _now: Duration, _steps: &mut Vec<Step>) {}

    fn answered(&mut self, ticket: Ticket, answer: Result<Reply, BoardError>, now: Duration, steps: &mut Vec<Step>) {
        match self.asked.remove(&ticket) {
            None => {}
            Some(Pending::Register) => self.registered(answer, now, steps),
            Some(Pending::Inbox) => self.inbox(answer, now, steps),
            Some(Pending::Prove | Pending::Answer) => {
                if let Err(problem) = answer {
                    log_lost(&problem);
                }
            }
        }
        self.set_alarm(steps);
    }

    fn observed(&mut self, _follow: FollowId, _envelope: &Envelope, _now: Duration, _steps: &mut Vec<Step>) {}

    fn follow_ended(&mut self, _follow: FollowId, _error: Option<BoardError>, _steps: &mut Vec<Step>) {}

    fn woke(&mut self, now: Duration, steps: &mut Vec<Step>) {
        self.alarm = None;
        if self.pong_due.is_some_and(|due| due <= now) {
            return steps.push(Step::Drop);
        }
        match &self.standing {
            Standing::Unregistered if now >= self.options.times.register_timeout => {
                self.standing = Standing::Over;
                return steps.push(Step::Drop);
            }
            Standing::HeldBack { until, refusal } if now >= *until => {
                refuse(steps, refusal);
                self.standing = Standing::Unregistered;
                self.go_on(steps);
            }
            Standing::Unregistered
            | Standing::HeldBack { .. }
            | Standing::Registering { .. }
            | Standing::App { .. }
            | Standing::Over => {}
        }
        if self.ping_at <= now {
            self.ping_at = now.saturating_add(self.options.times.ping_interval);
            self.ping(now, steps);
        }
        self.set_alarm(steps);
    }

    /// Only this is a sign of life; a client that merely sends may be one that does not read.
    fn ponged(&mut self, _now: Duration, steps: &mut Vec<Step>) {
        self.pong_due = None;
        if std::mem::take(&mut self.must_prove) {
            self.ask(Pending::Prove, Command::ProveApp, steps);
        }
        self.set_alarm(steps);
    }

    /// What the app has said is recorded before it leaves, and nothing more is handed to it.
    fn closed(&mut self, _gone: Gone, steps: &mut Vec<Step>) {
        let mut waiting: Vec<(Ticket, Pending)> = self.asked.drain().collect();
        waiting.sort_unstable_by_key(|(ticket, _)| *ticket);
        for (ticket, pending) in waiting {
            match pending {
                Pending::Answer => steps.push(Step::SeeThrough(ticket)),
                Pending::Register | Pending::Inbox | Pending::Prove => steps.push(Step::Withdraw(ticket)),
            }
        }
        match std::mem::replace(&mut self.standing, Standing::Over) {
            // The registration may have gone through although nobody heard so.
            Standing::App { .. } | Standing::Registering { .. } => {
                self.next += 1;
                steps.push(Step::Ask(Ticket(self.next), Command::LeaveApp));
            }
            Standing::Unregistered | Standing::HeldBack { .. } | Standing::Over => {}
        }
    }
}

fn refuse(steps: &mut Vec<Step>, refusal: &Refusal) {
    steps.push(Step::Write(map::refused(refusal)));
}

fn limited(steps: &mut Vec<Step>, message: &str) {
    steps.push(Step::Write(map::error(&Refusal::new(Code::RateLimited, message))));
}

/// Somebody said something that could not be recorded, and is not told: the protocol has no answer to an answer.
fn log_lost(problem: &BoardError) {
    match problem.kind {
        // A message nobody knows, or another connection is the app by now.
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
