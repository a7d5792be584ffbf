//! What a gateway connection means: sign in, then many requests at once, each answered under its own id.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::command::Command;
use patchboard_core::event::{Envelope, Topic};
use patchboard_core::id::{RunId, Seq};
use patchboard_core::log::Pace;
use patchboard_core::reply::Reply;
use patchboard_core::{BoardError, ErrorKind};

use super::map::{self, Asked};
use super::silence::Silence;
use super::{error, wire};
use crate::auth::Identity;
use crate::dialect::{Dialect, FollowId, Step, Ticket};
use crate::limit::{Bucket, Rate};
use crate::telemetry;

/// Close code of a failed sign-in; the frame before it says the same.
const AUTH_FAILED: u16 = 4001;
/// Requests of one connection that may be under way at once.
const MAX_UNDER_WAY: usize = 1024;
/// Clients give up on a stream after a minute without a frame, so silence is broken well before.
const KEEPALIVE: Duration = Duration::from_secs(20);

pub(super) struct GatewayDialect {
    version: &'static str,
    rate: Bucket,
    signed_in: SignIn,
    next: u64,
    /// Commands asked for and not yet answered.
    asked: HashMap<Ticket, Pending>,
    /// Streams by the id of the request that opened them.
    streams: HashMap<Arc<str>, Stream>,
    follows: HashMap<FollowId, Arc<str>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SignIn {
    Awaited,
    Checking,
    Done,
    Failed,
}

enum Pending {
    /// Answered with one result under this id.
    Result { id: String, method: String },
    /// The same, about a plugin. What is wrong may be its file, and is then no fault of the params.
    Plugin { id: String, unloads: Option<String> },
    /// `chat.send`: answered with a stream once it has begun.
    Start(Arc<str>),
    /// `chat.attach`: answered with a stream once the run is found.
    Attach { id: Arc<str>, from: Seq },
    /// `chat.cancel`, the run being told.
    Cancel(String),
}

impl Pending {
    fn of(id: String, method: String, command: &Command) -> Self {
        if let Command::UnloadPlugin { name } = command {
            Self::Plugin { id, unloads: Some(name.clone()) }
        } else if let Command::LoadPlugin { .. } | Command::ApprovePlugin { .. } = command {
            Self::Plugin { id, unloads: None }
        } else {
            Self::Result { id, method }
        }
    }
}

struct Stream {
    state: StreamState,
    spoke_at: Duration,
    silence: Silence,
}

enum StreamState {
    Waiting(Ticket),
    /// Only the connection that started a run may cancel it by its id.
    Running(RunId),
    Attached,
}

impl GatewayDialect {
    pub(super) fn new(version: &'static str, rate: Rate) -> Self {
        Self {
            version,
            rate: Bucket::new(rate, Duration::ZERO),
            signed_in: SignIn::Awaited,
            next: 0,
            asked: HashMap::new(),
            streams: HashMap::new(),
            follows: HashMap::new(),
        }
    }

    fn hello(&mut self, steps: &mut Vec<Step>) {
        self.signed_in = SignIn::Done;
        steps.push(Step::Write(map::encode(&wire::Hello { ok: true, version: self.version })));
    }

    fn refuse_sign_in(&mut self, steps: &mut Vec<Step>) {
        self.signed_in = SignIn::Failed;
        let frame = wire::AuthFailed { error: "auth_failed", code: AUTH_FAILED };
        steps.push(Step::Write(map::encode(&frame)));
        steps.push(Step::Close { code: AUTH_FAILED, reason: "auth_failed" });
    }

