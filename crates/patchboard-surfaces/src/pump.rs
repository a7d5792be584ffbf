//! WebSocket ↔ dialect ↔ board: the only loop that waits on everything a connection can hear from. It decides nothing;
//! it reads, asks, follows, writes, and lets go when told to.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, SelectAll};
use futures_util::{FutureExt, SinkExt, Stream, StreamExt, stream};
use patchboard_core::access::{Caller, Surface};
use patchboard_core::command::Command;
use patchboard_core::event::{Envelope, Topic};
use patchboard_core::id::{ConnectionId, Seq};
use patchboard_core::log::FollowerPacing;
use patchboard_core::port::BoxStream;
use patchboard_core::reply::BoardReply;
use patchboard_core::{Board, BoardError, trace};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::auth::{AuthGate, ClientIdentity, SignInPermit, TokenRefusal};
use crate::dialect::{CloseCause, Dialect, FollowId, Step, Ticket};
use crate::listen::{Peer, ReadLimitExceeded};

/// Things handled between two flushes: enough to fill packets, few enough to keep latency low.
const MAX_HANDLED_PER_FLUSH: usize = 128;
/// Largest message before the client has signed in, in bytes.
const MAX_UNAUTHENTICATED_BYTES: u64 = 64 * 1024;
/// How long what is asked at a connection's end may take; then it is left to itself.
const CLOSE_COMMANDS_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection sleeps at most when nothing is due on it.
const MAX_SLEEP: Duration = Duration::from_secs(24 * 3600);

pub mod close {
    //! Close codes of RFC 6455 and, from 4000 on, of the protocols themselves.
    pub const NORMAL: u16 = 1000;
    pub const GOING_AWAY: u16 = 1001;
    pub const PROTOCOL: u16 = 1002;
    pub const INVALID_DATA: u16 = 1007;
    pub const POLICY: u16 = 1008;
    pub const TOO_BIG: u16 = 1009;
    pub const TRY_AGAIN_LATER: u16 = 1013;
}

#[derive(Debug, Clone, Copy)]
pub struct PumpLimits {
    /// How long a client may take to show its token.
    pub sign_in: Duration,
    /// A client that takes nothing for this long is disconnected; its runs go on for their grace.
    pub stall: Duration,
    /// Silence after which the client is pinged; twice as long again without a sign of life and it is gone.
    /// `None` where the dialect sees to that.
    pub ping: Option<Duration>,
}

impl Default for PumpLimits {
    fn default() -> Self {
        Self { sign_in: Duration::from_secs(5), stall: Duration::from_secs(30), ping: Some(Duration::from_secs(30)) }
    }
}

/// What a connection is plugged into.
#[derive(Debug, Clone)]
pub struct PumpContext {
    pub board: Board,
    pub gate: Arc<AuthGate>,
    pub surface: Surface,
    pub limits: PumpLimits,
    /// The server goes down: connections close as soon as they have nothing under way.
    pub draining: CancellationToken,
}

/// Unique in this process, whatever the surface: rights hang on the connection that started something.
pub fn next_connection() -> ConnectionId {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    ConnectionId(OPENED.fetch_add(1, Ordering::Relaxed) + 1)
}

/// Goes on, or ends the connection and says whose doing that is.
type Flow = ControlFlow<CloseCause>;
type CommandResult = (Ticket, Result<BoardReply, BoardError>);
type FollowedEvent = (FollowId, Option<Result<Arc<Envelope>, BoardError>>);

