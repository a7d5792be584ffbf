//! The gateway's wire frames. Nothing here is used outside this folder.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

mod extensions;
mod records;

pub(super) use extensions::{DeliveryList, ToolDescribe, WorkerLines, WorkerRestart};
pub(super) use records::{AuditRead, FiguresRead};

/// Longer ids are refused, because the id is echoed in every frame of its stream.
pub(super) const MAX_ID_BYTES: usize = 1024;

/// `{"id", "method", "params"}`; other fields are ignored.
#[derive(Debug)]
pub(super) struct RpcRequest<'a> {
    pub(super) id: String,
    pub(super) method: Cow<'a, str>,
    pub(super) params: &'a str,
}

#[derive(Deserialize)]
struct RawRequest<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

impl<'a> RpcRequest<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        // serde would also read a struct from an array; batches are not part of the protocol.
        if !text.trim_start().starts_with('{') {
            return Err(match serde_json::from_str::<&RawValue>(text) {
                Ok(_) => serde_json::Error::custom("expected an object with `id` and `method`"),
                Err(error) => error,
            });
        }
        let raw: RawRequest<'a> = serde_json::from_str(text)?;
        let params = raw.params.map_or("null", RawValue::get);
        Ok(Self { id: parse_id(raw.id.get())?, method: raw.method, params })
    }
}

/// Accepts strings, and numbers as written; both are answered as strings.
fn parse_id(raw: &str) -> Result<String, serde_json::Error> {
    let id = match raw.bytes().next() {
        Some(b'"') => serde_json::from_str::<String>(raw)?,
        Some(b'-' | b'0'..=b'9') => raw.to_owned(),
        _ => return Err(serde_json::Error::custom("`id` must be a string or a number")),
    };
    if id.len() > MAX_ID_BYTES {
        return Err(serde_json::Error::custom(format!("`id` is longer than {MAX_ID_BYTES} bytes")));
    }
    Ok(id)
}

#[derive(Deserialize)]
pub(super) struct TokenFrame<'a> {
    #[serde(borrow)]
    pub(super) token: Cow<'a, str>,
}

#[derive(Serialize)]
pub(super) struct HelloFrame {
    pub(super) ok: bool,
    pub(super) version: &'static str,
}

#[derive(Serialize)]
pub(super) struct AuthFailed {
    pub(super) error: &'static str,
    pub(super) code: u16,
}

#[derive(Serialize)]
pub(super) struct ResultFrame<'a, T> {
    pub(super) id: &'a str,
    pub(super) result: T,
}

#[derive(Serialize)]
pub(super) struct ErrorFrame<'a> {
    pub(super) id: &'a str,
    pub(super) error: &'a str,
}

/// One event of a stream. `seq` is the value that `chat.attach` takes as `after`.
#[derive(Serialize)]
pub(super) struct EventFrame<'a, T> {
    pub(super) id: &'a str,
    pub(super) event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seq: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct ToolUse<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) input: Cow<'a, Value>,
}

#[derive(Serialize)]
pub(super) struct ToolResult<'a> {
    pub(super) tool_use_id: &'a str,
    pub(super) content: &'a str,
    pub(super) is_error: bool,
}

#[derive(Serialize)]
pub(super) struct TokenUsage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

#[derive(Serialize)]
pub(super) struct ApprovalPrompt<'a> {
    pub(super) approval_id: String,
    pub(super) tool_use_id: &'a str,
    pub(super) name: &'a str,
    pub(super) input: Cow<'a, Value>,
    pub(super) expires_at: String,
    /// Why approval is needed, if for more than the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The plugin, worker or agent that asks, if it is not the conversation's own agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked_by: Option<&'a str>,
    /// Calls like this one can be allowed for the session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) session_offered: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) run_id: String,
}

/// What a run waits for.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum InputPrompt<'a> {
    Approval(ApprovalPrompt<'a>),
    ToolCall(ClientToolCall<'a>),
    Question(QuestionPrompt<'a>),
}

/// A call of a tool that the client has.
#[derive(Serialize)]
pub(super) struct ClientToolCall<'a> {
    pub(super) input_id: String,
    pub(super) tool_use_id: &'a str,
    pub(super) name: &'a str,
    pub(super) input: Cow<'a, Value>,
    pub(super) expires_at: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) run_id: String,
}

/// A question to the user.
#[derive(Serialize)]
pub(super) struct QuestionPrompt<'a> {
    pub(super) input_id: String,
    pub(super) tool_use_id: &'a str,
    pub(super) question: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) schema: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked_by: Option<&'a str>,
    pub(super) expires_at: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) run_id: String,
}

/// A tool that the client has.
#[derive(Debug, Deserialize)]
pub(super) struct ClientTool {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default = "any_object")]
    pub(super) input_schema: Value,
}

fn any_object() -> Value {
    serde_json::json!({ "type": "object" })
}

