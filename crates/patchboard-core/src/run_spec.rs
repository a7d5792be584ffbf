//! The inputs of a run, stored so that another process can rebuild it.

use std::path::Path;
use std::sync::Arc;

use crate::conversation::ConversationOrigin;
use crate::model::{ContentPart, ModelMessage, approximate_json_bytes};
use serde_json::Value;

pub mod finding;
pub mod reasoning;

/// Everything needed to resume a run, besides its events.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpec {
    /// The client's id of the run.
    pub client_id: Arc<str>,
    /// The conversation the client named, if any.
    pub thread: Option<Arc<str>>,
    /// As the request named it: an agent, or one of the strategies.
    pub requested_agent: Arc<str>,
    pub strategy: StrategyKind,
    /// got: may tasks be split while the graph is executed?
    pub adaptive: bool,
    /// The run continues without followers.
    pub detached: bool,
    pub verbose: bool,
    /// `provider/model`, if it differs from the agent's.
    pub model: Option<Arc<str>>,
    /// The working folder of its tools.
    pub folder: Option<Arc<Path>>,
    /// The operator granted the folder to this run; the grant has to be obtained again on resume.
    pub folder_granted: bool,
    pub origin: ConversationOrigin,
    /// The user's message.
    pub message: Arc<str>,
    pub system: Arc<str>,
    /// Past turns as the model received them.
    pub history: Vec<ModelMessage>,
    /// Tools that the client has.
    pub client_tools: Vec<ClientToolSpec>,
}

impl RunSpec {
    /// Approximate size in bytes.
    pub fn weight(&self) -> usize {
        let parts = self.history.iter().flat_map(|message| &message.parts);
        let history_bytes: usize = parts
            .map(|part| match part {
                ContentPart::Text(text) => text.len(),
                ContentPart::ToolCall(call) => call.input.approximate_bytes(),
                ContentPart::ToolResult(result) => result.content.len(),
            })
            .sum();
        let tool_bytes: usize = self.client_tools.iter().map(ClientToolSpec::approximate_bytes).sum();
        512 + self.message.len() + self.system.len() + history_bytes + tool_bytes
    }
}

/// What a chat turn needs to be continued by another process, besides its row, its events and its session: soul, facts
/// and past turns are recalled again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatBriefing {
    /// `provider/model`, if it differs from the agent's.
    pub model: Option<Arc<str>>,
    /// The working folder of its tools.
    pub folder: Option<Arc<Path>>,
    /// The operator granted the folder to this turn; the grant has to be obtained again.
    pub folder_granted: bool,
    pub guild: Option<Arc<str>>,
    pub team: Option<Arc<str>>,
    /// Tools that the client has.
    pub client_tools: Vec<ClientToolSpec>,
}

/// A tool of the client that started a run. The client runs it; its result is an input of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientToolSpec {
    pub name: Arc<str>,
    pub description: Arc<str>,
    /// A JSON Schema.
    pub input_schema: Arc<Value>,
}

impl ClientToolSpec {
    /// Approximate size in memory.
    pub fn approximate_bytes(&self) -> usize {
        self.name.len() + self.description.len() + approximate_json_bytes(&self.input_schema)
    }
}

/// Where an agent is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgentSource {
    /// Present without being configured.
    BuiltIn,
    /// Configured in the working folder.
    Project,
    /// Configured outside of the working folder.
    User,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StrategyKind {
    React,
    Dup,
    Tot,
    Got,
}

impl StrategyKind {
    pub const ALL: [Self; 4] = [Self::React, Self::Dup, Self::Tot, Self::Got];

    pub const fn name(self) -> &'static str {
        match self {
            Self::React => "react",
            Self::Dup => "dup",
            Self::Tot => "tot",
            Self::Got => "got",
        }
    }

    pub const fn description(self) -> &'static str {
        match self {
            Self::React => "thinks, calls tools, repeats",
            Self::Dup => "understands the question first, then answers",
            Self::Tot => "searches a tree of thoughts",
            Self::Got => "plans a graph of tasks and joins their results",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The name that a strategy gives to one entry into a node; never reused in a run. The log numbers the entry with a
/// `NodeId`, also again when it is entered once more after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeKey(pub u32);
