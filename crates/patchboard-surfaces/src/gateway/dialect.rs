//! The gateway protocol: sign in, then any number of concurrent requests, each answered under its own id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::command::{CancelRun, FindRun};
use patchboard_core::event::{Envelope, Topic};
use patchboard_core::id::{RunId, Seq};
use patchboard_core::log::FollowerPacing;
use patchboard_core::reply::RunSummary;
use patchboard_core::{BoardError, ErrorKind};

use super::keepalive::KeepaliveText;
use super::map::{self, CallResult, GatewayRequest};
use super::{error, wire};
use crate::auth::ClientIdentity;
use crate::dialect::{BoardRequest, Dialect, FollowId, Ticket};
use crate::limit::{RateLimit, TokenBucket};
use crate::telemetry;

/// Close code of a failed sign-in; an error frame precedes it.
const AUTH_FAILED: u16 = 4001;
/// Concurrent requests of one connection; further ones are refused.
const MAX_IN_FLIGHT: usize = 1024;
/// Clients abandon a stream after a minute without a frame, so an empty frame is sent well before.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);

pub(super) struct GatewayDialect {
    version: &'static str,
    rate_bucket: TokenBucket,
    sign_in: SignInPhase,
    next: u64,
    /// Commands that are not answered yet.
    pending: HashSet<Ticket>,
    /// Streams, keyed by the id of the request that opened them.
    streams: HashMap<Arc<str>, EventStream>,
    follows: HashMap<FollowId, Arc<str>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SignInPhase {
    Awaited,
    Checking,
    Done,
    Failed,
}

/// A reply of the board, with what its request was for.
#[derive(Debug)]
pub(super) enum GatewayReply {
    /// Answered with one `result` under this id.
    Call {
        id: String,
        method: String,
        result: CallResult,
    },
    PluginCall {
        id: String,
        result: CallResult,
    },
    /// `chat.send`: answered with a stream once the run has started.
    Started {
        id: Arc<str>,
        result: Result<RunId, BoardError>,
    },
    /// `chat.attach`: answered with a stream once the run is found.
    Found {
        id: Arc<str>,
        from: Seq,
        result: Result<RunSummary, BoardError>,
    },
    /// `chat.cancel`, with the id of the cancel request.
    Cancelled {
        id: String,
        result: Result<(), BoardError>,
    },
}

type Step = crate::dialect::Step<GatewayReply>;

struct EventStream {
    state: StreamState,
    last_sent_at: Duration,
    keepalive: KeepaliveText,
}

enum StreamState {
    Waiting(Ticket),
    /// Only the connection that started a run may cancel it by its id.
    Running(RunId),
    Attached,
}

impl GatewayDialect {
    pub(super) fn new(version: &'static str, rate: RateLimit) -> Self {
        Self {
            version,
            rate_bucket: TokenBucket::new(rate, Duration::ZERO),
            sign_in: SignInPhase::Awaited,
            next: 0,
            pending: HashSet::new(),
            streams: HashMap::new(),
            follows: HashMap::new(),
        }
    }

    fn accept_sign_in(&mut self, steps: &mut Vec<Step>) {
        self.sign_in = SignInPhase::Done;
        steps.push(Step::Write(map::encode(&wire::HelloFrame { ok: true, version: self.version })));
    }

    fn refuse_sign_in(&mut self, steps: &mut Vec<Step>) {
        self.sign_in = SignInPhase::Failed;
        let frame = wire::AuthFailed { error: "auth_failed", code: AUTH_FAILED };
        steps.push(Step::Write(map::encode(&frame)));
        steps.push(Step::Close { code: AUTH_FAILED, reason: "auth_failed" });
    }

