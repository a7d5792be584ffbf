//! The tools of the registry.

use std::sync::Arc;

use serde_json::Value;

use super::{Command, FolderChoice, PageRequest};
use crate::conversation::ConversationOrigin;
use crate::store::ResultPage;
use crate::tool::{ToolOutput, ToolSpec};

/// All tools for work in that folder, or in the configured one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTools {
    pub folder: Option<String>,
    pub page: PageRequest,
}

impl Command for ListTools {
    type Reply = ResultPage<ToolSpec>;
}

/// Calls one tool for the caller itself, on the path of every call. Cancelling the request stops the tool.
#[derive(Debug, Clone, PartialEq)]
pub struct CallTool {
    pub name: Arc<str>,
    pub arguments: Arc<Value>,
    pub folder: FolderChoice,
    /// Whose todos and facts the tool sees.
    pub origin: ConversationOrigin,
}

impl Command for CallTool {
    type Reply = ToolOutput;
    const SPAN: Option<&'static str> = Some("call_tool");
}

/// Offers what an MCP server has now, although it has changed since it was last approved. Answered with the tools
/// that waited for the approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApproveTools {
    pub server: String,
}

impl Command for ApproveTools {
    type Reply = Vec<Arc<str>>;
}
