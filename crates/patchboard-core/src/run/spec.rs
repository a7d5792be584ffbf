//! The inputs of a run, stored so that another process can rebuild it.

use std::path::Path;
use std::sync::Arc;

use crate::agent::{ConversationOrigin, StrategyKind};
use crate::model::{ContentPart, ModelMessage};

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
}

impl RunSpec {
    /// Approximate size in bytes.
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
