//! Agents, models, and the server as a whole.

use std::sync::Arc;

use super::Command;
use crate::conversation::ConversationOrigin;
use crate::reply::{AgentSummary, ModelReport, NodeReport, ReloadReport, ServerReport};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListAgents;

impl Command for ListAgents {
    type Reply = Vec<AgentSummary>;
}

/// The models a run can use; the default is that of the given agent, or of the default agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListModels {
    pub agent: Option<Arc<str>>,
}

impl Command for ListModels {
    type Reply = ModelReport;
}

/// Checks that a run can use the model and, if a thread is given, stores it for the thread's later runs. An empty name
/// selects the agent's own model. Replies with `provider/model`, or `None` for the agent's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetModel {
    pub thread: Option<ConversationOrigin>,
    pub model: Arc<str>,
}

impl Command for SetModel {
    type Reply = Option<Arc<str>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeNode;

impl Command for DescribeNode {
    type Reply = NodeReport;
}

/// Reports on the server as a whole, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeServer;

impl Command for DescribeServer {
    type Reply = ServerReport;
}

/// Reads the configuration again and applies what can change at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadSettings;

impl Command for ReloadSettings {
    type Reply = ReloadReport;
}
