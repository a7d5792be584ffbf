use std::sync::Arc;

use patchboard_core::model::{MessageRole, ModelMessage};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ProviderKind;
use crate::tests::fixture::{assert_golden, call, everything, message, pretty, replay, request, result, text, tool};
use crate::tests::generated::{self, GeneratedPart};

fn body(request: &ModelRequest) -> String {
    pretty(&request::body(request, &request.model, &ToolNameMap::of(request), &Default::default()).unwrap())
}

#[test]
fn a_request_with_everything() {
    assert_golden!("everything.request", body(&everything()));
}

#[test]
fn the_smallest_request() {
    assert_golden!("smallest.request", body(&request(vec![ModelMessage::user("hello")])));
}

#[test]
fn tools_of_the_past_are_defined_but_not_offered() {
    let request = request(vec![
        ModelMessage::user("look"),
        message(MessageRole::Assistant, vec![text(""), call("c-1", "app.notes", json!({}))]),
        message(MessageRole::User, vec![result("c-1", "app.notes", "done", false)]),
    ]);
    assert_golden!("past_tools.request", body(&request));
}

#[test]
fn streams() {
    for (name, bytes) in [
        ("text", include_bytes!("golden/text.sse").as_slice()),
        ("calls", include_bytes!("golden/calls.sse")),
        ("thinking", include_bytes!("golden/thinking.sse")),
        ("error", include_bytes!("golden/error.sse")),
        ("cut", include_bytes!("golden/cut.sse")),
        ("cut_in_event", include_bytes!("golden/cut_in_event.sse")),
        ("max_tokens", include_bytes!("golden/max_tokens.sse")),
        ("refusal", include_bytes!("golden/refusal.sse")),
        ("lookalike", include_bytes!("golden/lookalike.sse")),
        ("unreadable", include_bytes!("golden/unreadable.sse")),
    ] {
        let offered = ModelRequest { tools: Arc::new([tool("app.notes", "", json!({}))]), ..request(vec![]) };
        let said = replay(|| stream::MessagesParser::new(ToolNameMap::of(&offered)), bytes);
        assert_golden!(format!("{name}.events"), said);
    }
}

#[test]
fn the_key_is_needed_at_the_official_address_only() {
    let check = |base_url: Option<&str>, key: Option<&str>| {
        let options = ProviderOptions {
            base_url: base_url.map(str::to_owned),
            api_key: key.map(Into::into),
            ..ProviderOptions::new("anthropic", ProviderKind::Anthropic)
        };
        Anthropic::new(options, &ClientPool::new()).unwrap().check()
    };
    let missing = ModelError::NotConfigured(
        "no API key for provider 'anthropic'. Set ANTHROPIC_API_KEY env var or run `patchboard onboard`".to_owned(),
    );
    assert_eq!(check(None, None), Err(missing.clone()));
    assert_eq!(check(Some("https://api.anthropic.com"), Some(" \n")), Err(missing));
    assert_eq!(check(None, Some("sk-ant-1")), Ok(()));
    assert_eq!(check(Some("http://127.0.0.1:9"), None), Ok(()));
}

fn encoded(answer: &[GeneratedPart]) -> String {
    let mut frames = vec![json!({"type": "message_start", "message": {}})];
    for (index, part) in answer.iter().enumerate() {
        let (block, deltas): (_, Vec<_>) = match part {
            GeneratedPart::Text(chunks) => (
                json!({"type": "text", "text": ""}),
                chunks.iter().map(|chunk| json!({"type": "text_delta", "text": chunk})).collect(),
            ),
            GeneratedPart::Call { name, chunks } => (
                json!({"type": "tool_use", "id": "t", "name": name, "input": {}}),
                chunks.iter().map(|chunk| json!({"type": "input_json_delta", "partial_json": chunk})).collect(),
            ),
        };
        frames.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        for delta in deltas {
            frames.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        frames.push(json!({"type": "content_block_stop", "index": index}));
    }
    frames.push(json!({"type": "message_stop"}));
    frames.iter().map(|frame| format!("data: {frame}\n\n")).collect()
}

proptest! {
    #[test]
    fn chunks_are_the_arguments_in_their_place(answer in generated::answer(), cuts in vec(any::<usize>(), 0..8)) {
        // The object every block begins with stands for no arguments.
        generated::check(|| stream::MessagesParser::new(ToolNameMap::default()), &answer, &encoded(&answer), "{}", &cuts)?;
    }
}