struct Pump {
    context: PumpContext,
    socket: WebSocket,
    dialect: Box<dyn Dialect>,
    peer: Peer,
    connection: ConnectionId,
    trace: Option<Arc<str>>,
    identity: Option<ClientIdentity>,
    /// Kept until the client has signed in.
    sign_in_permit: Option<SignInPermit>,
    opened: Instant,
    last_received: Instant,
    pinged: bool,
    pending_asks: FuturesUnordered<BoxFuture<'static, CommandResult>>,
    cancel_tokens: HashMap<Ticket, CancellationToken>,
    opening_follows: FuturesUnordered<BoxFuture<'static, OpenedFollow>>,
    follows: SelectAll<BoxStream<FollowedEvent>>,
    timer: Pin<Box<Sleep>>,
    /// Has `drained` come true?
    is_draining: bool,
    /// Polled for as long as the connection lives: asking the token anew each time would cost more than a ping.
    drain_signal: Pin<Box<WaitForCancellationFutureOwned>>,
    wake_at: Option<Instant>,
    steps: Vec<Step>,
    next_source: u8,
    /// Something was written, or a ping was answered, since the last flush.
    unflushed: bool,
    /// Things handled since then.
    handled: usize,
}

type OpenedFollow = (FollowId, Result<BoxStream<Result<Arc<Envelope>, BoardError>>, BoardError>);

/// Everything that can wake a connection.
enum PumpEvent {
    Frame(Option<Result<Message, axum::Error>>),
    CommandAnswered(CommandResult),
    FollowOpened(OpenedFollow),
    FollowAdvanced(FollowedEvent),
    Timer,
    Draining,
    /// The client does not take what was written.
    WriteBlocked,
    /// The client cannot be written to any more.
    WriteFailed,
}

/// The stream's next item; a stream that is over has none, now or later.
fn poll_item<S: Stream + Unpin>(stream: &mut S, context: &mut Context<'_>) -> Poll<S::Item> {
    match stream.poll_next_unpin(context) {
        Poll::Ready(Some(item)) => Poll::Ready(item),
        Poll::Ready(None) | Poll::Pending => Poll::Pending,
    }
}

/// What is known of a client when its connection opens.
#[derive(Debug)]
pub enum ClientAuth {
    SignedIn(ClientIdentity),
    /// It has to show its token first, and holds a seat while it does.
    AwaitingToken(SignInPermit),
}

/// Who is at the other end.
#[derive(Debug)]
pub struct ClientConnection {
    pub peer: Peer,
    pub connection: ConnectionId,
    pub auth: ClientAuth,
    /// Where its trace was when it connected; what it asks goes on from there.
    pub trace: Option<Arc<str>>,
}

/// Runs one connection to its end.
pub async fn run(plug: PumpContext, socket: WebSocket, dialect: Box<dyn Dialect>, client: ClientConnection) {
    let ClientConnection { peer, connection, auth: admission, trace } = client;
    let (identity, seat) = match admission {
        ClientAuth::SignedIn(identity) => (Some(identity), None),
        ClientAuth::AwaitingToken(seat) => (None, Some(seat)),
    };
    let now = Instant::now();
    if identity.is_none() {
        peer.read_budget.set_limit(MAX_UNAUTHENTICATED_BYTES);
    }
    let mut pump = Pump {
        is_draining: false,
        drain_signal: Box::pin(plug.draining.clone().cancelled_owned()),
        context: plug,
        socket,
        dialect,
        peer,
        connection,
        trace,
        identity: None,
        sign_in_permit: seat,
        opened: now,
        last_received: now,
        pinged: false,
        pending_asks: FuturesUnordered::new(),
        cancel_tokens: HashMap::new(),
        opening_follows: FuturesUnordered::new(),
        follows: SelectAll::new(),
        timer: Box::pin(tokio::time::sleep_until(now)),
        wake_at: None,
        steps: Vec::new(),
        next_source: 0,
        unflushed: false,
        handled: 0,
    };
    pump.identity.clone_from(&identity);
    pump.dialect.opened(identity, Duration::ZERO, &mut pump.steps);
    let gone = pump.run_until_closed().await;
    pump.finish(gone).await;
}

impl Pump {
    async fn run_until_closed(&mut self) -> CloseCause {
        loop {
            if let ControlFlow::Break(gone) = self.run_once().await {
                return gone;
            }
        }
    }