    fn request(&mut self, text: &str, now: Duration, steps: &mut Vec<Step>) {
        let parsed = wire::Request::parse(text);
        let (id, asked) = match &parsed {
            Ok(request) => (request.id.as_str(), map::request(&request.method, request.params, &request.id)),
            Err(problem) => ("0", Asked::Refused(format!("parse error: {problem}"))),
        };
        if let Asked::Pong = asked {
            return steps.push(Step::Write(map::encode(&wire::ResultFrame { id, result: "pong" })));
        }
        // Garbage costs as much as a request, or it would be the cheaper flood.
        if !self.rate.take(now) {
            telemetry::refused("gateway", "rate");
            return refuse(steps, id, "rate limit exceeded: slow down and send it again");
        }
        if self.asked.len() + self.streams.len() >= MAX_UNDER_WAY {
            return refuse(steps, id, "rate limit exceeded: too many requests are under way on this connection");
        }
        match asked {
            Asked::Pong => {}
            Asked::Refused(problem) => refuse(steps, id, &problem),
            Asked::Command(command) => {
                let method = parsed.as_ref().map_or_else(|_| String::new(), |request| request.method.to_string());
                self.ask(Pending::of(id.to_owned(), method, &command), command, steps);
            }
            Asked::Stream { command, shows_approvals } => {
                if let Some(id) = self.open_stream(id, now, steps) {
                    let ticket = self.ask(Pending::Start(id.clone()), command, steps);
                    let silence = Silence::new(shows_approvals);
                    self.streams.insert(id, Stream { state: StreamState::Waiting(ticket), spoke_at: now, silence });
                }
            }
            Asked::Attach { wanted, from, shows_approvals } => {
                if let Some(id) = self.open_stream(id, now, steps) {
                    self.ask(Pending::Attach { id: id.clone(), from }, Command::FindRun(wanted), steps);
                    let silence = Silence::new(shows_approvals);
                    self.streams.insert(id, Stream { state: StreamState::Attached, spoke_at: now, silence });
                }
            }
            Asked::Cancel { id: stream } => self.cancel(id.to_owned(), &stream, steps),
        }
    }

    /// The id under which a new stream may speak, unless one is live under it already.
    fn open_stream(&mut self, id: &str, now: Duration, steps: &mut Vec<Step>) -> Option<Arc<str>> {
        if self.streams.contains_key(id) {
            refuse(steps, id, "id is in use by a request under way on this connection");
            return None;
        }
        if self.streams.is_empty() {
            steps.push(Step::WakeAt(now + KEEPALIVE));
        }
        Some(id.into())
    }

    fn cancel(&mut self, id: String, stream: &str, steps: &mut Vec<Step>) {
        match self.streams.get(stream).map(|stream| &stream.state) {
            Some(StreamState::Waiting(ticket)) => {
                steps.push(Step::Withdraw(*ticket));
                steps.push(Step::Write(map::encode(&wire::ResultFrame { id: &id, result: "cancelled" })));
            }
            Some(&StreamState::Running(run)) => {
                self.ask(Pending::Cancel(id), Command::CancelRun(run), steps);
            }
            Some(StreamState::Attached) => {
                refuse(steps, &id, "only the connection that started a chat may cancel it by its id");
            }
            None => refuse(steps, &id, &format!("no request under way has the id {stream}")),
        }
    }

    fn ask(&mut self, pending: Pending, command: Command, steps: &mut Vec<Step>) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.asked.insert(ticket, pending);
        steps.push(Step::Ask(ticket, command));
        ticket
    }

    fn follow(&mut self, id: Arc<str>, run: RunId, from: Seq, pace: Pace, steps: &mut Vec<Step>) {
        self.next += 1;
        let follow = FollowId(self.next);
        self.follows.insert(follow, id);
        steps.push(Step::Follow { follow, topic: Topic::Run(run), from, pace });
    }

    fn end_stream(&mut self, id: &str, steps: &mut Vec<Step>) {
        self.streams.remove(id);
        if self.streams.is_empty() {
            steps.push(Step::Rest);
        }
    }
}

impl Dialect for GatewayDialect {
    fn opened(&mut self, identity: Option<Identity>, _now: Duration, steps: &mut Vec<Step>) {
        if identity.is_some() {
            self.hello(steps);
        }
    }

