//! Connects a WebSocket, its dialect and the board: the only loop that waits on all event sources of a connection. It
//! contains no protocol decisions; it carries out the dialect's steps.

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
use patchboard_core::caller::{Caller, Principal, Surface};
use patchboard_core::event::{Envelope, Topic};
use patchboard_core::id::{ConnectionId, Seq};
use patchboard_core::log::FollowerPacing;
use patchboard_core::port::BoxStream;
use patchboard_core::{Board, BoardError};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::auth::{AuthGate, ClientIdentity, SignInPermit, TokenRefusal};
use crate::dialect::{BoardRequest, CloseCause, Dialect, FollowId, Step, Steps, Ticket};
use crate::listen::{Peer, ReadLimitExceeded};

/// Events handled between two flushes: enough to fill packets, few enough to keep latency low.
const MAX_HANDLED_PER_FLUSH: usize = 128;
/// Largest message before the client has signed in, in bytes.
const MAX_UNAUTHENTICATED_BYTES: u64 = 64 * 1024;
/// Time limit for commands issued when a connection closes; afterwards their replies are no longer awaited.
const CLOSE_COMMANDS_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest timer when nothing is due.
const MAX_SLEEP: Duration = Duration::from_secs(24 * 3600);

pub mod close {
    //! Close codes of RFC 6455. Codes from 4000 on belong to the protocols.
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
    /// Deadline for a client to present its token.
    pub sign_in: Duration,
    /// A client that reads nothing for this long is disconnected; its runs continue for their grace period.
    pub stall: Duration,
    /// Silence after which the client is pinged; after twice as long again without a frame it is disconnected. `None`
    /// if the dialect handles liveness itself.
    pub ping: Option<Duration>,
}

impl Default for PumpLimits {
    fn default() -> Self {
        Self { sign_in: Duration::from_secs(5), stall: Duration::from_secs(30), ping: Some(Duration::from_secs(30)) }
    }
}

/// What all connections of a surface share.
#[derive(Debug, Clone)]
pub struct PumpContext {
    pub board: Board,
    pub gate: Arc<AuthGate>,
    pub surface: Surface,
    pub limits: PumpLimits,
    /// Cancelled at shutdown: connections close as soon as they are idle.
    pub draining: CancellationToken,
}

/// Returns a connection id that is unique in this process across surfaces, because access rights are tied to the
/// connection that started a run.
pub fn next_connection() -> ConnectionId {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    ConnectionId(OPENED.fetch_add(1, Ordering::Relaxed) + 1)
}

/// Continues, or ends the connection with its cause.
type Flow = ControlFlow<CloseCause>;
type FollowedEvent = (FollowId, Option<Result<Arc<Envelope>, BoardError>>);

struct Pump<D: Dialect> {
    context: PumpContext,
    socket: WebSocket,
    dialect: D,
    peer: Peer,
    connection: ConnectionId,
    trace: Option<Arc<str>>,
    identity: Option<ClientIdentity>,
    /// Fires when the client's key is revoked; `None` for a client without a key.
    revocation: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Held until the client has signed in.
    sign_in_permit: Option<SignInPermit>,
    opened: Instant,
    last_received: Instant,
    pinged: bool,
    pending_asks: FuturesUnordered<BoxFuture<'static, (Ticket, D::Reply)>>,
    cancel_tokens: HashMap<Ticket, CancellationToken>,
    opening_follows: FuturesUnordered<BoxFuture<'static, OpenedFollow>>,
    follows: SelectAll<BoxStream<FollowedEvent>>,
    timer: Pin<Box<Sleep>>,
    /// Whether `drain_signal` has fired.
    is_draining: bool,
    /// One future for the connection's lifetime: creating a new one per wait would cost more than handling a ping.
    drain_signal: Pin<Box<WaitForCancellationFutureOwned>>,
    wake_at: Option<Instant>,
    steps: Steps<D>,
    next_source: u8,
    /// Set if frames were written, or a ping was answered, since the last flush.
    unflushed: bool,
    /// Events handled since the last flush.
    handled: usize,
}

