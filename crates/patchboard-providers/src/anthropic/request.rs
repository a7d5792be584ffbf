//! Request bodies of the Messages API: system text at the top level, tool calls and results as content blocks.

use std::collections::BTreeSet;
use std::sync::Arc;

use patchboard_core::model::{ContentPart, MessageRole, ModelError, ModelMessage, ModelRequest};
use patchboard_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::calls::{CallNumbers, ObjectSchema, PastInput, WireCallId};
use crate::tool_json::ToolJsonCache;
use crate::tool_names::ToolNameMap;

pub(super) fn body(
    request: &ModelRequest,
    model: &str,
    names: &ToolNameMap,
    texts: &ToolJsonCache,
) -> Result<Vec<u8>, ModelError> {
    let not_json = |_| ModelError::Rejected("request cannot be written as JSON".to_owned());
    let numbers = CallNumbers::of(request);
    let tools = match request.tools.is_empty() {
        true => ToolList::Past(past_tools(request, names)),
        false => ToolList::Offered(
            texts.get_or_write(&request.tools, || offered_tools(&request.tools, names)).map_err(not_json)?,
        ),
    };
    let body = MessagesRequest {
        model,
        max_tokens: request.max_tokens,
        stream: true,
        system: &request.system,
        messages: request.messages.iter().map(|message| wire_message(message, &numbers, names)).collect(),
        // Tools of past messages must be defined, but must not be called.
        tool_choice: matches!(&tools, ToolList::Past(past) if !past.is_empty()).then_some(ToolChoice { kind: "none" }),
        tools,
        temperature: request.temperature,
    };
    serde_json::to_vec(&body).map_err(not_json)
}

#[derive(Serialize)]
struct MessagesRequest<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    system: &'a str,
    messages: Vec<MessageParam<'a>>,
    #[serde(skip_serializing_if = "ToolList::is_empty")]
    tools: ToolList<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
}

#[derive(Serialize)]
struct MessageParam<'a> {
    role: &'static str,
    content: MessageContent<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum MessageContent<'a> {
    Text(&'a str),
    Blocks(Vec<ContentBlockParam<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentBlockParam<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: WireCallId,
        name: &'a str,
        input: PastInput<'a>,
    },
    ToolResult {
        tool_use_id: WireCallId,
        #[serde(skip_serializing_if = "str::is_empty")]
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
struct AnthropicTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: ObjectSchema<'a>,
}

#[derive(Serialize)]
struct ToolChoice {
    #[serde(rename = "type")]
    kind: &'static str,
}

fn wire_message<'a>(message: &'a ModelMessage, numbers: &CallNumbers<'a>, names: &'a ToolNameMap) -> MessageParam<'a> {
    let role = match message.role {
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
    };
    if let [ContentPart::Text(text)] = message.parts.as_slice() {
        return MessageParam { role, content: MessageContent::Text(text) };
    }
    let mut blocks: Vec<ContentBlockParam<'_>> = message
        .parts
        .iter()
        .filter_map(|part| match part {
            // The API refuses empty text blocks; a message of a single text is sent as a string, above.
            ContentPart::Text(text) => (!text.is_empty()).then_some(ContentBlockParam::Text { text }),
            ContentPart::ToolCall(call) => Some(ContentBlockParam::ToolUse {
                id: numbers.wire_id(&call.id),
                name: names.wire_name(&call.name),
                input: PastInput(&call.input),
            }),
            ContentPart::ToolResult(result) => Some(ContentBlockParam::ToolResult {
                tool_use_id: numbers.wire_id(&result.call),
                content: &result.content,
                is_error: result.is_error,
            }),
        })
        .collect();
    // The API requires results before other content.
    blocks.sort_by_key(|block| match block {
        ContentBlockParam::ToolResult { .. } => 0,
        ContentBlockParam::Text { .. } | ContentBlockParam::ToolUse { .. } => 1,
    });
    MessageParam {
        role,
        content: if blocks.is_empty() { MessageContent::Text("") } else { MessageContent::Blocks(blocks) },
    }
}

/// The API requires definitions of all tools that past messages use; if no tools are offered, these are defined without
/// a schema.
#[derive(Serialize)]
#[serde(untagged)]
enum ToolList<'a> {
    Offered(Arc<RawValue>),
    Past(Vec<AnthropicTool<'a>>),
}

impl ToolList<'_> {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Past(past) if past.is_empty())
    }
}

fn offered_tools<'a>(tools: &'a [ToolSpec], names: &'a ToolNameMap) -> Vec<AnthropicTool<'a>> {
    let tool = |tool: &'a ToolSpec| AnthropicTool {
        name: names.wire_name(&tool.name),
        description: &tool.description,
        input_schema: ObjectSchema(&tool.input_schema),
    };
    tools.iter().map(tool).collect()
}

fn past_tools<'a>(request: &'a ModelRequest, names: &'a ToolNameMap) -> Vec<AnthropicTool<'a>> {
    let past: BTreeSet<&str> = request
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| match part {
            ContentPart::ToolCall(call) => Some(names.wire_name(&call.name)),
            ContentPart::ToolResult(_) | ContentPart::Text(_) => None,
        })
        .collect();
    past.into_iter()
        .map(|name| AnthropicTool { name, description: "", input_schema: ObjectSchema(&Value::Null) })
        .collect()
}
