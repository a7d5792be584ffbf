//! The wire format of requests and responses; events are in `event`. Nothing here is used outside this folder.

use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) mod event;
mod id_recovery;
mod message;

pub(super) use message::MessageText;

/// Longer run ids are refused, because the id is repeated in every event of the run.
pub(super) const MAX_RUN_ID_BYTES: usize = 1024;
/// Longer error texts are truncated; they quote the client's input.
const MAX_PROBLEM_BYTES: usize = 1024;

/// Every request `type`; listed in the error for an unknown one.
const TYPES: &[&str] = &[
    "run",
    "tools_list",
    "tool_show",
    "user_messages",
    "ping",
    "agent_list",
    "attach",
    "cancel",
    "tool_approve",
    "list_models",
    "set_model",
    "cancel_run",
    "workspace_list",
    "workspace_create",
    "workspace_thread_list",
    "workspace_thread_add",
    "workspace_thread_remove",
];

#[derive(Debug)]
pub(super) enum Request {
    Run(RunParams),
    ToolsList(ToolsList),
    ToolShow(ToolShow),
    UserMessages(UserMessages),
    Ping(PingParams),
    AgentList(AgentList),
    Attach(AttachParams),
    Cancel(CancelParams),
    ToolApprove(ToolApprove),
    ListModels(ListModels),
    SetModel(SetModel),
    CancelRun(CancelRun),
    WorkspaceList(WorkspaceList),
    WorkspaceCreate(WorkspaceCreate),
    WorkspaceThreadList(WorkspaceThreads),
    WorkspaceThreadAdd(WorkspaceThread),
    WorkspaceThreadRemove(WorkspaceThread),
}

/// A request that could not be parsed, with its id if that could be recovered.
#[derive(Debug)]
pub(super) struct ParseFailure {
    pub(super) id: Option<String>,
    pub(super) problem: String,
}

#[derive(Deserialize)]
struct RequestHead {
    #[serde(rename = "type")]
    kind: String,
}

impl Request {
    /// Unknown fields are ignored; null optional fields count as absent.
    pub(super) fn parse(text: &str) -> Result<Self, ParseFailure> {
        Self::read(text).map_err(|problem| ParseFailure::new(text, &problem.to_string()))
    }

    /// Binary frames are read as text.
    pub(super) fn parse_bytes(bytes: &[u8]) -> Result<Self, ParseFailure> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text),
            Err(problem) => Err(ParseFailure::new(&String::from_utf8_lossy(bytes), &problem.to_string())),
        }
    }

    fn read(text: &str) -> Result<Self, serde_json::Error> {
        let head: RequestHead = object(text)?;
        Ok(match head.kind.as_str() {
            "run" => Self::Run(object(text)?),
            "tools_list" => Self::ToolsList(object(text)?),
            "tool_show" => Self::ToolShow(object(text)?),
            "user_messages" => Self::UserMessages(object(text)?),
            "ping" => Self::Ping(object(text)?),
            "agent_list" => Self::AgentList(object(text)?),
            "attach" => Self::Attach(object(text)?),
            "cancel" => Self::Cancel(object(text)?),
            "tool_approve" => Self::ToolApprove(object(text)?),
            "list_models" => Self::ListModels(object(text)?),
            "set_model" => Self::SetModel(object(text)?),
            "cancel_run" => Self::CancelRun(object(text)?),
            "workspace_list" => Self::WorkspaceList(object(text)?),
            "workspace_create" => Self::WorkspaceCreate(object(text)?),
            "workspace_thread_list" => Self::WorkspaceThreadList(object(text)?),
            "workspace_thread_add" => Self::WorkspaceThreadAdd(object(text)?),
            "workspace_thread_remove" => Self::WorkspaceThreadRemove(object(text)?),
            unknown => return Err(serde_json::Error::unknown_variant(unknown, TYPES)),
        })
    }
}

/// serde would also read a struct from an array; a request must be an object.
fn object<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text);
    }
    serde_json::from_str::<IgnoredAny>(text)
        .and_then(|_| Err(serde_json::Error::custom("expected an object with a `type`")))
}

