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

/// Most characters of a title that a user gives.
pub const MAX_TITLE_CHARS: usize = 200;
/// Most characters of a title made from a message; it ends at a word.
const MAX_DERIVED_CHARS: usize = 60;

/// A title from the first words of a conversation's first message; `None` if it has none.
pub fn title_of(message: &str) -> Option<Arc<str>> {
    let mut title = String::new();
    let mut length = 0;
    for word in message.split(|character: char| character.is_whitespace() || character.is_control()) {
        if word.is_empty() {
            continue;
        }
        let count = word.chars().count();
        if length + count + usize::from(length > 0) > MAX_DERIVED_CHARS {
            if title.is_empty() {
                title.extend(word.chars().take(MAX_DERIVED_CHARS));
            }
            title.push('…');
            break;
        }
        if length > 0 {
            title.push(' ');
            length += 1;
        }
        title.push_str(word);
        length += count;
    }
    (!title.is_empty()).then(|| title.into())
}

/// A title as a user writes it, with whitespace folded; `None` if it is empty or too long.
pub fn chosen_title(text: &str) -> Option<Arc<str>> {
    let words = text.split(|character: char| character.is_whitespace() || character.is_control());
    let title = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let length = title.chars().count();
    (1..=MAX_TITLE_CHARS).contains(&length).then(|| title.into())
}

#[cfg(test)]
mod tests;
