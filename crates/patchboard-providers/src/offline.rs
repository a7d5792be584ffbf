//! A built-in provider that is always available and not a model: it explains how to configure one, lists tools, and
//! calls them on request, so that every code path can be exercised on a fresh machine.
//!
//! A pure function of the request. Depending on the last user message:
//!
//! * `/tools` lists the offered tools.
//! * `/call NAME JSON` calls a tool; several lines that start with `/call` make several calls at once. The follow-up
//!   request, which ends with the results, is answered with the tools' output.
//! * Any other text gets the explanation.
//!
//! Counts one token per four bytes of text, rounded up: system text, messages and tool descriptions as input; its text
//! and calls as output.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream;
use patchboard_core::model::{
    ContentPart, ListedModel, MessageRole, ModelError, ModelEvent, ModelMessage, ModelRequest, StopReason, TokenCount,
    ToolInput,
};
use patchboard_core::port::ModelProvider;
use tokio_util::sync::CancellationToken;

use crate::calls::{MAX_CALLS, parse_arguments};
use crate::upstream::{AttemptLimits, ModelStream, Upstream, UpstreamFailure};

pub(crate) const MODEL_NAME: &str = "offline";
const BYTES_PER_TOKEN: usize = 4;
/// Words per text chunk.
const WORDS_PER_CHUNK: usize = 4;

#[derive(Debug, Clone)]
pub struct OfflineProvider {
    name: Arc<str>,
}

impl OfflineProvider {
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into() }
    }

    fn answer(&self, request: &ModelRequest) -> VecDeque<ModelEvent> {
        let input = tokens_of(request);
        let mut events = VecDeque::from([
            ModelEvent::ModelSelected { provider: Arc::clone(&self.name), model: MODEL_NAME.into() },
            ModelEvent::Usage(TokenCount { input, output: 0 }),
        ]);
        let (output, stop) = match reply(request) {
            OfflineReply::Say(text) => push_text(&text, request.max_tokens, &mut events),
            OfflineReply::Call(calls) => push_calls(calls, &mut events),
        };
        events.push_back(ModelEvent::Usage(TokenCount { input, output }));
        events.push_back(ModelEvent::Stop(stop));
        events
    }
}

impl Upstream for OfflineProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Result<(), ModelError> {
        Ok(())
    }

    fn attempt<'a>(
        &'a self,
        request: &'a ModelRequest,
        _limits: AttemptLimits,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelStream, UpstreamFailure>> {
        let events = self.answer(request);
        let stop = stop.clone();
        Box::pin(async move {
            let stream: ModelStream = Box::pin(stream::unfold(events, move |mut events| {
                let is_stopped = stop.is_cancelled();
                async move {
                    let event = events.pop_front()?;
                    if is_stopped {
                        return Some((Err(ModelError::Cancelled), VecDeque::new()));
                    }
                    Some((Ok(event), events))
                }
            }));
            Ok(stream)
        })
    }

    fn models<'a>(&'a self, _stop: &'a CancellationToken) -> BoxFuture<'a, Result<Vec<ListedModel>, ModelError>> {
        Box::pin(std::future::ready(Ok(vec![ListedModel { id: MODEL_NAME.into(), name: None }])))
    }
}

impl ModelProvider for OfflineProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Result<(), ModelError> {
        Ok(())
    }

    fn stream(&self, request: ModelRequest, stop: CancellationToken) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        Box::pin(async move {
            let limits = AttemptLimits { connect_within: std::time::Duration::MAX };
            self.attempt(&request, limits, &stop).await.map_err(|failure| failure.error)
        })
    }

    fn models(&self, stop: CancellationToken) -> BoxFuture<'_, Result<Vec<ListedModel>, ModelError>> {
        Box::pin(async move { Upstream::models(self, &stop).await })
    }
}

enum OfflineReply<'a> {
    Say(String),
    Call(Vec<ParsedCall<'a>>),
}

#[derive(Debug, PartialEq, Eq)]
struct ParsedCall<'a> {
    name: &'a str,
    arguments: &'a str,
}

fn reply(request: &ModelRequest) -> OfflineReply<'_> {
    let Some(last) = request.messages.iter().rfind(|message| message.role == MessageRole::User) else {
        return OfflineReply::Say(explanation(request));
    };
    if last.parts.iter().any(|part| matches!(part, ContentPart::ToolResult(_))) {
        return OfflineReply::Say(format_results(last));
    }
    let text = last.parts.iter().rev().find_map(|part| match part {
        ContentPart::Text(text) => Some(text.trim()),
        ContentPart::ToolCall(_) | ContentPart::ToolResult(_) => None,
    });
    match text.unwrap_or_default() {
        "/tools" => OfflineReply::Say(list_tools(request)),
        text if starts_call(text) => OfflineReply::Call(read_calls(text)),
        _ => OfflineReply::Say(explanation(request)),
    }
}

fn starts_call(line: &str) -> bool {
    line.strip_prefix("/call").is_some_and(|rest| rest.starts_with(char::is_whitespace) && !rest.trim().is_empty())
}

