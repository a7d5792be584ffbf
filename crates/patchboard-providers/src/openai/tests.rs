use std::sync::Arc;

use patchboard_core::model::{MessageRole, ModelMessage};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ProviderKind;
use crate::tests::fixture::{assert_golden, everything, message, pretty, replay, request, text, tool};
use crate::tests::generated::{self, GeneratedPart};

fn body(request: &ModelRequest, flavour: ApiFlavour) -> String {
    pretty(&request::body(request, &request.model, flavour, &ToolNameMap::of(request), &Default::default()).unwrap())
}

#[test]
fn a_request_with_everything() {
    assert_golden!("everything.request", body(&everything(), ApiFlavour::Compatible));
}

#[test]
fn the_smallest_request() {
    assert_golden!("smallest.request", body(&request(vec![ModelMessage::user("hello")]), ApiFlavour::Compatible));
}

#[test]
fn what_the_official_service_wants() {
    let long = "é".repeat(1030);
    let request = ModelRequest {
        tools: Arc::new([tool("long", &long, json!({}))]),
        ..request(vec![message(MessageRole::User, vec![text("one"), text("two")])])
    };
    let body = body(&request, ApiFlavour::Official).replace(&"é".repeat(1024), "[é × 1024]");
    assert_golden!("official.request", body);
}

#[test]
fn streams() {
    for (name, bytes) in [
        ("text", include_bytes!("golden/text.sse").as_slice()),
        ("calls", include_bytes!("golden/calls.sse")),
        ("ollama", include_bytes!("golden/ollama.sse")),
        ("llama_cpp", include_bytes!("golden/llama_cpp.sse")),
        ("llama_cpp_error", include_bytes!("golden/llama_cpp_error.sse")),
        ("vllm", include_bytes!("golden/vllm.sse")),
        ("repeated_ids", include_bytes!("golden/repeated_ids.sse")),
        ("no_indexes", include_bytes!("golden/no_indexes.sse")),
        ("late_name", include_bytes!("golden/late_name.sse")),
        ("object_arguments", include_bytes!("golden/object_arguments.sse")),
        ("no_done", include_bytes!("golden/no_done.sse")),
        ("no_finish_reason", include_bytes!("golden/no_finish_reason.sse")),
        ("no_blank_line_at_the_end", include_bytes!("golden/no_blank_line_at_the_end.sse")),
        ("cut", include_bytes!("golden/cut.sse")),
        ("error", include_bytes!("golden/error.sse")),
        ("error_at_the_end", include_bytes!("golden/error_at_the_end.sse")),
        ("length", include_bytes!("golden/length.sse")),
        ("content_filter", include_bytes!("golden/content_filter.sse")),
        ("refusal", include_bytes!("golden/refusal.sse")),
        ("azure", include_bytes!("golden/azure.sse")),
        ("no_figures", include_bytes!("golden/no_figures.sse")),
        ("unreadable", include_bytes!("golden/unreadable.sse")),
    ] {
        let offered = ModelRequest { tools: Arc::new([tool("app.notes", "", json!({}))]), ..request(vec![]) };
        let said = replay(|| stream::CompletionsParser::new(ToolNameMap::of(&offered)), bytes);
        assert_golden!(format!("{name}.events"), said);
    }
}

#[test]
fn the_key_is_needed_at_the_official_address_only() {
    let check = |base_url: Option<&str>, key: Option<&str>| {
        let options = ProviderOptions {
            base_url: base_url.map(str::to_owned),
            api_key: key.map(Into::into),
            ..ProviderOptions::new("main", ProviderKind::OpenAi)
        };
        OpenAi::new(options, &ClientPool::new()).unwrap().check()
    };
    let missing = ModelError::NotConfigured(
        "no API key for provider 'main'. Set OPENAI_API_KEY env var or run `patchboard onboard`".to_owned(),
    );
    assert_eq!(check(None, None), Err(missing.clone()));
    assert_eq!(check(Some("https://api.openai.com/v1"), None), Err(missing));
    assert_eq!(check(None, Some("sk-1")), Ok(()));
    assert_eq!(check(Some("http://127.0.0.1:11434"), None), Ok(()));
}

fn encoded(answer: &[GeneratedPart]) -> String {
    let mut deltas = vec![json!({"role": "assistant", "content": null})];
    let mut calls = 0;
    for part in answer {
        match part {
            GeneratedPart::Text(chunks) => deltas.extend(chunks.iter().map(|chunk| json!({"content": chunk}))),
            GeneratedPart::Call { name, chunks } => {
                let function = json!({"name": name, "arguments": ""});
                deltas.push(json!({"tool_calls": [{"index": calls, "id": format!("c{calls}"), "function": function}]}));
                let chunk = |text| json!({"tool_calls": [{"index": calls, "function": {"arguments": text}}]});
                deltas.extend(chunks.iter().map(chunk));
                calls += 1;
            }
        }
    }
    let chunks = deltas.into_iter().map(|delta| json!({"choices": [{"index": 0, "delta": delta}]}));
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let chunks = chunks.chain([end]).map(|chunk| format!("data: {chunk}\n\n"));
    chunks.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

proptest! {
    #[test]
    fn chunks_are_the_arguments_in_their_place(answer in generated::answer(), cuts in vec(any::<usize>(), 0..8)) {
        generated::check(|| stream::CompletionsParser::new(ToolNameMap::default()), &answer, &encoded(&answer), "", &cuts)?;
    }
}
