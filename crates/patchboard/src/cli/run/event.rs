//! Events of a run as the terminal needs them; kinds it shows nothing of are left unread.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(super) struct RunEvent {
    /// For `got_expand` this is the task.
    #[serde(default)]
    pub(super) node_id: String,
    #[serde(default)]
    pub(super) event_id: u64,
    #[serde(flatten)]
    pub(super) kind: RunEventKind,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum RunEventKind {
    NodeEnter {
        id: String,
    },
    NodeExit {
        id: String,
        result: Value,
    },
    MessageChunk {
        content: String,
        id: String,
    },
    /// Reasoning, and drafts that are not for the user.
    ThoughtChunk {
        content: String,
        id: String,
    },
    ToolCallChunk {
        #[serde(default)]
        arguments_delta: String,
    },
    Usage {
        total_tokens: u64,
    },
    ToolCall {
        call_id: Option<String>,
        name: String,
        arguments: Value,
    },
    ToolEnd {
        call_id: Option<String>,
        name: String,
        result: String,
        is_error: bool,
    },
    ToolApproval {
        call_id: Option<String>,
        name: String,
        arguments: Value,
        /// Why it is asked, where that is more than the policy.
        reason: Option<String>,
    },
    TotExpand {
        candidates: Vec<String>,
    },
    TotEvaluate {
        chosen: usize,
        scores: Vec<f32>,
    },
    TotBacktrack {
        reason: String,
        to_depth: usize,
    },
    GotPlan {
        node_ids: Vec<String>,
    },
    GotNodeStart {
        id: String,
    },
    GotNodeComplete {
        id: String,
    },
    GotNodeFailed {
        id: String,
        error: String,
    },
    Values {
        state: Value,
    },
    /// An event inside an event, as `runs.strict_clients` sends what old clients do not know.
    Custom {
        value: Value,
    },
    #[serde(other)]
    Other,
}

impl RunEvent {
    pub(super) fn parse(text: &str) -> serde_json::Result<Self> {
        let mut event: Self = serde_json::from_str(text)?;
        if let RunEventKind::Custom { value } = event.kind {
            // Somebody else's value is not an event, and no reason to stop.
            event.kind = RunEventKind::deserialize(value).unwrap_or(RunEventKind::Other);
        }
        Ok(event)
    }
}

#[cfg(test)]
mod tests;