type OpenedFollow = (FollowId, Result<BoxStream<Result<Arc<Envelope>, BoardError>>, BoardError>);

/// Every event that can wake a connection.
enum PumpEvent<R> {
    Frame(Option<Result<Message, axum::Error>>),
    Replied((Ticket, R)),
    FollowOpened(OpenedFollow),
    FollowAdvanced(FollowedEvent),
    Timer,
    Draining,
    /// The client does not read, so written frames cannot be flushed.
    WriteBlocked,
    /// The connection can no longer be written to.
    WriteFailed,
}

/// The stream's next item; pending forever if the stream has ended.
fn poll_item<S: Stream + Unpin>(stream: &mut S, context: &mut Context<'_>) -> Poll<S::Item> {
    match stream.poll_next_unpin(context) {
        Poll::Ready(Some(item)) => Poll::Ready(item),
        Poll::Ready(None) | Poll::Pending => Poll::Pending,
    }
}

/// The client's authentication state when its connection opens.
#[derive(Debug)]
pub enum ClientAuth {
    SignedIn(ClientIdentity),
    /// The client must present its token first; the permit bounds the number of such connections.
    AwaitingToken(SignInPermit),
}

/// The client of a connection.
#[derive(Debug)]
pub struct ClientConnection {
    pub peer: Peer,
    pub connection: ConnectionId,
    pub auth: ClientAuth,
    /// The client's trace context at connect time; its commands continue that trace.
    pub trace: Option<Arc<str>>,
}

