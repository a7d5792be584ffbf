//! The protocol logic of a connection, without its transport: no clock, no socket, no await. A dialect takes events and
//! pushes [`Step`]s; the pump carries them out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::BoardError;
use patchboard_core::event::{Envelope, Topic};
use patchboard_core::id::Seq;
use patchboard_core::log::FollowerPacing;

use crate::auth::ClientIdentity;

mod request;

pub use request::BoardRequest;

/// Identifies one command of a connection until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Identifies one followed topic of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FollowId(pub u64);

/// A connection's protocol state machine. `now` is always the time since the connection opened.
pub trait Dialect: Send + 'static {
    /// A reply of the board, with what the dialect has to know about the request.
    type Reply: fmt::Debug + Send + 'static;

    /// The connection is open. `identity` is set if the client is already authenticated.
    fn opened(&mut self, identity: Option<ClientIdentity>, now: Duration, steps: &mut Steps<Self>);
    fn text(&mut self, text: &str, now: Duration, steps: &mut Steps<Self>);
    fn binary(&mut self, bytes: &[u8], now: Duration, steps: &mut Steps<Self>);
    /// The result of `Step::Authenticate`.
    fn authenticated(&mut self, identity: Option<ClientIdentity>, now: Duration, steps: &mut Steps<Self>);
    fn replied(&mut self, ticket: Ticket, reply: Self::Reply, now: Duration, steps: &mut Steps<Self>);
    fn observed(&mut self, follow: FollowId, envelope: &Envelope, now: Duration, steps: &mut Steps<Self>);
    /// The followed topic ended, or can no longer be read.
    fn follow_ended(&mut self, follow: FollowId, error: Option<BoardError>, steps: &mut Steps<Self>);
    fn timer_fired(&mut self, now: Duration, steps: &mut Steps<Self>);
    /// The client sent a pong, solicited or not.
    fn pong_received(&mut self, _now: Duration, _steps: &mut Steps<Self>) {}
    /// The connection is closed. Only `Ask`, `CancelAsk` and `AwaitReply` still have an effect, and their replies are
    /// discarded. Earlier commands without `AwaitReply` are cancelled unless they have already begun.
    fn closed(&mut self, _gone: CloseCause, _steps: &mut Steps<Self>) {}
}

/// What a dialect wants to be done, in order.
pub type Steps<D> = Vec<Step<<D as Dialect>::Reply>>;

/// Which side caused a connection to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseCause {
    /// The client closed the connection, lost it, or stopped responding to pings.
    Client,
    /// The client did not read for too long.
    Stalled,
    Server,
}

#[derive(Debug)]
pub enum Step<R> {
    /// Checks a token; the result arrives at `authenticated`.
    Authenticate(Arc<str>),
    Ask(Ticket, BoardRequest<R>),
    /// Cancels a command, whether it is queued or running.
    CancelAsk(Ticket),
    /// After the connection has closed: waits a bounded time for this command's reply instead of dropping it.
    AwaitReply(Ticket),
    Follow {
        follow: FollowId,
        topic: Topic,
        from: Seq,
        pace: FollowerPacing,
    },
    Write(String),
    /// Pings the client; its answer arrives at `pong_received`.
    Ping,
    /// Calls `timer_fired` at this time since the connection opened; replaces an earlier `WakeAt`.
    WakeAt(Duration),
    /// Clears the timer.
    CancelWake,
    Close {
        code: u16,
        reason: &'static str,
    },
    /// Ends the connection without a close frame, as if the network had failed.
    Drop,
}