    async fn run_once(&mut self) -> Flow {
        self.perform().await?;
        self.flush_if_due().await?;
        if self.is_draining && self.is_idle() {
            self.close(close::GOING_AWAY, "server is shutting down").await;
            return ControlFlow::Break(CloseCause::Server);
        }
        let wake = self.next_event().await;
        self.handle(wake).await
    }

    /// Lets go: what the dialect still wants is asked, everything else that was asked and waits is withdrawn. Runs that
    /// have begun are dealt with by the dialect or keep their grace.
    async fn finish(mut self, gone: CloseCause) {
        let mut last = Vec::new();
        self.dialect.closed(gone, &mut last);
        let mut awaited = HashSet::new();
        for step in last {
            match step {
                Step::Ask(ticket, command) => {
                    self.ask(ticket, command);
                    awaited.insert(ticket);
                }
                Step::AwaitReply(ticket) if self.cancel_tokens.contains_key(&ticket) => {
                    awaited.insert(ticket);
                }
                Step::CancelAsk(ticket) => self.cancel_ask(ticket),
                // There is nobody to write to and nothing to wait for.
                Step::AwaitReply(_)
                | Step::Authenticate(_)
                | Step::Follow { .. }
                | Step::Write(_)
                | Step::Ping
                | Step::WakeAt(_)
                | Step::CancelWake
                | Step::Close { .. }
                | Step::Drop => {}
            }
        }
        let Self { pending_asks: mut asks, socket, .. } = self;
        drop(socket);
        let answers = async {
            while !awaited.is_empty() {
                let Some((ticket, _)) = asks.next().await else { break };
                awaited.remove(&ticket);
            }
        };
        if tokio::time::timeout(CLOSE_COMMANDS_TIMEOUT, answers).await.is_err() {
            tracing::debug!("what was asked at a connection's end was not answered in time");
        }
    }

    fn ask(&mut self, ticket: Ticket, command: Command) {
        let caller = self.caller();
        let stop = CancellationToken::new();
        self.cancel_tokens.insert(ticket, stop.clone());
        // Asked here and now, so that the order of frames is the order of turns.
        let answer = trace::ask(&self.context.board, &caller, command, stop, self.trace.as_deref());
        self.pending_asks.push(Box::pin(answer.map(move |answer| (ticket, answer))));
    }

    fn cancel_ask(&self, ticket: Ticket) {
        if let Some(stop) = self.cancel_tokens.get(&ticket) {
            stop.cancel();
        }
    }

    /// While there is always something more to handle, what was written leaves all the same.
    async fn flush_if_due(&mut self) -> Flow {
        self.handled += 1;
        if self.handled < MAX_HANDLED_PER_FLUSH { ControlFlow::Continue(()) } else { self.flush().await }
    }

    /// Waits for whatever comes first.
    async fn next_event(&mut self) -> PumpEvent {
        // Set again only when it would ring too late. When it rings too early, because something was heard since it
        // was set, nothing is due and it is set anew: cheaper than setting it for every frame.
        let deadline = self.deadline();
        if self.timer.deadline() > deadline || self.timer.is_elapsed() {
            self.timer.as_mut().reset(deadline);
        }
        poll_fn(|context| self.poll_event(context)).await
    }