/// One of `approve`, `result`, `answer` and `decline`.
#[derive(Debug, Deserialize)]
pub(super) struct InputAnswer {
    pub(super) input_id: String,
    pub(super) approve: Option<bool>,
    #[serde(default)]
    pub(super) for_session: bool,
    pub(super) result: Option<ClientToolResult>,
    /// Any JSON value but null.
    pub(super) answer: Option<Value>,
    #[serde(default)]
    pub(super) decline: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct ClientToolResult {
    pub(super) content: String,
    #[serde(default)]
    pub(super) is_error: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatSend {
    pub(super) channel: String,
    pub(super) account: String,
    pub(super) content: String,
    pub(super) peer: Option<String>,
    pub(super) guild: Option<String>,
    pub(super) team: Option<String>,
    pub(super) model: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) working_folder: Option<String>,
    #[serde(default)]
    pub(super) grant_folder: bool,
    /// The client shows approvals, so the stream must not announce them as text.
    #[serde(default)]
    pub(super) approvals: bool,
    /// Tools that the client has, and runs itself.
    #[serde(default)]
    pub(super) tools: Vec<ClientTool>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ModelsList {
    pub(super) agent: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatCancel {
    #[serde(deserialize_with = "string_or_number")]
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatAttach {
    #[serde(default, deserialize_with = "optional_string_or_number")]
    pub(super) id: Option<String>,
    pub(super) session: Option<String>,
    /// The run's own id, as approvals and questions tell it.
    pub(super) run_id: Option<String>,
    pub(super) after: Option<u64>,
    #[serde(default)]
    pub(super) approvals: bool,
}

/// `{session}` or `{channel, account, peer?}`, for methods about one conversation.
#[derive(Debug, Deserialize)]
pub(super) struct SessionParams {
    pub(super) session: Option<String>,
    pub(super) channel: Option<String>,
    pub(super) account: Option<String>,
    pub(super) peer: Option<String>,
    pub(super) guild: Option<String>,
    pub(super) team: Option<String>,
    #[serde(default)]
    pub(super) purge: bool,
    pub(super) limit: Option<usize>,
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ListParams {
    pub(super) channel: Option<String>,
    pub(super) account: Option<String>,
    pub(super) hidden: Option<String>,
    pub(super) limit: Option<usize>,
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AccountParams {
    pub(super) channel: String,
    pub(super) account: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct AccountExport {
    pub(super) channel: String,
    pub(super) account: String,
    pub(super) section: String,
    pub(super) limit: Option<usize>,
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FactList {
    pub(super) channel: String,
    pub(super) account: String,
    #[serde(default)]
    pub(super) superseded: bool,
    pub(super) limit: Option<usize>,
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FactParams {
    pub(super) channel: String,
    pub(super) account: String,
    pub(super) fact: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct FactCorrection {
    pub(super) channel: String,
    pub(super) account: String,
    pub(super) fact: u64,
    pub(super) object: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct SessionRename {
    #[serde(flatten)]
    pub(super) about: SessionParams,
    pub(super) title: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct SessionHide {
    #[serde(flatten)]
    pub(super) about: SessionParams,
    pub(super) hidden: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SessionFork {
    #[serde(flatten)]
    pub(super) about: SessionParams,
    pub(super) turn: Option<u64>,
    pub(super) run: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SessionSearch {
    pub(super) query: String,
    pub(super) limit: Option<usize>,
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct RunList {
    pub(super) owner: Option<String>,
    /// The client's id.
    #[serde(default, deserialize_with = "optional_string_or_number")]
    pub(super) id: Option<String>,
    pub(super) surface: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) strategy: Option<String>,
    pub(super) state: Option<String>,
    pub(super) session: Option<String>,
    pub(super) since: Option<String>,
    pub(super) until: Option<String>,
    pub(super) text: Option<String>,
    pub(super) limit: Option<usize>,
    pub(super) cursor: Option<String>,
}

/// For methods about one run.
#[derive(Debug, Deserialize)]
pub(super) struct NamedRun {
    pub(super) run: String,
    pub(super) after: Option<u64>,
    pub(super) limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(super) struct MemorySearch {
    pub(super) query: String,
    pub(super) channel: String,
    pub(super) account: String,
    pub(super) limit: Option<usize>,
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct UsageReportParams {
    pub(super) since: Option<String>,
    pub(super) group_by: Option<String>,
    pub(super) limit: Option<usize>,
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolCallParams {
    pub(super) name: String,
    pub(super) arguments: Option<serde_json::Map<String, Value>>,
    pub(super) working_folder: Option<String>,
    #[serde(default)]
    pub(super) grant_folder: bool,
    pub(super) channel: Option<String>,
    pub(super) account: Option<String>,
    pub(super) peer: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolApproveParams {
    pub(super) server: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ApprovalAnswer {
    pub(super) approval_id: String,
    pub(super) approve: bool,
    /// Approves further calls like this one, too.
    #[serde(default)]
    pub(super) for_session: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct KeyCreate {
    pub(super) name: String,
    pub(super) agents: Option<Vec<String>>,
    pub(super) surfaces: Option<Vec<String>>,
    pub(super) tools: Option<Vec<String>>,
    #[serde(default)]
    pub(super) oversee: bool,
    pub(super) daily: Option<u64>,
    pub(super) monthly: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct KeyName {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct PluginLoad {
    pub(super) name: Option<String>,
    pub(super) path: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PluginName {
    pub(super) name: String,
}

#[derive(Serialize)]
pub(super) struct UnloadedPlugin<'a> {
    pub(super) unloaded: &'a str,
}

/// The result of a webhook whose adapter does not answer itself.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WebhookReceipt {
    Delivery(String),
    Duplicate(bool),
    Ignored(bool),
}

fn string_or_number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    optional_string_or_number(deserializer)?.ok_or_else(|| D::Error::custom("expected a string or a number"))
}

fn optional_string_or_number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        Value::Number(number) => Ok(Some(number.to_string())),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(D::Error::custom("expected a string or a number")),
    }
}
