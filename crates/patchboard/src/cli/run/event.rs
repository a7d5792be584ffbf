//! Events of a run as far as the terminal shows them; other kinds are ignored.

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
    /// Reasoning, and drafts that are not part of the reply.
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
        /// Set if there is a reason beyond the policy.
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
    /// An event inside an event: `runs.strict_clients` sends kinds unknown to old clients this way.
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
            // A custom value that is not an event is ignored.
            event.kind = RunEventKind::deserialize(value).unwrap_or(RunEventKind::Other);
        }
        Ok(event)
    }
}

#[cfg(test)]
mod tests;
