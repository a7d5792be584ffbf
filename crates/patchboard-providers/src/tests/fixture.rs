use std::sync::Arc;

use patchboard_core::id::CallId;
use patchboard_core::model::{
    ContentPart, MessageRole, ModelError, ModelEvent, ModelMessage, ModelRequest, ToolCall, ToolInput, ToolResult,
};
use patchboard_core::tool::{ToolEffect, ToolKind, ToolSpec, UnknownOutcomePolicy};
use serde_json::{Value, json};

use crate::calls::parse_arguments;
use crate::event_reader::{EventParser, ModelEventReader};

pub(crate) fn request(messages: Vec<ModelMessage>) -> ModelRequest {
    ModelRequest {
        model: "test-model".into(),
        system: "".into(),
        messages,
        tools: Arc::new([]),
        max_tokens: 1024,
        temperature: None,
    }
}

pub(crate) fn tool(name: &str, description: &str, input_schema: Value) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema: Arc::new(input_schema),
        effect: ToolEffect::ReadOnly,
        unknown_outcome: UnknownOutcomePolicy::Fail,
        kind: ToolKind::BuiltIn,
        traits: None,
        timeout: None,
    }
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> ContentPart {
    let input = ToolInput::Json(Arc::new(input));
    ContentPart::ToolCall(ToolCall { id: CallId(id.into()), name: name.into(), input })
}

pub(crate) fn result(id: &str, name: &str, content: &str, is_error: bool) -> ContentPart {
    ContentPart::ToolResult(ToolResult {
        call: CallId(id.into()),
        name: name.into(),
        content: content.into(),
        is_error,
    })
}

pub(crate) fn text(text: &str) -> ContentPart {
    ContentPart::Text(text.into())
}

pub(crate) fn message(role: MessageRole, parts: Vec<ContentPart>) -> ModelMessage {
    ModelMessage { role, parts }
}

/// A conversation with everything in it: system text, tools of awkward names, parallel calls, a failure, history.
pub(crate) fn everything() -> ModelRequest {
    let malformed = ToolInput::Malformed("{\"city\":".into());
    let malformed =
        ContentPart::ToolCall(ToolCall { id: CallId("c-3".into()), name: "weather".into(), input: malformed });
    ModelRequest {
        system: "You are the desk clerk.\nAnna lives in Bern.".into(),
        tools: Arc::new([
            tool(
                "weather",
                "Weather of a city.",
                json!({
                    "type": "object",
                    "properties": {"city": {"type": "string"}},
                    "required": ["city"],
                }),
            ),
            tool("app.notes", "", json!({"type": "object"})),
            tool("app__notes", "Another one of nearly that name.", json!(null)),
            tool(&format!("worker.{}", "x".repeat(70)), "Too long a name.", json!({})),
        ]),
        temperature: Some(0.7),
        ..request(vec![
            ModelMessage::user("What is the weather in Bern and Genf?"),
            message(
                MessageRole::Assistant,
                vec![
                    text("Let me look."),
                    call("c-1", "weather", json!({"city": "Bern"})),
                    call("c-2", "app.notes", json!({})),
                    malformed,
                ],
            ),
            message(
                MessageRole::User,
                vec![
                    result("c-1", "weather", "12 °C", false),
                    result("c-2", "app.notes", "", false),
                    result("c-3", "weather", "arguments are not valid JSON", true),
                ],
            ),
            message(MessageRole::Assistant, vec![call("c-4", "gone.tool", json!([1]))]),
            message(
                MessageRole::User,
                vec![text("Never mind."), result("c-4", "gone.tool", "unknown tool: gone.tool", true)],
            ),
            ModelMessage::assistant("It is 12 °C in Bern."),
            ModelMessage::user("  Thanks! \n"),
        ])
    }
}

pub(crate) fn pretty(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap();
    serde_json::to_string_pretty(&body).unwrap()
}

/// Everything the bytes mean, a line each, the same however they are cut.
pub(crate) fn replay<P: EventParser>(parser: impl Fn() -> P, bytes: &[u8]) -> String {
    let whole = parse(parser(), [bytes]);
    for size in [1, 3, 7, 64] {
        assert_eq!(parse(parser(), bytes.chunks(size)), whole, "in pieces of {size} bytes");
    }
    let events: Vec<ModelEvent> = whole.iter().filter_map(|event| event.clone().ok()).collect();
    assert_chunks(&events);
    let lines = whole.iter().map(|event| match event {
        Ok(event) => format!("{event:?}"),
        Err(error) => format!("error {error:?}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Everything a parser makes of the chunks, the end included.
pub(crate) fn parse<'a, P: EventParser>(
    parser: P,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Result<ModelEvent, ModelError>> {
    let model_selected = ModelEvent::ModelSelected { provider: "test".into(), model: "test-model".into() };
    let mut reader = ModelEventReader::new(parser, model_selected);
    let mut events = Vec::new();
    for chunk in chunks {
        reader.push(chunk);
        events.extend(std::iter::from_fn(|| reader.next()));
    }
    if reader.progress() != crate::event_reader::ParseProgress::Done {
        reader.end();
        events.extend(std::iter::from_fn(|| reader.next()));
    }
    events
}

/// Calls are numbered as they begin. Each is emitted in chunks before it is emitted whole, under one name, and its
/// chunks joined are its arguments.
pub(crate) fn assert_chunks(events: &[ModelEvent]) {
    struct OpenCall {
        name: Arc<str>,
        arguments: String,
        is_whole: bool,
    }
    let mut calls: Vec<OpenCall> = Vec::new();
    let position = |index: u32| usize::try_from(index).unwrap();
    for event in events {
        match event {
            ModelEvent::ToolCallChunk { index, name, text } => {
                if position(*index) == calls.len() {
                    calls.push(OpenCall { name: name.clone(), arguments: String::new(), is_whole: false });
                } else {
                    assert!(!text.is_empty(), "an empty piece that is not the first: {events:?}");
                }
                let call = &mut calls[position(*index)];
                assert_eq!((name, call.is_whole), (&call.name, false), "{events:?}");
                call.arguments.push_str(text);
            }
            ModelEvent::ToolCall { index, name, input, .. } => {
                let call = &mut calls[position(*index)];
                assert_eq!((name, call.is_whole), (&call.name, false), "{events:?}");
                assert_eq!(input, &parse_arguments(&call.arguments), "{events:?}");
                call.is_whole = true;
            }
            ModelEvent::ModelSelected { .. }
            | ModelEvent::Text(_)
            | ModelEvent::Thought(_)
            | ModelEvent::Usage(_)
            | ModelEvent::Stop(_) => {}
        }
    }
    if let Some(ModelEvent::Stop(_)) = events.last() {
        assert!(calls.iter().all(|call| call.is_whole), "a call never came whole: {events:?}");
    }
}

/// Compares with a file in the caller's `golden` folder.
macro_rules! assert_golden {
    ($name:expr, $text:expr) => {
        insta::with_settings!(
            { snapshot_path => "golden", prepend_module_to_snapshot => false, omit_expression => true },
            { insta::assert_snapshot!($name, $text) }
        );
    };
}
pub(crate) use assert_golden;