    fn request(&mut self, text: &str, now: Duration, steps: &mut Vec<Step>) {
        let parsed = wire::RpcRequest::parse(text);
        let (id, request) = match &parsed {
            Ok(request) => (request.id.as_str(), map::request(&request.method, request.params, &request.id)),
            Err(problem) => ("0", GatewayRequest::Refused(format!("parse error: {problem}"))),
        };
        if let GatewayRequest::Pong = request {
            return steps.push(Step::Write(map::encode(&wire::ResultFrame { id, result: "pong" })));
        }
        // Malformed frames cost as much as requests; otherwise they would be the cheaper flood.
        if !self.rate_bucket.take(now) {
            telemetry::refused("gateway", "rate");
            return refuse(steps, id, "rate limit exceeded: slow down and send it again");
        }
        if self.pending.len() + self.streams.len() >= MAX_IN_FLIGHT {
            return refuse(steps, id, "rate limit exceeded: too many requests are under way on this connection");
        }
        match request {
            GatewayRequest::Pong => {}
            GatewayRequest::Refused(problem) => refuse(steps, id, &problem),
            GatewayRequest::Call(request) => {
                let method = parsed.as_ref().map_or_else(|_| String::new(), |request| request.method.to_string());
                let id = id.to_owned();
                self.ask(request.map(move |result| GatewayReply::Call { id, method, result }), steps);
            }
            GatewayRequest::PluginCall(request) => {
                let id = id.to_owned();
                self.ask(request.map(move |result| GatewayReply::PluginCall { id, result }), steps);
            }
            GatewayRequest::Stream { command, shows_approvals } => {
                if let Some(id) = self.open_stream(id, now, steps) {
                    let reply_id = id.clone();
                    let reply = move |result| GatewayReply::Started { id: reply_id, result };
                    let ticket = self.ask(BoardRequest::new(command, reply), steps);
                    let keepalive = KeepaliveText::new(shows_approvals);
                    self.streams
                        .insert(id, EventStream { state: StreamState::Waiting(ticket), last_sent_at: now, keepalive });
                }
            }
            GatewayRequest::Attach { run, from, shows_approvals } => {
                if let Some(id) = self.open_stream(id, now, steps) {
                    let reply_id = id.clone();
                    let reply = move |result| GatewayReply::Found { id: reply_id, from, result };
                    self.ask(BoardRequest::new(FindRun(run), reply), steps);
                    let keepalive = KeepaliveText::new(shows_approvals);
                    self.streams.insert(id, EventStream { state: StreamState::Attached, last_sent_at: now, keepalive });
                }
            }
            GatewayRequest::Cancel { id: stream } => self.cancel(id.to_owned(), &stream, steps),
        }
    }

    /// Registers a new stream under the request's id; refuses the request if that id is in use.
    fn open_stream(&mut self, id: &str, now: Duration, steps: &mut Vec<Step>) -> Option<Arc<str>> {
        if self.streams.contains_key(id) {
            refuse(steps, id, "id is in use by a request under way on this connection");
            return None;
        }
        if self.streams.is_empty() {
            steps.push(Step::WakeAt(now + KEEPALIVE_INTERVAL));
        }
        Some(id.into())
    }

    fn cancel(&mut self, id: String, stream: &str, steps: &mut Vec<Step>) {
        match self.streams.get(stream).map(|stream| &stream.state) {
            Some(StreamState::Waiting(ticket)) => {
                steps.push(Step::CancelAsk(*ticket));
                steps.push(Step::Write(map::encode(&wire::ResultFrame { id: &id, result: "cancelled" })));
            }
            Some(&StreamState::Running(run)) => {
                let reply = move |result| GatewayReply::Cancelled { id, result };
                self.ask(BoardRequest::new(CancelRun(run), reply), steps);
            }
            Some(StreamState::Attached) => {
                refuse(steps, &id, "only the connection that started a chat may cancel it by its id");
            }
            None => refuse(steps, &id, &format!("no request under way has the id {stream}")),
        }
    }

    fn ask(&mut self, request: BoardRequest<GatewayReply>, steps: &mut Vec<Step>) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        self.pending.insert(ticket);
        steps.push(Step::Ask(ticket, request));
        ticket
    }

    fn follow(&mut self, id: Arc<str>, run: RunId, from: Seq, pace: FollowerPacing, steps: &mut Vec<Step>) {
        self.next += 1;
        let follow = FollowId(self.next);
        self.follows.insert(follow, id);
        steps.push(Step::Follow { follow, topic: Topic::Run(run), from, pace });
    }

    fn end_stream(&mut self, id: &str, steps: &mut Vec<Step>) {
        self.streams.remove(id);
        if self.streams.is_empty() {
            steps.push(Step::CancelWake);
        }
    }
}

impl Dialect for GatewayDialect {
    type Reply = GatewayReply;

    fn opened(&mut self, identity: Option<ClientIdentity>, _now: Duration, steps: &mut Vec<Step>) {
        if identity.is_some() {
            self.accept_sign_in(steps);
        }
    }

