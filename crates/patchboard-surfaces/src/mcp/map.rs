//! MCP ↔ core: which command a method is, and what its reply looks like there.

use std::sync::Arc;

use patchboard_core::access::Caller;
use patchboard_core::agent::Origin;
use patchboard_core::command::{CallTool, Command, FolderChoice, PageRequest};
use patchboard_core::port::{Cursor, Page};
use patchboard_core::reply::Reply;
use patchboard_core::tool::{Effect, ToolSpec, UnknownOutcome};
use serde_json::{Map, Value, json};

use super::wire::RpcError;

/// Newest first. All of them mean the same by what is served here.
pub(super) const VERSIONS: [&str; 4] = [LATEST, "2025-06-18", "2025-03-26", "2024-11-05"];
const LATEST: &str = "2025-11-25";
const PAGE: usize = 100;
const MAX_NAME: usize = 256;
const MAX_CURSOR: usize = 1024;

/// Whoever asks for a version that is not spoken gets the newest that is, and decides.
pub(super) fn initialize(params: &Value, version: &'static str) -> Result<Value, RpcError> {
    let wanted = params.get("protocolVersion").and_then(Value::as_str);
    let wanted = wanted.ok_or_else(|| RpcError::invalid_params("`protocolVersion` is missing"))?;
    let spoken = VERSIONS.into_iter().find(|spoken| *spoken == wanted).unwrap_or(LATEST);
    Ok(json!({
        "protocolVersion": spoken,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "patchboard", "title": "Patchboard", "version": version },
    }))
}

pub(super) fn list(params: &Value) -> Result<Command, RpcError> {
    let cursor = match params.get("cursor") {
        None | Some(Value::Null) => None,
        Some(Value::String(cursor)) if cursor.len() <= MAX_CURSOR => Some(Cursor(cursor.clone())),
        Some(_) => return Err(RpcError::invalid_params("`cursor` is not one of this list")),
    };
    Ok(Command::ListTools { folder: None, page: PageRequest::new(Some(PAGE), cursor) })
}

pub(super) fn call(params: &Value, caller: &Caller) -> Result<Command, RpcError> {
    let name = params.get("name").and_then(Value::as_str).filter(|name| name.len() <= MAX_NAME);
    let name = name.ok_or_else(|| RpcError::invalid_params("`name` is missing, not text or too long"))?;
    let arguments = match params.get("arguments") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(arguments @ Value::Object(_)) => arguments.clone(),
        Some(_) => return Err(RpcError::invalid_params("`arguments` is not an object")),
    };
    let origin = Origin {
        channel: "mcp".to_owned(),
        account: caller.principal.to_string(),
        peer: None,
        guild: None,
        team: None,
    };
    Ok(Command::CallTool(CallTool {
        name: name.into(),
        arguments: Arc::new(arguments),
        folder: FolderChoice::Configured,
        origin,
    }))
}

pub(super) fn result(reply: Reply) -> Result<Value, RpcError> {
    match reply {
        Reply::Tools(Page { items, next }) => {
            let mut result = json!({ "tools": items.iter().map(tool).collect::<Vec<Value>>() });
            if let (Some(Cursor(next)), Some(fields)) = (next, result.as_object_mut()) {
                fields.insert("nextCursor".to_owned(), next.into());
            }
            Ok(result)
        }
        Reply::ToolCalled(output) => Ok(json!({
            "content": [{ "type": "text", "text": &*output.content }],
            "isError": output.is_error,
        })),
        Reply::Done
        | Reply::RunStarted(_)
        | Reply::Run(_)
        | Reply::Approvals(_)
        | Reply::Sessions(_)
        | Reply::History { .. }
        | Reply::Messages { .. }
        | Reply::Facts(_)
        | Reply::Budget(_)
        | Reply::Usage(_)
        | Reply::ToolsApproved(_)
        | Reply::Agents(_)
        | Reply::Plugins(_)
        | Reply::Plugin(_)
        | Reply::Webhook(_)
        | Reply::Node(_)
        | Reply::Server(_)
        | Reply::Reloaded(_)
        | Reply::Message(_)
        | Reply::MessageList(_)
        | Reply::Explained(_)
        | Reply::Registered { .. }
        | Reply::NotRegistered(_)
        | Reply::Inbox(_)
        | Reply::Apps(_)
        | Reply::SessionOpened(_)
        | Reply::SessionClosed { .. }
        | Reply::BridgeSession(_)
        | Reply::SessionTouched { .. }
        | Reply::ToolsRegistered(_)
        | Reply::Tool(_)
        | Reply::HostTools(_)
        | Reply::Models(_)
        | Reply::ModelSet(_)
        | Reply::Workspaces(_)
        | Reply::Workspace(_)
        | Reply::WorkspaceThreads(_)
        | Reply::Workers(_) => Err(RpcError::new(RpcError::INTERNAL, "the board answered something else")),
    }
}

fn tool(spec: &ToolSpec) -> Value {
    let annotations = match (spec.effect, spec.unknown_outcome) {
        (Effect::ReadOnly, _) => json!({ "readOnlyHint": true }),
        (Effect::Writes, UnknownOutcome::Retry) => json!({ "readOnlyHint": false, "idempotentHint": true }),
        (Effect::Writes, UnknownOutcome::Ask | UnknownOutcome::Fail) => json!({ "readOnlyHint": false }),
    };
    json!({
        "name": &*spec.name,
        "description": &*spec.description,
        "inputSchema": &*spec.input_schema,
        "annotations": annotations,
    })
}
