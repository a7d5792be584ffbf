//! JSON-RPC as MCP uses it: single messages, ids that are strings or numbers.

use std::borrow::Cow;

use serde_json::{Value, json};

/// Longer ids are rejected.
const MAX_ID: usize = 1024;

#[derive(Debug, PartialEq)]
pub(super) enum RpcMessage {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// A response to a request of the server, which sends none.
    Response,
}

/// A JSON-RPC error.
#[derive(Debug, PartialEq)]
pub(super) struct RpcError {
    pub(super) code: i32,
    pub(super) message: Cow<'static, str>,
    pub(super) data: Option<Value>,
}

impl RpcError {
    pub(super) const PARSE: i32 = -32700;
    pub(super) const INVALID_REQUEST: i32 = -32600;
    pub(super) const METHOD_NOT_FOUND: i32 = -32601;
    pub(super) const INVALID_PARAMS: i32 = -32602;
    pub(super) const INTERNAL: i32 = -32603;
    /// Every other refusal; `data.kind` distinguishes them.
    pub(super) const SERVER: i32 = -32000;

    pub(super) fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn server(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Self::SERVER, message)
    }

    pub(super) fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    pub(super) fn unknown_method(method: &str) -> Self {
        let short_name: String = method.chars().take(100).collect();
        Self::new(Self::METHOD_NOT_FOUND, format!("unknown method: {short_name}"))
    }
}

pub(super) fn parse_message(body: &[u8]) -> Result<RpcMessage, RpcError> {
    let message: Value = serde_json::from_slice(body)
        .map_err(|error| RpcError::new(RpcError::PARSE, format!("the message is not JSON: {error}")))?;
    let invalid = |text: &'static str| Err(RpcError::new(RpcError::INVALID_REQUEST, text));
    let Value::Object(mut fields) = message else {
        return invalid("a message is one JSON object");
    };
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid("`jsonrpc` has to be \"2.0\"");
    }
    let params = match fields.remove("params") {
        None | Some(Value::Null) => Value::Object(serde_json::Map::new()),
        Some(params @ Value::Object(_)) => params,
        Some(_) => return invalid("`params` is not an object"),
    };
    let id = fields.remove("id");
    match (fields.remove("method"), id) {
        (Some(Value::String(method)), None) => Ok(RpcMessage::Notification { method, params }),
        (Some(Value::String(method)), Some(id)) if is_id(&id) => Ok(RpcMessage::Request { id, method, params }),
        (Some(Value::String(_)), Some(_)) => invalid("`id` is neither text nor a number, or too long"),
        (Some(_), _) => invalid("`method` is not text"),
        (None, Some(_)) if fields.contains_key("result") || fields.contains_key("error") => Ok(RpcMessage::Response),
        (None, _) => invalid("`method` is missing"),
    }
}

fn is_id(id: &Value) -> bool {
    match id {
        Value::String(text) => text.len() <= MAX_ID,
        Value::Number(_) => true,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

pub(super) fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(super) fn error(id: &Value, problem: &RpcError) -> Value {
    let mut error = json!({ "code": problem.code, "message": problem.message });
    if let (Some(data), Some(fields)) = (&problem.data, error.as_object_mut()) {
        fields.insert("data".to_owned(), data.clone());
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}
