//! The tools of the registry.

use std::sync::Arc;

use serde_json::Value;

use super::{Command, FolderChoice, PageRequest};
use crate::conversation::ConversationOrigin;
use crate::store::ResultPage;
use crate::tool::{ToolOutput, ToolSpec};

/// All tools for the given folder, or for the configured one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTools {
    pub folder: Option<String>,
    pub page: PageRequest,
}

impl Command for ListTools {
    type Reply = ResultPage<ToolSpec>;
}

/// Calls one tool directly, through the same executor as every other call. Cancelling the request stops the tool.
#[derive(Debug, Clone, PartialEq)]
pub struct CallTool {
    pub name: Arc<str>,
    pub arguments: Arc<Value>,
    pub folder: FolderChoice,
    /// Determines whose todos and facts the tool sees.
    pub origin: ConversationOrigin,
}

impl Command for CallTool {
    type Reply = ToolOutput;
    const SPAN: Option<&'static str> = Some("call_tool");
}

/// Approves the current tools of an MCP server that has changed since its last approval. Replies with the tools that
/// waited for the approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApproveTools {
    pub server: String,
}

impl Command for ApproveTools {
    type Reply = Vec<Arc<str>>;
}