/// Runs one connection until it is closed.
pub async fn run<D: Dialect>(context: PumpContext, socket: WebSocket, dialect: D, client: ClientConnection) {
    let ClientConnection { peer, connection, auth, trace } = client;
    let (identity, sign_in_permit) = match auth {
        ClientAuth::SignedIn(identity) => (Some(identity), None),
        ClientAuth::AwaitingToken(sign_in_permit) => (None, Some(sign_in_permit)),
    };
    let now = Instant::now();
    if identity.is_none() {
        peer.read_budget.set_limit(MAX_UNAUTHENTICATED_BYTES);
    }
    let mut pump = Pump {
        is_draining: false,
        drain_signal: Box::pin(context.draining.clone().cancelled_owned()),
        context,
        socket,
        dialect,
        peer,
        connection,
        trace,
        identity: None,
        revocation: None,
        sign_in_permit,
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
    pump.set_identity(identity.as_ref());
    pump.dialect.opened(identity, Duration::ZERO, &mut pump.steps);
    let cause = pump.run_until_closed().await;
    pump.finish(cause).await;
}

impl<D: Dialect> Pump<D> {
    async fn run_until_closed(&mut self) -> CloseCause {
        loop {
            let Some(mut revocation) = self.revocation.take() else {
                if let ControlFlow::Break(cause) = self.run_once().await {
                    return cause;
                }
                continue;
            };
            let flow = tokio::select! {
                biased;
                () = &mut revocation => None,
                flow = self.run_once() => Some(flow),
            };
            match flow {
                Some(ControlFlow::Continue(())) => self.revocation = Some(revocation),
                Some(ControlFlow::Break(cause)) => return cause,
                None => {
                    self.close(close::POLICY, "the key was revoked").await;
                    return CloseCause::Server;
                }
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
        let event = self.next_event().await;
        self.handle(event).await
    }

    /// Closes the connection: issues the dialect's final commands and waits for them; all other queued commands are
    /// cancelled. Runs that have begun are handled by the dialect or keep their grace period.
    async fn finish(mut self, cause: CloseCause) {
        let mut last = Vec::new();
        self.dialect.closed(cause, &mut last);
        let mut awaited = HashSet::new();
        for step in last {
            match step {
                Step::Ask(ticket, request) => {
                    self.ask(ticket, request);
                    awaited.insert(ticket);
                }
                Step::AwaitReply(ticket) if self.cancel_tokens.contains_key(&ticket) => {
                    awaited.insert(ticket);
                }
                Step::CancelAsk(ticket) => self.cancel_ask(ticket),
                // The socket is closed, so these have no effect.
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
            tracing::debug!("commands issued on close were not answered in time");
        }
    }

    fn ask(&mut self, ticket: Ticket, request: BoardRequest<D::Reply>) {
        let caller = self.caller();
        let stop = CancellationToken::new();
        self.cancel_tokens.insert(ticket, stop.clone());
        // Called synchronously, so that commands are queued in the order of their frames.
        let reply = request.ask(&self.context.board, &caller, stop, self.trace.as_deref());
        self.pending_asks.push(Box::pin(reply.map(move |reply| (ticket, reply))));
    }

    fn cancel_ask(&self, ticket: Ticket) {
        if let Some(stop) = self.cancel_tokens.get(&ticket) {
            stop.cancel();
        }
    }

    /// Bounds the delay of written frames while more events are always ready.
    async fn flush_if_due(&mut self) -> Flow {
        self.handled += 1;
        if self.handled < MAX_HANDLED_PER_FLUSH { ControlFlow::Continue(()) } else { self.flush().await }
    }

    /// Waits for the next event of any source.
    async fn next_event(&mut self) -> PumpEvent<D::Reply> {
        // The timer is reset only if it would fire too late. If it fires too early, because a frame arrived since,
        // nothing is due and it is set again: cheaper than resetting it for every frame.
        let deadline = self.deadline();
        if self.timer.deadline() > deadline || self.timer.is_elapsed() {
            self.timer.as_mut().reset(deadline);
        }
        poll_fn(|context| self.poll_event(context)).await
    }

    /// Returns a ready event, flushes if there is none, and registers the wakers. Sources are polled round-robin, so
    /// that a busy one cannot starve the others.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<PumpEvent<D::Reply>> {
        const SOURCES: u8 = 4;
        for _ in 0..SOURCES {
            let source = self.next_source;
            self.next_source = (source + 1) % SOURCES;
            let event = match source {
                0 => self.socket.poll_next_unpin(context).map(PumpEvent::Frame),
                1 if !self.pending_asks.is_empty() => {
                    poll_item(&mut self.pending_asks, context).map(PumpEvent::Replied)
                }
                2 if !self.opening_follows.is_empty() => {
                    poll_item(&mut self.opening_follows, context).map(PumpEvent::FollowOpened)
                }
                3 if !self.follows.is_empty() => poll_item(&mut self.follows, context).map(PumpEvent::FollowAdvanced),
                _ => Poll::Pending,
            };
            if event.is_ready() {
                return event;
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

    /// The earliest time something is due: the sign-in deadline, the dialect's timer or a ping.
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

    async fn handle(&mut self, event: PumpEvent<D::Reply>) -> Flow {
        let now = self.opened.elapsed();
        match event {
            PumpEvent::Frame(frame) => return self.frame(frame, now).await,
            PumpEvent::Draining => {}
            PumpEvent::WriteFailed => return ControlFlow::Break(CloseCause::Client),
            // Backpressure: no frames are read until the client has taken what was written.
            PumpEvent::WriteBlocked => return self.flush().await,
            PumpEvent::Replied((ticket, reply)) => {
                self.cancel_tokens.remove(&ticket);
                self.dialect.replied(ticket, reply, now, &mut self.steps);
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
            // The WebSocket library answers pings. Before sign-in a ping is a protocol violation, like any frame but
            // the token.
            Message::Ping(_) if self.identity.is_none() => self.dialect.binary(&[], now, &mut self.steps),
            Message::Ping(_) => {}
            Message::Pong(_) => self.dialect.pong_received(now, &mut self.steps),
            Message::Close(_) => {
                // The reply to the close frame is queued and only needs flushing; the outcome does not matter.
                self.flush().await.map_break(|_| CloseCause::Client)?;
                return ControlFlow::Break(CloseCause::Client);
            }
        }
        ControlFlow::Continue(())
    }

    /// The close code for a failed connection; `None` if the connection cannot be written to any more.
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

    /// Carries out the dialect's steps in order.
    async fn perform(&mut self) -> Flow {
        while !self.steps.is_empty() {
            let mut steps = std::mem::take(&mut self.steps);
            for step in steps.drain(..) {
                match step {
                    Step::Write(text) => self.send(Message::Text(text.into())).await?,
                    Step::Ping => self.send(Message::Ping(axum::body::Bytes::new())).await?,
                    Step::Ask(ticket, request) => self.ask(ticket, request),
                    Step::CancelAsk(ticket) => self.cancel_ask(ticket),
                    // Replies are awaited anyway while the connection is open.
                    Step::AwaitReply(_) => {}
                    Step::Follow { follow, topic, from, pace } => self.follow(follow, topic, from, pace),
                    Step::Authenticate(token) => self.authenticate(&token).await?,
                    // A time too large for the clock never fires.
                    Step::WakeAt(at) => self.wake_at = self.opened.checked_add(at),
                    Step::CancelWake => self.wake_at = None,
                    Step::Close { code, reason } => {
                        self.close(code, reason).await;
                        return ControlFlow::Break(CloseCause::Server);
                    }
                    Step::Drop => {
                        // Flushes only what can be sent at once.
                        drop(SinkExt::<Message>::flush(&mut self.socket).now_or_never());
                        return ControlFlow::Break(CloseCause::Server);
                    }
                }
            }
            // Keeps the allocation, unless the steps produced further steps.
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
        let identity = match self.context.gate.check(self.peer.address, token, self.context.surface).await {
            Ok(identity) => Some(identity),
            Err(TokenRefusal::Unauthenticated | TokenRefusal::WrongSurface) => None,
            Err(TokenRefusal::CloseUnanswered) => return ControlFlow::Break(CloseCause::Server),
        };
        if identity.is_some() {
            self.peer.read_budget.lift_limit();
            self.sign_in_permit = None;
        }
        self.set_identity(identity.as_ref());
        self.dialect.authenticated(identity, self.opened.elapsed(), &mut self.steps);
        ControlFlow::Continue(())
    }

    fn set_identity(&mut self, identity: Option<&ClientIdentity>) {
        self.identity = identity.cloned();
        let key = identity.and_then(|identity| identity.key.as_ref());
        self.revocation = key.map(|key| Box::pin(key.revoked.clone().cancelled_owned()));
    }

    /// No command is issued before the dialect has an identity; a caller without one has no grants.
    fn caller(&self) -> Caller {
        let (principal, grants) = match &self.identity {
            Some(identity) => (identity.principal.clone(), identity.grants),
            None => (Principal::Local, patchboard_core::caller::GrantSet::NONE),
        };
        Caller { surface: self.context.surface, principal, connection: self.connection, grants }
    }

    fn is_idle(&self) -> bool {
        self.pending_asks.is_empty() && self.opening_follows.is_empty() && self.follows.is_empty()
    }

    async fn send(&mut self, message: Message) -> Flow {
        // Usually the socket is ready at once, and no timer is needed.
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
                tracing::debug!(conn.id = %self.connection, "client does not read; closing");
                self.close(close::TRY_AGAIN_LATER, "reading too slowly; attach again").await;
                ControlFlow::Break(CloseCause::Stalled)
            }
        }
    }

    /// Performs the close handshake, at most for one second.
    async fn close(&mut self, code: u16, reason: &'static str) {
        let frame = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
        let close_frame = async {
            if self.socket.send(frame).await.is_ok() {
                // Waits for the peer's close frame: closing earlier could reset the connection and lose frames already
                // sent.
                while let Some(Ok(message)) = self.socket.next().await {
                    if matches!(message, Message::Close(_)) {
                        break;
                    }
                }
            }
        };
        // On timeout the socket is dropped without a handshake.
        drop(tokio::time::timeout(Duration::from_secs(1), close_frame).await);
    }
}