/// Splits the text before each line that starts a call; arguments may span several lines.
fn read_calls(text: &str) -> Vec<ParsedCall<'_>> {
    let mut starts: Vec<usize> = vec![0];
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if offset > 0 && starts_call(line) {
            starts.push(offset);
        }
        offset += line.len();
    }
    starts.truncate(MAX_CALLS);
    let ends = starts.iter().copied().skip(1).chain([text.len()]);
    starts
        .iter()
        .zip(ends)
        .filter_map(|(start, end)| {
            let call = text.get(*start..end)?.strip_prefix("/call")?.trim();
            let (name, arguments) = call.split_once(char::is_whitespace).unwrap_or((call, ""));
            Some(ParsedCall { name, arguments: arguments.trim() })
        })
        .collect()
}

fn format_results(message: &ModelMessage) -> String {
    let lines = message.parts.iter().filter_map(|part| match part {
        ContentPart::ToolResult(result) if result.is_error => {
            Some(format!("The tool `{}` failed:\n{}", result.name, result.content))
        }
        ContentPart::ToolResult(result) => Some(format!("The tool `{}` answered:\n{}", result.name, result.content)),
        ContentPart::Text(_) | ContentPart::ToolCall(_) => None,
    });
    lines.collect::<Vec<_>>().join("\n\n")
}

fn list_tools(request: &ModelRequest) -> String {
    if request.tools.is_empty() {
        return "No tools are offered here.".to_owned();
    }
    let mut list = format!("{} tools are offered here:\n", request.tools.len());
    for tool in request.tools.iter() {
        let first_line = tool.description.lines().next().unwrap_or_default();
        list.push_str(&format!("\n- `{}`: {first_line}", tool.name));
    }
    list.push_str("\n\nCall one with `/call NAME JSON`.");
    list
}

fn explanation(request: &ModelRequest) -> String {
    format!(
        "No language model is configured, so nobody can answer that. This is Patchboard's built-in offline provider: \
         it follows a few commands and understands nothing else.\n\n\
         To talk to a model, do one of these and start again:\n\
         - run `patchboard onboard` to choose a provider and enter its key;\n\
         - set ANTHROPIC_API_KEY or OPENAI_API_KEY;\n\
         - start Ollama or a llama.cpp server on this machine;\n\
         - run `patchboard serve --local-model` to have one managed for you.\n\n\
         Until then, `/tools` lists the {} tools offered here and `/call NAME JSON` calls one.",
        request.tools.len()
    )
}

/// Emits as much text as the limit allows, a few words per chunk.
fn push_text(text: &str, max_tokens: u32, events: &mut VecDeque<ModelEvent>) -> (u64, StopReason) {
    let limit = usize::try_from(max_tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
    let allowed = text.get(..text.floor_char_boundary(limit)).unwrap_or(text);
    let mut rest = allowed;
    while !rest.is_empty() {
        let end = rest.match_indices([' ', '\n']).nth(WORDS_PER_CHUNK - 1).map_or(rest.len(), |(at, _)| at + 1);
        let (chunk, remaining) = rest.split_at_checked(end).unwrap_or((rest, ""));
        events.push_back(ModelEvent::Text(chunk.to_owned()));
        rest = remaining;
    }
    let stop = if allowed.len() < text.len() { StopReason::MaxTokens } else { StopReason::EndOfTurn };
    (tokens(allowed), stop)
}

/// Streams calls like a model: first the name, then the arguments in two chunks.
fn push_calls(calls: Vec<ParsedCall<'_>>, events: &mut VecDeque<ModelEvent>) -> (u64, StopReason) {
    let mut output = 0;
    for (index, call) in (0_u32..).zip(calls) {
        let name: Arc<str> = call.name.into();
        let middle = call.arguments.ceil_char_boundary(call.arguments.len() / 2);
        let (first, second) = call.arguments.split_at_checked(middle).unwrap_or((call.arguments, ""));
        let chunks = [first, second].into_iter().filter(|chunk| !chunk.is_empty());
        for text in std::iter::once("").chain(chunks) {
            events.push_back(ModelEvent::ToolCallChunk { index, name: Arc::clone(&name), text: text.to_owned() });
        }
        let input = parse_arguments(call.arguments);
        output += tokens(call.name) + tokens_of_input(&input);
        events.push_back(ModelEvent::ToolCall { index, id: format!("offline-{}", index + 1).into(), name, input });
    }
    (output, StopReason::ToolCalls)
}

fn tokens_of(request: &ModelRequest) -> u64 {
    let parts = request.messages.iter().flat_map(|message| &message.parts).map(|part| match part {
        ContentPart::Text(text) => tokens(text),
        ContentPart::ToolCall(call) => tokens(&call.name) + tokens_of_input(&call.input),
        ContentPart::ToolResult(result) => tokens(&result.content),
    });
    let tools = request.tools.iter().map(|tool| tokens(&tool.name) + tokens(&tool.description));
    tokens(&request.system) + parts.chain(tools).sum::<u64>()
}

fn tokens_of_input(input: &ToolInput) -> u64 {
    match input {
        ToolInput::Json(value) => tokens(&value.to_string()),
        ToolInput::Malformed(text) => tokens(text),
    }
}

fn tokens(text: &str) -> u64 {
    text.len().div_ceil(BYTES_PER_TOKEN) as u64
}

#[cfg(test)]
mod tests;
