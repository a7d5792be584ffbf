//! A request in the words of Chat Completions: everything is a message, tool results have a role of their own.

use std::borrow::Cow;
use std::sync::Arc;

use patchboard_core::model::{Message, ModelError, ModelRequest, Part, Role, ToolCall, ToolResult};
use patchboard_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Flavour;
use crate::calls::{CallNumbers, ObjectSchema, PastInput, WireCallId};
use crate::names::Names;
use crate::tool_texts::ToolTexts;

/// OpenAI refuses longer descriptions of a tool.
const OFFICIAL_DESCRIPTION: usize = 1024;

pub(super) fn body(
    request: &ModelRequest,
    model: &str,
    flavour: Flavour,
    names: &Names,
    texts: &ToolTexts,
) -> Result<Vec<u8>, ModelError> {
    let numbers = CallNumbers::of(request);
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(WireMessage::System { content: &request.system });
    }
    for message in &request.messages {
        match message.role {
            Role::User => push_user(message, &numbers, &mut messages),
            Role::Assistant => push_assistant(message, &numbers, names, &mut messages)?,
        }
    }
    let (max_tokens, max_completion_tokens) = match flavour {
        Flavour::Official => (None, Some(request.max_tokens)),
        Flavour::Compatible => (Some(request.max_tokens), None),
    };
    let body = Body {
        model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_tokens,
        max_completion_tokens,
        messages,
        tools: match request.tools.is_empty() {
            true => None,
            false => {
                Some(texts.of(&request.tools, || wire_tools(&request.tools, flavour, names)).map_err(|_| not_json())?)
            }
        },
        temperature: request.temperature,
    };
    serde_json::to_vec(&body).map_err(|_| not_json())
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Arc<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        /// `null` beside tool calls, which is what the API itself answers with.
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: WireCallId,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    /// Several pieces stay apart, so that each reaches the model as it was.
    Parts(Vec<TextPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
struct TextPart<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Call<'a> {
    id: WireCallId,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: String,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct Tool<'a> {
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: ObjectSchema<'a>,
}

fn push_user<'a>(message: &'a Message, numbers: &CallNumbers<'a>, messages: &mut Vec<WireMessage<'a>>) {
    let mut texts = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text(text) => texts.push(TextPart { text }),
            // Results follow their calls at once; what else the message says comes after them.
            Part::ToolResult(result) => messages.push(wire_result(result, numbers)),
            // Users call no tools.
            Part::ToolCall(_) => {}
        }
    }
    let content = match texts.as_slice() {
        [] if !message.parts.is_empty() => return,
        [] => Content::Text(""),
        [TextPart { text }] => Content::Text(text),
        _ => Content::Parts(texts),
    };
    messages.push(WireMessage::User { content });
}

fn push_assistant<'a>(
    message: &'a Message,
    numbers: &CallNumbers<'a>,
    names: &'a Names,
    messages: &mut Vec<WireMessage<'a>>,
) -> Result<(), ModelError> {
    let mut tool_calls = Vec::new();
    let mut text = Cow::Borrowed("");
    for part in &message.parts {
        match part {
            Part::Text(more) if text.is_empty() => text = Cow::Borrowed(more),
            Part::Text(more) => text.to_mut().push_str(more),
            Part::ToolCall(call) => tool_calls.push(wire_call(call, numbers, names)?),
            // Models answer no calls.
            Part::ToolResult(_) => {}
        }
    }
    let content = (!text.is_empty() || tool_calls.is_empty()).then_some(text);
    messages.push(WireMessage::Assistant { content, tool_calls });
    Ok(())
}

fn wire_call<'a>(call: &'a ToolCall, numbers: &CallNumbers<'a>, names: &'a Names) -> Result<Call<'a>, ModelError> {
    let arguments = serde_json::to_string(&PastInput(&call.input)).map_err(|_| not_json())?;
    Ok(Call { id: numbers.wire(&call.id), function: CalledFunction { name: names.wire(&call.name), arguments } })
}

/// The API has no mark for failures, so the text says it.
fn wire_result<'a>(result: &'a ToolResult, numbers: &CallNumbers<'a>) -> WireMessage<'a> {
    let content = match result.is_error {
        true => Cow::Owned(format!("Error: {}", result.content)),
        false => Cow::Borrowed(result.content.as_ref()),
    };
    WireMessage::Tool { tool_call_id: numbers.wire(&result.call), content }
}

fn wire_tools<'a>(tools: &'a [ToolSpec], flavour: Flavour, names: &'a Names) -> Vec<Tool<'a>> {
    tools.iter().map(|tool| wire_tool(tool, flavour, names)).collect()
}

fn wire_tool<'a>(tool: &'a ToolSpec, flavour: Flavour, names: &'a Names) -> Tool<'a> {
    let description = match flavour {
        Flavour::Official => first_characters(&tool.description, OFFICIAL_DESCRIPTION),
        Flavour::Compatible => &tool.description,
    };
    Tool {
        function: Function { name: names.wire(&tool.name), description, parameters: ObjectSchema(&tool.input_schema) },
    }
}

fn first_characters(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

fn not_json() -> ModelError {
    ModelError::Rejected("request cannot be written as JSON".to_owned())
}
