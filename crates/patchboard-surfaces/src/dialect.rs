//! The meaning of a connection, without its transport: no clock, no socket, no await. A dialect takes what happened
//! and pushes what to do about it; the pump does it.

use std::sync::Arc;
use std::time::Duration;

use patchboard_core::BoardError;
use patchboard_core::command::Command;
use patchboard_core::event::{Envelope, Topic};
use patchboard_core::id::Seq;
use patchboard_core::log::FollowerPacing;
use patchboard_core::reply::BoardReply;

use crate::auth::ClientIdentity;

/// Names one command of one connection until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Names one followed topic of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FollowId(pub u64);

/// `now` is the time since the connection opened.
pub trait Dialect: Send {
    /// The connection is there; `identity` is set when nothing more is needed to trust it.
    fn opened(&mut self, identity: Option<ClientIdentity>, now: Duration, steps: &mut Vec<Step>);
    fn text(&mut self, text: &str, now: Duration, steps: &mut Vec<Step>);
    fn binary(&mut self, bytes: &[u8], now: Duration, steps: &mut Vec<Step>);
    /// The answer to `Step::Authenticate`.
    fn authenticated(&mut self, identity: Option<ClientIdentity>, now: Duration, steps: &mut Vec<Step>);
    fn command_answered(
        &mut self,
        ticket: Ticket,
        answer: Result<BoardReply, BoardError>,
        now: Duration,
        steps: &mut Vec<Step>,
    );
    fn observed(&mut self, follow: FollowId, envelope: &Envelope, now: Duration, steps: &mut Vec<Step>);
    /// The followed topic came to its end, or cannot be read on.
    fn follow_ended(&mut self, follow: FollowId, error: Option<BoardError>, steps: &mut Vec<Step>);
    fn timer_fired(&mut self, now: Duration, steps: &mut Vec<Step>);
    /// The client answered a ping, or sent a pong of its own accord.
    fn pong_received(&mut self, _now: Duration, _steps: &mut Vec<Step>) {}
    /// The connection is no more. Only `Ask`, `Withdraw` and `SeeThrough` still mean something, and nobody hears the
    /// answers. What was asked before and is not seen through is withdrawn, unless it has begun.
    fn closed(&mut self, _gone: CloseCause, _steps: &mut Vec<Step>) {}
}

/// Whose doing it was that a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseCause {
    /// It closed, broke off, or gave no sign of life any more.
    Client,
    /// The client took nothing for too long.
    Stalled,
    Server,
}

#[derive(Debug, Clone)]
pub enum Step {
    /// Check a token; the answer comes to `authenticated`.
    Authenticate(Arc<str>),
    Ask(Ticket, Command),
    /// Cancel what was asked, whether it waits or has begun.
    CancelAsk(Ticket),
    /// After the connection's end: wait a little for what was asked, instead of dropping it.
    AwaitReply(Ticket),
    Follow {
        follow: FollowId,
        topic: Topic,
        from: Seq,
        pace: FollowerPacing,
    },
    Write(String),
    /// Ask the client for a sign of life; the answer comes to `ponged`.
    Ping,
    /// Call `woke` at this time since the connection opened; replaces an earlier wish.
    WakeAt(Duration),
    /// Stop waking.
    CancelWake,
    Close {
        code: u16,
        reason: &'static str,
    },
    /// End the connection without a close frame, as if the line were cut.
    Drop,
}