impl ParseFailure {
    fn new(text: &str, whole: &str) -> Self {
        let cut = whole.floor_char_boundary(MAX_PROBLEM_BYTES);
        let mut problem = whole.get(..cut).unwrap_or_default().to_owned();
        if cut < whole.len() {
            problem.push_str("...");
        }
        Self { id: id_recovery::recover_id(text), problem: format!("parse error: {problem}") }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct RunParams {
    pub(super) message: MessageText,
    pub(super) agent: String,
    pub(super) id: Option<String>,
    pub(super) thread_id: Option<String>,
    pub(super) working_folder: Option<String>,
    pub(super) grant_folder: Option<bool>,
    pub(super) got_adaptive: Option<bool>,
    pub(super) verbose: Option<bool>,
    pub(super) detach: Option<bool>,
    pub(super) model: Option<String>,
    /// The run's thread is added to this workspace.
    pub(super) workspace_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolsList {
    pub(super) id: String,
    pub(super) working_folder: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolShow {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) output: Option<ToolFormat>,
    pub(super) working_folder: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolFormat {
    Yaml,
    Json,
}

#[derive(Debug, Deserialize)]
pub(super) struct UserMessages {
    pub(super) id: String,
    pub(super) thread_id: String,
    pub(super) before: Option<u64>,
    pub(super) limit: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PingParams {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct AgentList {
    pub(super) id: String,
    pub(super) source_filter: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AttachParams {
    pub(super) id: String,
    pub(super) after: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CancelParams {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolApprove {
    pub(super) id: String,
    pub(super) call_id: String,
    pub(super) approve: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct ListModels {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct SetModel {
    pub(super) id: String,
    pub(super) model_id: String,
    pub(super) session_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CancelRun {
    pub(super) id: String,
    pub(super) run_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct WorkspaceList {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct WorkspaceCreate {
    pub(super) id: String,
    pub(super) name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WorkspaceThreads {
    pub(super) id: String,
    pub(super) workspace_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct WorkspaceThread {
    pub(super) id: String,
    pub(super) workspace_id: String,
    pub(super) thread_id: String,
}

/// Every response, except events and run ends.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Response<'a> {
    ToolsList {
        id: &'a str,
        tools: Vec<ToolView<'a>>,
    },
    /// Exactly one of `tool` and `tool_yaml` is present.
    ToolShow {
        id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool: Option<ToolView<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_yaml: Option<String>,
    },
    UserMessages {
        id: &'a str,
        thread_id: &'a str,
        messages: Vec<UserMessage<'a>>,
        has_more: bool,
    },
    AgentList {
        id: &'a str,
        agents: Vec<AgentView<'a>>,
    },
    ModelsList {
        id: &'a str,
        models: Vec<ModelView<'a>>,
    },
    /// The same for strict clients, which expect a response to have the type of its request.
    #[serde(rename = "list_models")]
    StrictModelsList {
        id: &'a str,
        models: Vec<ModelView<'a>>,
    },
    ModelSet {
        id: &'a str,
        success: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
    },
    #[serde(rename = "set_model")]
    StrictModelSet {
        id: &'a str,
        success: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a str>,
    },
    CancelRunAck {
        id: &'a str,
        run_id: &'a str,
    },
    #[serde(rename = "cancel_run")]
    StrictCancelRunAck {
        id: &'a str,
        run_id: &'a str,
    },
    WorkspaceList {
        id: &'a str,
        workspaces: Vec<WorkspaceView<'a>>,
    },
    WorkspaceCreate {
        id: &'a str,
        workspace_id: &'a str,
        workspace: WorkspaceView<'a>,
    },
    WorkspaceThreadList {
        id: &'a str,
        workspace_id: &'a str,
        threads: Vec<ThreadView<'a>>,
    },
    WorkspaceThreadAdd {
        id: &'a str,
        workspace_id: &'a str,
        thread_id: &'a str,
    },
    WorkspaceThreadRemove {
        id: &'a str,
        workspace_id: &'a str,
        thread_id: &'a str,
    },
    Pong {
        id: &'a str,
    },
    Error {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        error: &'a str,
    },
}

#[derive(Serialize)]
pub(super) struct ToolView<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) description: &'a str,
    pub(super) input_schema: &'a Value,
}

#[derive(Serialize)]
pub(super) struct UserMessage<'a> {
    pub(super) role: &'static str,
    pub(super) content: &'a str,
    /// The value that `before` takes.
    pub(super) seq: u64,
}

#[derive(Serialize)]
pub(super) struct AgentView<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'a str>,
    pub(super) source: &'static str,
}

#[derive(Serialize)]
pub(super) struct ModelView<'a> {
    /// `provider/model`
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) provider: &'a str,
}

#[derive(Serialize)]
pub(super) struct WorkspaceView<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) created_at_ms: i64,
}

#[derive(Serialize)]
pub(super) struct ThreadView<'a> {
    pub(super) thread_id: &'a str,
    pub(super) created_at_ms: i64,
}

/// Frames contain only strings, numbers and JSON values, so encoding cannot fail.
pub(super) fn encode(frame: &impl Serialize) -> String {
    serde_json::to_string(frame).unwrap_or_default()
}

#[cfg(test)]
mod tests;
