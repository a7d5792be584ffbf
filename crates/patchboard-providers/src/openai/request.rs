//! Request bodies of Chat Completions: everything is a message, tool results have their own role.

use std::borrow::Cow;
use std::sync::Arc;

use patchboard_core::model::{ContentPart, MessageRole, ModelError, ModelMessage, ModelRequest, ToolCall, ToolResult};
use patchboard_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::value::RawValue;

use super::ApiFlavour;
use crate::calls::{CallNumbers, ObjectSchema, PastInput, WireCallId};
use crate::tool_json::ToolJsonCache;
use crate::tool_names::ToolNameMap;

/// OpenAI refuses longer tool descriptions.
const MAX_OFFICIAL_DESCRIPTION: usize = 1024;

pub(super) fn body(
    request: &ModelRequest,
    model: &str,
    flavour: ApiFlavour,
    names: &ToolNameMap,
    texts: &ToolJsonCache,
) -> Result<Vec<u8>, ModelError> {
    let numbers = CallNumbers::of(request);
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(CompletionMessage::System { content: &request.system });
    }
    for message in &request.messages {
        match message.role {
            MessageRole::User => push_user(message, &numbers, &mut messages),
            MessageRole::Assistant => push_assistant(message, &numbers, names, &mut messages)?,
        }
    }
    let (max_tokens, max_completion_tokens) = match flavour {
        ApiFlavour::Official => (None, Some(request.max_tokens)),
        ApiFlavour::Compatible => (Some(request.max_tokens), None),
    };
    let body = CompletionRequest {
        model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_tokens,
        max_completion_tokens,
        messages,
        tools: match request.tools.is_empty() {
            true => None,
            false => Some(
                texts
                    .get_or_write(&request.tools, || wire_tools(&request.tools, flavour, names))
                    .map_err(|_| not_json())?,
            ),
        },
        temperature: request.temperature,
    };
    serde_json::to_vec(&body).map_err(|_| not_json())
}

#[derive(Serialize)]
struct CompletionRequest<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    messages: Vec<CompletionMessage<'a>>,
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
enum CompletionMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        /// `null` beside tool calls, like in the API's own responses.
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<AssistantToolCall<'a>>,
    },
    Tool {
        tool_call_id: WireCallId,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(&'a str),
    /// Several parts stay separate, so that each reaches the model unchanged.
    Parts(Vec<TextPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "text")]
struct TextPart<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "function")]
struct AssistantToolCall<'a> {
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
struct FunctionTool<'a> {
    function: FunctionDefinition<'a>,
}

#[derive(Serialize)]
struct FunctionDefinition<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: ObjectSchema<'a>,
}

fn push_user<'a>(message: &'a ModelMessage, numbers: &CallNumbers<'a>, messages: &mut Vec<CompletionMessage<'a>>) {
    let mut texts = Vec::new();
    for part in &message.parts {
        match part {
            ContentPart::Text(text) => texts.push(TextPart { text }),
            // Results must directly follow their calls; other content of the message comes after them.
            ContentPart::ToolResult(result) => messages.push(wire_result(result, numbers)),
            // User messages contain no calls.
            ContentPart::ToolCall(_) => {}
        }
    }
    let content = match texts.as_slice() {
        [] if !message.parts.is_empty() => return,
        [] => UserContent::Text(""),
        [TextPart { text }] => UserContent::Text(text),
        _ => UserContent::Parts(texts),
    };
    messages.push(CompletionMessage::User { content });
}

fn push_assistant<'a>(
    message: &'a ModelMessage,
    numbers: &CallNumbers<'a>,
    names: &'a ToolNameMap,
    messages: &mut Vec<CompletionMessage<'a>>,
) -> Result<(), ModelError> {
    let mut tool_calls = Vec::new();
    let mut text = Cow::Borrowed("");
    for part in &message.parts {
        match part {
            ContentPart::Text(more) if text.is_empty() => text = Cow::Borrowed(more),
            ContentPart::Text(more) => text.to_mut().push_str(more),
            ContentPart::ToolCall(call) => tool_calls.push(wire_call(call, numbers, names)?),
            // Assistant messages contain no results.
            ContentPart::ToolResult(_) => {}
        }
    }
    let content = (!text.is_empty() || tool_calls.is_empty()).then_some(text);
    messages.push(CompletionMessage::Assistant { content, tool_calls });
    Ok(())
}

fn wire_call<'a>(
    call: &'a ToolCall,
    numbers: &CallNumbers<'a>,
    names: &'a ToolNameMap,
) -> Result<AssistantToolCall<'a>, ModelError> {
    let arguments = serde_json::to_string(&PastInput(&call.input)).map_err(|_| not_json())?;
    Ok(AssistantToolCall {
        id: numbers.wire_id(&call.id),
        function: CalledFunction { name: names.wire_name(&call.name), arguments },
    })
}

/// The API has no error flag, so the text contains it.
fn wire_result<'a>(result: &'a ToolResult, numbers: &CallNumbers<'a>) -> CompletionMessage<'a> {
    let content = match result.is_error {
        true => Cow::Owned(format!("Error: {}", result.content)),
        false => Cow::Borrowed(result.content.as_ref()),
    };
    CompletionMessage::Tool { tool_call_id: numbers.wire_id(&result.call), content }
}

fn wire_tools<'a>(tools: &'a [ToolSpec], flavour: ApiFlavour, names: &'a ToolNameMap) -> Vec<FunctionTool<'a>> {
    tools.iter().map(|tool| wire_tool(tool, flavour, names)).collect()
}

fn wire_tool<'a>(tool: &'a ToolSpec, flavour: ApiFlavour, names: &'a ToolNameMap) -> FunctionTool<'a> {
    let description = match flavour {
        ApiFlavour::Official => first_characters(&tool.description, MAX_OFFICIAL_DESCRIPTION),
        ApiFlavour::Compatible => &tool.description,
    };
    FunctionTool {
        function: FunctionDefinition {
            name: names.wire_name(&tool.name),
            description,
            parameters: ObjectSchema(&tool.input_schema),
        },
    }
}

fn first_characters(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

fn not_json() -> ModelError {
    ModelError::Rejected("request cannot be written as JSON".to_owned())
}
