//! The events of a run, and its successful end.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// `{"type":"run_stream_event","id":…,"event":{session_id, node_id, event_id, type, …}}`
#[derive(Serialize)]
pub(in crate::runs) struct RunEventFrame<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    event: NumberedEvent<'a>,
}

#[derive(Serialize)]
struct NumberedEvent<'a> {
    session_id: &'a str,
    node_id: &'a str,
    event_id: u64,
    #[serde(flatten)]
    payload: &'a EventPayload<'a>,
}

impl<'a> RunEventFrame<'a> {
    pub(in crate::runs) fn new(run: &'a str, node_id: &'a str, event_id: u64, payload: &'a EventPayload<'a>) -> Self {
        let event = NumberedEvent { session_id: run, node_id, event_id, payload };
        Self { kind: "run_stream_event", id: run, event }
    }
}

/// Event data. Fields that do not apply are null, not absent.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(in crate::runs) enum EventPayload<'a> {
    RunStart {
        run_id: &'a str,
        message: &'a str,
        agent: &'a str,
    },
    NodeEnter {
        id: &'a str,
    },
    NodeExit {
        id: &'a str,
        result: NodeResult<'a>,
    },
    MessageChunk {
        content: &'a str,
        id: &'a str,
    },
    ThoughtChunk {
        content: &'a str,
        id: &'a str,
    },
    Usage(RunUsage),
    Values {
        state: &'a RawValue,
    },
    Updates {
        id: &'a str,
        state: &'a RawValue,
    },
    /// Wraps an event for clients that reject unknown types.
    Custom {
        value: &'a EventPayload<'a>,
    },
    Checkpoint {
        checkpoint_id: String,
        timestamp: String,
        step: u64,
        state: &'a RawValue,
        thread_id: Option<&'a str>,
        checkpoint_ns: Option<&'a str>,
    },
    TotExpand {
        candidates: Vec<&'a str>,
    },
    TotEvaluate {
        chosen: u32,
        scores: Vec<f32>,
    },
    TotBacktrack {
        reason: &'a str,
        to_depth: u32,
    },
    GotPlan {
        node_count: usize,
        edge_count: usize,
        node_ids: Vec<&'a str>,
    },
    GotNodeStart {
        id: &'a str,
    },
    GotNodeComplete {
        id: &'a str,
        result_summary: Cow<'a, str>,
    },
    GotNodeFailed {
        id: &'a str,
        error: &'a str,
    },
    /// Its own `node_id` takes the place of the event's, except inside `custom`.
    GotExpand {
        #[serde(skip_serializing_if = "Option::is_none")]
        node_id: Option<&'a str>,
        nodes_added: usize,
        edges_added: usize,
    },
    ToolCallChunk {
        call_id: &'a str,
        name: &'a str,
        arguments_delta: &'a str,
    },
    ToolCall {
        call_id: Option<&'a str>,
        name: &'a str,
        arguments: Cow<'a, Value>,
    },
    ToolStart {
        call_id: Option<&'a str>,
        name: &'a str,
    },
    ToolOutput {
        call_id: Option<&'a str>,
        name: &'a str,
        content: &'a str,
    },
    ToolEnd {
        call_id: Option<&'a str>,
        name: &'a str,
        result: &'a str,
        is_error: bool,
    },
    ToolApproval {
        call_id: Option<&'a str>,
        name: &'a str,
        arguments: Cow<'a, Value>,
        /// Why approval is needed, if for more than the policy.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// Serialised as `"Ok"` or `{"Err": "why"}`.
#[derive(Serialize)]
pub(in crate::runs) enum NodeResult<'a> {
    Ok,
    Err(&'a str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(in crate::runs) struct RunUsage {
    pub(in crate::runs) prompt_tokens: u32,
    pub(in crate::runs) completion_tokens: u32,
    pub(in crate::runs) total_tokens: u32,
}

/// The successful end of a run. A failed run ends with `Response::Error`.
#[derive(Serialize)]
pub(in crate::runs) struct RunEnd<'a> {
    #[serde(rename = "type")]
    pub(in crate::runs) kind: &'static str,
    pub(in crate::runs) id: &'a str,
    pub(in crate::runs) reply: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::runs) usage: Option<RunUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::runs) total_usage: Option<RunUsage>,
    pub(in crate::runs) session_id: &'a str,
    pub(in crate::runs) node_id: &'a str,
    pub(in crate::runs) event_id: u64,
}
