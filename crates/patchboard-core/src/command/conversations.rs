//! Conversations as a user keeps them: named, hidden, searched, continued from an earlier turn.

use super::{Command, PageRequest, SessionRef};
use crate::id::{RunId, SessionKey};
use crate::store::{FoundTurn, ResultPage};

/// The title that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenameSession {
    pub session: SessionRef,
    pub title: String,
}

impl Command for RenameSession {
    type Reply = String;
}

/// Leaves a session out of lists, or puts it back. Nothing is deleted, and the conversation can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HideSession {
    pub session: SessionRef,
    pub hidden: bool,
}

impl Command for HideSession {
    type Reply = ();
}

/// Turns of the caller's sessions that contain every word of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchTurns {
    pub text: String,
    pub page: PageRequest,
}

impl Command for SearchTurns {
    type Reply = ResultPage<FoundTurn>;
}

/// Starts a new conversation with a copy of another one's beginning. The reply is its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkSession {
    pub session: SessionRef,
    pub after: ForkPoint,
}

impl Command for ForkSession {
    type Reply = SessionKey;
}

/// The last turn that a fork contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkPoint {
    Turn(u64),
    Run(RunId),
    LastTurn,
}