    fn text(&mut self, text: &str, now: Duration, steps: &mut Vec<Step>) {
        match self.signed_in {
            SignIn::Done => self.request(text, now, steps),
            SignIn::Awaited => match serde_json::from_str::<wire::Token<'_>>(text) {
                Ok(frame) => {
                    self.signed_in = SignIn::Checking;
                    steps.push(Step::Authenticate(frame.token.into()));
                }
                Err(_) => self.refuse_sign_in(steps),
            },
            SignIn::Checking | SignIn::Failed => {}
        }
    }

    fn binary(&mut self, _bytes: &[u8], _now: Duration, steps: &mut Vec<Step>) {
        if self.signed_in == SignIn::Awaited {
            self.refuse_sign_in(steps);
        }
    }

    fn authenticated(&mut self, identity: Option<Identity>, _now: Duration, steps: &mut Vec<Step>) {
        match identity {
            Some(_) => self.hello(steps),
            None => self.refuse_sign_in(steps),
        }
    }

    fn answered(&mut self, ticket: Ticket, answer: Result<Reply, BoardError>, _now: Duration, steps: &mut Vec<Step>) {
        let Some(pending) = self.asked.remove(&ticket) else { return };
        match (pending, answer) {
            (Pending::Plugin { id, unloads: Some(name) }, Ok(_)) => {
                let result = wire::Unloaded { unloaded: &name };
                steps.push(Step::Write(map::encode(&wire::ResultFrame { id: &id, result })));
            }
            (Pending::Result { id, .. } | Pending::Plugin { id, .. }, Ok(reply)) => {
                steps.push(Step::Write(map::encode(&wire::ResultFrame { id: &id, result: map::reply(reply) })));
            }
            // Params that only the core could judge, such as a cursor, are wrong params all the same.
            (Pending::Result { id, method }, Err(problem)) if problem.kind == ErrorKind::Invalid => {
                refuse(steps, &id, &format!("invalid {method} params: {}", error::text(&problem)));
            }
            (Pending::Result { id, .. } | Pending::Plugin { id, .. }, Err(problem)) => {
                refuse(steps, &id, &error::text(&problem));
            }
            (Pending::Cancel(id), Ok(_)) => {
                steps.push(Step::Write(map::encode(&wire::ResultFrame { id: &id, result: "cancelled" })));
            }
            (Pending::Cancel(id), Err(problem)) => refuse(steps, &id, &error::text(&problem)),
            (Pending::Start(id), Ok(Reply::RunStarted(run))) => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.state = StreamState::Running(run);
                }
                self.follow(id, run, Seq::FIRST, Pace::Sets, steps);
            }
            // Withdrawn while it waited: it never began, so all that is left of its stream is the end.
            (Pending::Start(id), Err(problem)) if problem.kind == ErrorKind::Cancelled => {
                done(steps, &id);
                self.end_stream(&id, steps);
            }
            (Pending::Attach { id, from }, Ok(Reply::Run(run))) => self.follow(id, run.run, from, Pace::Free, steps),
            (Pending::Start(id) | Pending::Attach { id, .. }, Err(problem)) => {
                refuse(steps, &id, &error::text(&problem));
                self.end_stream(&id, steps);
            }
            (Pending::Start(id) | Pending::Attach { id, .. }, Ok(_)) => {
                refuse(steps, &id, "internal error: unexpected answer");
                self.end_stream(&id, steps);
            }
        }
    }

    fn observed(&mut self, follow: FollowId, envelope: &Envelope, now: Duration, steps: &mut Vec<Step>) {
        let Some(id) = self.follows.get(&follow).cloned() else { return };
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.spoke_at = now;
            stream.silence.observe(&envelope.event);
        }
        map::frames(&id, envelope.seq, &envelope.event, |frame| steps.push(Step::Write(frame)));
        if envelope.event.is_last() {
            self.follows.remove(&follow);
            self.end_stream(&id, steps);
        }
    }

    /// A stream that has not said `done` by now never will: say it for it.
    fn follow_ended(&mut self, follow: FollowId, error: Option<BoardError>, steps: &mut Vec<Step>) {
        let Some(id) = self.follows.remove(&follow) else { return };
        let attached = matches!(self.streams.get(&id), Some(Stream { state: StreamState::Attached, .. }));
        let problem = match &error {
            Some(error) => Some(error::text(error)),
            // Joined after its last event: there is nothing left to tell but that it is over.
            None if attached => None,
            None => Some("the run ended without being recorded; see the server's log".to_owned()),
        };
        if let Some(problem) = problem {
            let frame = wire::EventFrame { id: &id, event: "error", data: Some(&problem), seq: None };
            steps.push(Step::Write(map::encode(&frame)));
        }
        done(steps, &id);
        self.end_stream(&id, steps);
    }

    fn woke(&mut self, now: Duration, steps: &mut Vec<Step>) {
        let mut next = None;
        for (id, stream) in &mut self.streams {
            if now.saturating_sub(stream.spoke_at) >= KEEPALIVE {
                stream.spoke_at = now;
                let frame = wire::EventFrame { id, event: "text", data: Some(stream.silence.text()), seq: None };
                steps.push(Step::Write(map::encode(&frame)));
            }
            let due = stream.spoke_at + KEEPALIVE;
            next = Some(next.map_or(due, |next: Duration| next.min(due)));
        }
        if let Some(next) = next {
            steps.push(Step::WakeAt(next));
        }
    }
}

fn refuse(steps: &mut Vec<Step>, id: &str, problem: &str) {
    steps.push(Step::Write(map::encode(&wire::ErrorFrame { id, error: problem })));
}

fn done(steps: &mut Vec<Step>, id: &str) {
    let frame = wire::EventFrame::<()> { id, event: "done", data: None, seq: None };
    steps.push(Step::Write(map::encode(&frame)));
}