    fn text(&mut self, text: &str, now: Duration, steps: &mut Vec<Step>) {
        match self.sign_in {
            SignInPhase::Done => self.request(text, now, steps),
            SignInPhase::Awaited => match serde_json::from_str::<wire::TokenFrame<'_>>(text) {
                Ok(frame) => {
                    self.sign_in = SignInPhase::Checking;
                    steps.push(Step::Authenticate(frame.token.into()));
                }
                Err(_) => self.refuse_sign_in(steps),
            },
            SignInPhase::Checking | SignInPhase::Failed => {}
        }
    }

    fn binary(&mut self, _bytes: &[u8], _now: Duration, steps: &mut Vec<Step>) {
        if self.sign_in == SignInPhase::Awaited {
            self.refuse_sign_in(steps);
        }
    }

    fn authenticated(&mut self, identity: Option<ClientIdentity>, _now: Duration, steps: &mut Vec<Step>) {
        match identity {
            Some(_) => self.accept_sign_in(steps),
            None => self.refuse_sign_in(steps),
        }
    }

    fn replied(&mut self, ticket: Ticket, reply: GatewayReply, _now: Duration, steps: &mut Vec<Step>) {
        self.pending.remove(&ticket);
        match reply {
            GatewayReply::Call { id, result: Ok(result), .. } | GatewayReply::PluginCall { id, result: Ok(result) } => {
                steps.push(Step::Write(map::encode(&wire::ResultFrame { id: &id, result })));
            }
            // Params that only the core could judge, such as a cursor, are wrong params all the same.
            GatewayReply::Call { id, method, result: Err(problem) } if problem.kind == ErrorKind::Invalid => {
                refuse(steps, &id, &format!("invalid {method} params: {}", error::text(&problem)));
            }
            GatewayReply::Cancelled { id, result: Ok(()) } => {
                steps.push(Step::Write(map::encode(&wire::ResultFrame { id: &id, result: "cancelled" })));
            }
            GatewayReply::Call { id, result: Err(problem), .. }
            | GatewayReply::PluginCall { id, result: Err(problem) }
            | GatewayReply::Cancelled { id, result: Err(problem) } => refuse(steps, &id, &error::text(&problem)),
            GatewayReply::Started { id, result: Ok(run) } => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.state = StreamState::Running(run);
                }
                self.follow(id, run, Seq::FIRST, FollowerPacing::Paced, steps);
            }
            // Withdrawn while it waited: it never began, so all that is left of its stream is the end.
            GatewayReply::Started { id, result: Err(problem) } if problem.kind == ErrorKind::Cancelled => {
                write_done(steps, &id);
                self.end_stream(&id, steps);
            }
            GatewayReply::Found { id, from, result: Ok(run) } => {
                self.follow(id, run.run, from, FollowerPacing::Unpaced, steps);
            }
            GatewayReply::Started { id, result: Err(problem) }
            | GatewayReply::Found { id, result: Err(problem), .. } => {
                refuse(steps, &id, &error::text(&problem));
                self.end_stream(&id, steps);
            }
        }
    }

    fn observed(&mut self, follow: FollowId, envelope: &Envelope, now: Duration, steps: &mut Vec<Step>) {
        let Some(id) = self.follows.get(&follow).cloned() else { return };
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.last_sent_at = now;
            stream.keepalive.observe(&envelope.event);
        }
        map::event_frames(&id, &envelope.topic, envelope.seq, &envelope.event, |frame| steps.push(Step::Write(frame)));
        if envelope.event.ends_topic() {
            self.follows.remove(&follow);
            self.end_stream(&id, steps);
        }
    }

    /// A stream that has not sent `done` by now never will, so it is sent here.
    fn follow_ended(&mut self, follow: FollowId, error: Option<BoardError>, steps: &mut Vec<Step>) {
        let Some(id) = self.follows.remove(&follow) else { return };
        let attached = matches!(self.streams.get(&id), Some(EventStream { state: StreamState::Attached, .. }));
        let problem = match &error {
            Some(error) => Some(error::text(error)),
            // Attached after the run's last event: only `done` is missing.
            None if attached => None,
            None => Some("the run ended without being recorded; see the server's log".to_owned()),
        };
        if let Some(problem) = problem {
            let frame = wire::EventFrame { id: &id, event: "error", data: Some(&problem), seq: None };
            steps.push(Step::Write(map::encode(&frame)));
        }
        write_done(steps, &id);
        self.end_stream(&id, steps);
    }

    fn timer_fired(&mut self, now: Duration, steps: &mut Vec<Step>) {
        let mut next = None;
        for (id, stream) in &mut self.streams {
            // An empty `text` event changes nothing at the client but resets its timeout.
            if now.saturating_sub(stream.last_sent_at) >= KEEPALIVE_INTERVAL {
                stream.last_sent_at = now;
                let frame = wire::EventFrame { id, event: "text", data: Some(stream.keepalive.next_text()), seq: None };
                steps.push(Step::Write(map::encode(&frame)));
            }
            let due = stream.last_sent_at + KEEPALIVE_INTERVAL;
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

fn write_done(steps: &mut Vec<Step>, id: &str) {
    let frame = wire::EventFrame::<()> { id, event: "done", data: None, seq: None };
    steps.push(Step::Write(map::encode(&frame)));
}
