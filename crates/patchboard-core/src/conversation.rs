//! Origins of messages, and the workspaces in which a client groups its threads.

use std::sync::Arc;

use jiff::Timestamp;

use crate::id::{MemoryOwner, SessionKey};

/// The origin of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationOrigin {
    pub channel: String,
    pub account: String,
    pub peer: Option<String>,
    pub guild: Option<String>,
    pub team: Option<String>,
}

impl ConversationOrigin {
    const DEFAULT_PEER: &'static str = "main";

    pub fn peer(&self) -> &str {
        self.peer.as_deref().unwrap_or(Self::DEFAULT_PEER)
    }

    pub fn session_key(&self, agent: &str) -> SessionKey {
        SessionKey::conversation(agent, &self.channel, &self.account, self.peer())
    }

    /// Facts belong to the account on its channel, independent of peer and agent.
    pub fn memory_owner(&self) -> MemoryOwner {
        MemoryOwner::account(&self.channel, &self.account)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    pub id: Arc<str>,
    pub name: Arc<str>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceThread {
    pub thread: Arc<str>,
    /// When it was added to the workspace.
    pub created_at: Timestamp,
}