    /// One poll finds out what is ready, lets what was written leave when nothing is, and asks to be woken. Whoever was
    /// heard last is asked last, so that nobody can talk over the others.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<PumpEvent> {
        const SOURCES: u8 = 4;
        for _ in 0..SOURCES {
            let source = self.next_source;
            self.next_source = (source + 1) % SOURCES;
            let wake = match source {
                0 => self.socket.poll_next_unpin(context).map(PumpEvent::Frame),
                1 if !self.pending_asks.is_empty() => {
                    poll_item(&mut self.pending_asks, context).map(PumpEvent::CommandAnswered)
                }
                2 if !self.opening_follows.is_empty() => {
                    poll_item(&mut self.opening_follows, context).map(PumpEvent::FollowOpened)
                }
                3 if !self.follows.is_empty() => poll_item(&mut self.follows, context).map(PumpEvent::FollowAdvanced),
                _ => Poll::Pending,
            };
            if wake.is_ready() {
                return wake;
            }
        }
        if self.unflushed {
            match SinkExt::<Message>::poll_flush_unpin(&mut self.socket, context) {
                Poll::Ready(Ok(())) => self.flushed(),
                Poll::Ready(Err(_)) => return Poll::Ready(PumpEvent::WriteFailed),
                Poll::Pending => return Poll::Ready(PumpEvent::WriteBlocked),
            }
        }
        if self.timer.as_mut().poll(context).is_ready() {
            return Poll::Ready(PumpEvent::Timer);
        }
        if !self.is_draining && self.drain_signal.as_mut().poll(context).is_ready() {
            self.is_draining = true;
            return Poll::Ready(PumpEvent::Draining);
        }
        Poll::Pending
    }

    fn flushed(&mut self) {
        self.unflushed = false;
        self.handled = 0;
    }

    /// The earliest moment something is due: the sign-in, the dialect's wish, or a ping.
    fn deadline(&self) -> Instant {
        let alive = match self.context.limits.ping {
            Some(ping) => self.last_received + if self.pinged { ping * 3 } else { ping },
            None => Instant::now() + MAX_SLEEP,
        };
        let sign_in = self.opened + self.context.limits.sign_in;
        let mut due = if self.identity.is_none() { sign_in.min(alive) } else { alive };
        if let Some(wake_at) = self.wake_at {
            due = due.min(wake_at);
        }
        due
    }

    async fn handle(&mut self, wake: PumpEvent) -> Flow {
        let now = self.opened.elapsed();
        match wake {
            PumpEvent::Frame(frame) => return self.frame(frame, now).await,
            PumpEvent::Draining => {}
            PumpEvent::WriteFailed => return ControlFlow::Break(CloseCause::Client),
            // Until it takes what it was sent, the client is not listened to either.
            PumpEvent::WriteBlocked => return self.flush().await,
            PumpEvent::CommandAnswered((ticket, answer)) => {
                self.cancel_tokens.remove(&ticket);
                self.dialect.command_answered(ticket, answer, now, &mut self.steps);
            }
            PumpEvent::FollowOpened((follow, Ok(events))) => {
                let ended = stream::once(std::future::ready((follow, None)));
                self.follows.push(Box::pin(events.map(move |event| (follow, Some(event))).chain(ended)));
            }
            PumpEvent::FollowOpened((follow, Err(error))) => {
                self.dialect.follow_ended(follow, Some(error), &mut self.steps);
            }
            PumpEvent::FollowAdvanced((follow, Some(Ok(envelope)))) => {
                self.dialect.observed(follow, &envelope, now, &mut self.steps);
            }
            PumpEvent::FollowAdvanced((follow, Some(Err(error)))) => {
                self.dialect.follow_ended(follow, Some(error), &mut self.steps);
            }
            PumpEvent::FollowAdvanced((follow, None)) => self.dialect.follow_ended(follow, None, &mut self.steps),
            PumpEvent::Timer => return self.timer(now).await,
        }
        ControlFlow::Continue(())
    }

    async fn frame(&mut self, frame: Option<Result<Message, axum::Error>>, now: Duration) -> Flow {
        let message = match frame {
            Some(Ok(message)) => message,
            Some(Err(error)) => {
                if let Some((code, reason)) = self.close_reason(error) {
                    self.peer.read_budget.drain_on_close();
                    self.close(code, reason).await;
                }
                return ControlFlow::Break(CloseCause::Client);
            }
            None => return ControlFlow::Break(CloseCause::Client),
        };
        self.peer.read_budget.message_completed();
        self.unflushed = true;
        self.last_received = self.opened + now;
        self.pinged = false;
        match message {
            Message::Text(text) => self.dialect.text(text.as_str(), now, &mut self.steps),
            Message::Binary(bytes) => self.dialect.binary(&bytes, now, &mut self.steps),
            // Answered by the WebSocket itself; before the sign-in it is not what was asked for.
            Message::Ping(_) if self.identity.is_none() => self.dialect.binary(&[], now, &mut self.steps),
            Message::Ping(_) => {}
            Message::Pong(_) => self.dialect.pong_received(now, &mut self.steps),
            Message::Close(_) => {
                // The close frame in answer is queued; it only has to leave, and whether it does changes nothing.
                self.flush().await.map_break(|_| CloseCause::Client)?;
                return ControlFlow::Break(CloseCause::Client);
            }
        }
        ControlFlow::Continue(())
    }

    /// Which close code a broken connection still deserves; `None` when there is nobody left to tell.
    fn close_reason(&self, error: axum::Error) -> Option<(u16, &'static str)> {
        match self.peer.read_budget.exceeded_limit() {
            Some(ReadLimitExceeded::BeforeSignIn) => return Some((close::TOO_BIG, "too much before signing in")),
            Some(ReadLimitExceeded::SharedPool) => {
                return Some((close::TRY_AGAIN_LATER, "too many unfinished messages"));
            }
            None => {}
        }
        let error = error.into_inner();
        match error.downcast_ref::<tungstenite::Error>()? {
            tungstenite::Error::Capacity(_) => Some((close::TOO_BIG, "message too big")),
            tungstenite::Error::Utf8(_) => Some((close::INVALID_DATA, "invalid UTF-8")),
            tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => None,
            tungstenite::Error::Protocol(_) => Some((close::PROTOCOL, "WebSocket protocol error")),
            tungstenite::Error::ConnectionClosed
            | tungstenite::Error::AlreadyClosed
            | tungstenite::Error::Io(_)
            | tungstenite::Error::Tls(_)
            | tungstenite::Error::WriteBufferFull(_)
            | tungstenite::Error::AttackAttempt
            | tungstenite::Error::Url(_)
            | tungstenite::Error::Http(_)
            | tungstenite::Error::HttpFormat(_) => None,
        }
    }

    async fn timer(&mut self, now: Duration) -> Flow {
        let limits = self.context.limits;
        if self.identity.is_none() && now >= limits.sign_in {
            self.close(close::POLICY, "no token in time").await;
            return ControlFlow::Break(CloseCause::Server);
        }
        if let Some(ping) = limits.ping {
            let silent = self.last_received.elapsed();
            if self.pinged && silent >= ping * 3 {
                return ControlFlow::Break(CloseCause::Client);
            }
            if !self.pinged && silent >= ping {
                self.pinged = true;
                self.send(Message::Ping(axum::body::Bytes::new())).await?;
            }
        }
        if self.wake_at.is_some_and(|wake_at| wake_at <= Instant::now()) {
            self.wake_at = None;
            self.dialect.timer_fired(now, &mut self.steps);
        }
        ControlFlow::Continue(())
    }

    /// Does what the dialect asked for, in order.
    async fn perform(&mut self) -> Flow {
        while !self.steps.is_empty() {
            let mut steps = std::mem::take(&mut self.steps);
            for step in steps.drain(..) {
                match step {
                    Step::Write(text) => self.send(Message::Text(text.into())).await?,
                    Step::Ping => self.send(Message::Ping(axum::body::Bytes::new())).await?,
                    Step::Ask(ticket, command) => self.ask(ticket, command),
                    Step::CancelAsk(ticket) => self.cancel_ask(ticket),
                    // The connection lives, so it is seen through anyway.
                    Step::AwaitReply(_) => {}
                    Step::Follow { follow, topic, from, pace } => self.follow(follow, topic, from, pace),
                    Step::Authenticate(token) => self.authenticate(&token).await?,
                    // A time past all clocks never comes.
                    Step::WakeAt(at) => self.wake_at = self.opened.checked_add(at),
                    Step::CancelWake => self.wake_at = None,
                    Step::Close { code, reason } => {
                        self.close(code, reason).await;
                        return ControlFlow::Break(CloseCause::Server);
                    }
                    Step::Drop => {
                        // What was written leaves if it can at once; nobody is waited for.
                        drop(SinkExt::<Message>::flush(&mut self.socket).now_or_never());
                        return ControlFlow::Break(CloseCause::Server);
                    }
                }
            }
            // Keeps the allocation, unless performing produced more steps.
            if self.steps.is_empty() {
                self.steps = steps;
            }
        }
        ControlFlow::Continue(())
    }

    fn follow(&mut self, follow: FollowId, topic: Topic, from: Seq, pace: FollowerPacing) {
        let board = self.context.board.clone();
        let caller = self.caller();
        self.opening_follows.push(Box::pin(async move { (follow, board.follow(&caller, topic, from, pace).await) }));
    }

    async fn authenticate(&mut self, token: &str) -> Flow {
        let identity = match self.context.gate.check(self.peer.address, token).await {
            Ok(identity) => Some(identity),
            Err(TokenRefusal::Unauthenticated) => None,
            Err(TokenRefusal::CloseUnanswered) => return ControlFlow::Break(CloseCause::Server),
        };
        if identity.is_some() {
            self.peer.read_budget.lift_limit();
            self.sign_in_permit = None;
        }
        self.identity.clone_from(&identity);
        self.dialect.authenticated(identity, self.opened.elapsed(), &mut self.steps);
        ControlFlow::Continue(())
    }

    /// Nothing is asked before the dialect has an identity; without one there are no grants.
    fn caller(&self) -> Caller {
        let (principal, grants) = match &self.identity {
            Some(identity) => (identity.principal.clone(), identity.grants),
            None => (Arc::from(""), patchboard_core::access::GrantSet::NONE),
        };
        Caller { surface: self.context.surface, principal, connection: self.connection, grants }
    }

    fn is_idle(&self) -> bool {
        self.pending_asks.is_empty() && self.opening_follows.is_empty() && self.follows.is_empty()
    }

    async fn send(&mut self, message: Message) -> Flow {
        // Almost always there is room at once, and no timer is needed.
        let mut ready = poll_fn(|context| self.socket.poll_ready_unpin(context));
        let ready = match (&mut ready).now_or_never() {
            Some(ready) => Ok(ready),
            None => tokio::time::timeout(self.context.limits.stall, ready).await,
        };
        self.check_write(ready).await?;
        self.unflushed = true;
        let sent = self.socket.start_send_unpin(message);
        self.check_write(Ok(sent)).await
    }

    async fn flush(&mut self) -> Flow {
        let mut flushed = poll_fn(|context| SinkExt::<Message>::poll_flush_unpin(&mut self.socket, context));
        let flushed = match (&mut flushed).now_or_never() {
            Some(flushed) => Ok(flushed),
            None => tokio::time::timeout(self.context.limits.stall, flushed).await,
        };
        self.flushed();
        self.check_write(flushed).await
    }

    async fn check_write(&mut self, outcome: Result<Result<(), axum::Error>, tokio::time::error::Elapsed>) -> Flow {
        match outcome {
            Ok(Ok(())) => ControlFlow::Continue(()),
            Ok(Err(_gone)) => ControlFlow::Break(CloseCause::Client),
            Err(_stalled) => {
                tracing::debug!(conn.id = %self.connection, "client takes nothing; closing");
                self.close(close::TRY_AGAIN_LATER, "reading too slowly; attach again").await;
                ControlFlow::Break(CloseCause::Stalled)
            }
        }
    }

    /// Says goodbye if that can be said at once; a peer that does not read is not waited for.
    async fn close(&mut self, code: u16, reason: &'static str) {
        let frame = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
        let goodbye = async {
            if self.socket.send(frame).await.is_ok() {
                // Waits for the peer's close frame, so that what was sent before is not lost to a reset.
                while let Some(Ok(message)) = self.socket.next().await {
                    if matches!(message, Message::Close(_)) {
                        break;
                    }
                }
            }
        };
        // Out of time is out of reach; dropping the socket is all that is left to do.
        drop(tokio::time::timeout(Duration::from_secs(1), goodbye).await);
    }
}
