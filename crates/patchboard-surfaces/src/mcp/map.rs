//! Maps MCP methods to commands and replies to MCP results.

use std::sync::Arc;

use patchboard_core::BoardError;
use patchboard_core::board::BoardCommand;
use patchboard_core::caller::Caller;
use patchboard_core::command::{CallTool, FolderChoice, ListTools, PageRequest};
use patchboard_core::conversation::ConversationOrigin;
use patchboard_core::store::{PageCursor, ResultPage};
use patchboard_core::tool::{ToolEffect, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use serde_json::{Map, Value, json};

use super::wire::RpcError;
use crate::dialect::BoardRequest;

/// Newest first. They do not differ in the methods served here.
pub(super) const VERSIONS: [&str; 4] = [LATEST, "2025-06-18", "2025-03-26", "2024-11-05"];
const LATEST: &str = "2025-11-25";
const PAGE: usize = 100;
const MAX_NAME: usize = 256;
const MAX_CURSOR: usize = 1024;

/// The `result` of a request, or why the board refused it.
pub(super) type MethodResult = Result<Value, BoardError>;

/// A client that requests an unknown version gets the newest supported one and decides whether to continue.
pub(super) fn initialize(params: &Value, version: &'static str) -> Result<Value, RpcError> {
    let requested = params.get("protocolVersion").and_then(Value::as_str);
    let requested = requested.ok_or_else(|| RpcError::invalid_params("`protocolVersion` is missing"))?;
    let negotiated = VERSIONS.into_iter().find(|negotiated| *negotiated == requested).unwrap_or(LATEST);
    Ok(json!({
        "protocolVersion": negotiated,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "patchboard", "title": "Patchboard", "version": version },
    }))
}

/// A command whose reply is shown as the `result`.
fn request<C: BoardCommand>(command: C, show: fn(C::Reply) -> Value) -> BoardRequest<MethodResult> {
    BoardRequest::new(command, move |reply| reply.map(show))
}

pub(super) fn list(params: &Value) -> Result<BoardRequest<MethodResult>, RpcError> {
    let cursor = match params.get("cursor") {
        None | Some(Value::Null) => None,
        Some(Value::String(cursor)) if cursor.len() <= MAX_CURSOR => Some(PageCursor(cursor.clone())),
        Some(_) => return Err(RpcError::invalid_params("`cursor` is not one of this list")),
    };
    Ok(request(ListTools { folder: None, page: PageRequest::new(Some(PAGE), cursor) }, tools))
}

pub(super) fn call(params: &Value, caller: &Caller) -> Result<BoardRequest<MethodResult>, RpcError> {
    let name = params.get("name").and_then(Value::as_str).filter(|name| name.len() <= MAX_NAME);
    let name = name.ok_or_else(|| RpcError::invalid_params("`name` is missing, not text or too long"))?;
    let arguments = match params.get("arguments") {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(arguments @ Value::Object(_)) => arguments.clone(),
        Some(_) => return Err(RpcError::invalid_params("`arguments` is not an object")),
    };
    let origin = ConversationOrigin {
        channel: "mcp".to_owned(),
        account: caller.principal.to_string(),
        peer: None,
        guild: None,
        team: None,
    };
    let command =
        CallTool { name: name.into(), arguments: Arc::new(arguments), folder: FolderChoice::Configured, origin };
    Ok(request(command, |output| tool_output(&output)))
}

fn tools(page: ResultPage<ToolSpec>) -> Value {
    let mut result = json!({ "tools": page.items.iter().map(tool).collect::<Vec<Value>>() });
    if let (Some(PageCursor(next)), Some(fields)) = (page.next, result.as_object_mut()) {
        fields.insert("nextCursor".to_owned(), next.into());
    }
    result
}

fn tool_output(output: &ToolOutput) -> Value {
    json!({
        "content": [{ "type": "text", "text": &*output.content }],
        "isError": output.is_error,
    })
}

fn tool(spec: &ToolSpec) -> Value {
    let annotations = match (spec.effect, spec.unknown_outcome) {
        (ToolEffect::ReadOnly, _) => json!({ "readOnlyHint": true }),
        (ToolEffect::Writes, UnknownOutcomePolicy::Retry) => json!({ "readOnlyHint": false, "idempotentHint": true }),
        (ToolEffect::Writes, UnknownOutcomePolicy::Ask | UnknownOutcomePolicy::Fail) => {
            json!({ "readOnlyHint": false })
        }
    };
    json!({
        "name": &*spec.name,
        "description": &*spec.description,
        "inputSchema": &*spec.input_schema,
        "annotations": annotations,
    })
}
