//! A request in the words of the Messages API: system text on top, tool calls and results as content blocks.

use std::collections::BTreeSet;
use std::sync::Arc;

use patchboard_core::model::{Message, ModelError, ModelRequest, Part, Role};
use patchboard_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::calls::{CallNumbers, ObjectSchema, PastInput, WireCallId};
use crate::names::Names;
use crate::tool_texts::ToolTexts;

pub(super) fn body(
    request: &ModelRequest,
    model: &str,
    names: &Names,
    texts: &ToolTexts,
) -> Result<Vec<u8>, ModelError> {
    let not_json = |_| ModelError::Rejected("request cannot be written as JSON".to_owned());
    let numbers = CallNumbers::of(request);
    let tools = match request.tools.is_empty() {
        true => Tools::Past(past(request, names)),
        false => Tools::Offered(texts.of(&request.tools, || offered(&request.tools, names)).map_err(not_json)?),
    };
    let body = Body {
        model,
        max_tokens: request.max_tokens,
        stream: true,
        system: &request.system,
        messages: request.messages.iter().map(|message| wire_message(message, &numbers, names)).collect(),
        // Tools of the past are defined but must not be called.
        tool_choice: matches!(&tools, Tools::Past(past) if !past.is_empty()).then_some(ToolChoice { kind: "none" }),
        tools,
        temperature: request.temperature,
    };
    serde_json::to_vec(&body).map_err(not_json)
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    system: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Tools::is_empty")]
    tools: Tools<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
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
struct Tool<'a> {
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

fn wire_message<'a>(message: &'a Message, numbers: &CallNumbers<'a>, names: &'a Names) -> WireMessage<'a> {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    if let [Part::Text(text)] = message.parts.as_slice() {
        return WireMessage { role, content: Content::Text(text) };
    }
    let mut blocks: Vec<Block<'_>> = message
        .parts
        .iter()
        .filter_map(|part| match part {
            // Empty text blocks are refused; an empty message of one part is sent as it is, above.
            Part::Text(text) => (!text.is_empty()).then_some(Block::Text { text }),
            Part::ToolCall(call) => Some(Block::ToolUse {
                id: numbers.wire(&call.id),
                name: names.wire(&call.name),
                input: PastInput(&call.input),
            }),
            Part::ToolResult(result) => Some(Block::ToolResult {
                tool_use_id: numbers.wire(&result.call),
                content: &result.content,
                is_error: result.is_error,
            }),
        })
        .collect();
    // Results have to come before anything else that is said.
    blocks.sort_by_key(|block| match block {
        Block::ToolResult { .. } => 0,
        Block::Text { .. } | Block::ToolUse { .. } => 1,
    });
    WireMessage { role, content: if blocks.is_empty() { Content::Text("") } else { Content::Blocks(blocks) } }
}

/// The API wants every tool that past messages use defined, so where none is offered any more, those are named without
/// saying what they take.
#[derive(Serialize)]
#[serde(untagged)]
enum Tools<'a> {
    Offered(Arc<RawValue>),
    Past(Vec<Tool<'a>>),
}

impl Tools<'_> {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Past(past) if past.is_empty())
    }
}

fn offered<'a>(tools: &'a [ToolSpec], names: &'a Names) -> Vec<Tool<'a>> {
    let tool = |tool: &'a ToolSpec| Tool {
        name: names.wire(&tool.name),
        description: &tool.description,
        input_schema: ObjectSchema(&tool.input_schema),
    };
    tools.iter().map(tool).collect()
}

fn past<'a>(request: &'a ModelRequest, names: &'a Names) -> Vec<Tool<'a>> {
    let past: BTreeSet<&str> = request
        .messages
        .iter()
        .flat_map(|message| &message.parts)
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(names.wire(&call.name)),
            Part::ToolResult(_) | Part::Text(_) => None,
        })
        .collect();
    past.into_iter().map(|name| Tool { name, description: "", input_schema: ObjectSchema(&Value::Null) }).collect()
}
