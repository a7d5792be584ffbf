//! What a run was made from, kept so that another process can make it again.

use std::path::Path;
use std::sync::Arc;

use crate::conversation::ConversationOrigin;
use crate::model::{ContentPart, ModelMessage};

pub mod finding;
pub mod reasoning;

/// Everything a resumed run needs besides what happened in it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpec {
    /// What the client calls the run.
    pub client_id: Arc<str>,
    /// The conversation the client named, if it named one.
    pub thread: Option<Arc<str>>,
    /// As the request named it: an agent, or one of the strategies.
    pub requested_agent: Arc<str>,
    pub strategy: StrategyKind,
    /// got: may tasks be split while the graph is worked on?
    pub adaptive: bool,
    /// Goes on when nobody listens.
    pub detached: bool,
    pub verbose: bool,
    /// `provider/model`, where it is not the agent's own.
    pub model: Option<Arc<str>>,
    /// Where its tools work.
    pub folder: Option<Arc<Path>>,
    /// The operator granted the folder to this run, which has to be done again when it is resumed.
    pub folder_granted: bool,
    pub origin: ConversationOrigin,
    /// The user's words.
    pub message: Arc<str>,
    pub system: Arc<str>,
    /// Past turns, as the model was told of them.
    pub history: Vec<ModelMessage>,
}

impl RunSpec {
    /// About how many bytes it takes.
    pub fn weight(&self) -> usize {
        let parts = self.history.iter().flat_map(|message| &message.parts);
        let said: usize = parts
            .map(|part| match part {
                ContentPart::Text(text) => text.len(),
                ContentPart::ToolCall(call) => call.input.approximate_bytes(),
                ContentPart::ToolResult(result) => result.content.len(),
            })
            .sum();
        512 + self.message.len() + self.system.len() + said
    }
}

/// Who made an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AgentSource {
    /// It is there without being configured.
    BuiltIn,
    /// Configured in the working folder.
    Project,
    /// Configured elsewhere.
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

/// Names one entry into a node inside a run. Chosen by the strategy, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeKey(pub u32);
