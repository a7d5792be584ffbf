use futures_util::StreamExt;
use serde_json::json;

use super::*;
use crate::tests::fixture::{assert_chunks, message, request, result, text, tool};

fn request_with(words: &str) -> ModelRequest {
    let tools =
        Arc::new([tool("weather", "Weather of a city.\nMore.", json!({})), tool("app.notes", "Notes.", json!({}))]);
    ModelRequest { tools, system: "Be kind.".into(), ..request(vec![ModelMessage::user(words)]) }
}

async fn events(request: ModelRequest) -> Vec<ModelEvent> {
    let stream = OfflineProvider::new("offline").stream(request, CancellationToken::new()).await.unwrap();
    stream.map(|event| event.unwrap()).collect().await
}

/// What was said, in pieces, and how it ended.
async fn text_of(request: ModelRequest) -> (Vec<String>, ModelEvent) {
    let events = events(request).await;
    let chunks =
        events.iter().filter_map(|event| if let ModelEvent::Text(chunk) = event { Some(chunk.clone()) } else { None });
    (chunks.collect(), events.last().unwrap().clone())
}

#[tokio::test]
async fn it_says_what_it_is_in_several_chunks() {
    let (chunks, end) = text_of(request_with("hello")).await;
    assert!(chunks.len() > 5, "{chunks:?}");
    let whole = chunks.concat();
    for part in
        ["No language model is configured", "patchboard onboard", "ANTHROPIC_API_KEY", "`/tools` lists the 2 tools"]
    {
        assert!(whole.contains(part), "{whole}");
    }
    assert_eq!(end, ModelEvent::Stop(StopReason::EndOfTurn));
}

#[tokio::test]
async fn the_whole_sequence() {
    let events = events(request_with("/call weather {\"city\": \"Bern\"}")).await;
    let input = 2 + 8 + (2 + 6) + (3 + 2);
    let chunk = |text: &str| ModelEvent::ToolCallChunk { index: 0, name: "weather".into(), text: text.to_owned() };
    assert_eq!(
        events,
        [
            ModelEvent::ModelSelected { provider: "offline".into(), model: "offline".into() },
            ModelEvent::Usage(TokenCount { input, output: 0 }),
            chunk(""),
            chunk("{\"city\":"),
            chunk(" \"Bern\"}"),
            ModelEvent::ToolCall {
                index: 0,
                id: "offline-1".into(),
                name: "weather".into(),
                input: ToolInput::Json(Arc::new(json!({"city": "Bern"}))),
            },
            ModelEvent::Usage(TokenCount { input, output: 2 + 4 }),
            ModelEvent::Stop(StopReason::ToolCalls),
        ]
    );
}

#[tokio::test]
async fn it_lists_tools() {
    let (chunks, _) = text_of(request_with(" /tools\n")).await;
    assert_eq!(
        chunks.concat(),
        "2 tools are offered here:\n\n- `weather`: Weather of a city.\n- `app.notes`: Notes.\n\n\
         Call one with `/call NAME JSON`."
    );
    let (chunks, _) = text_of(request(vec![ModelMessage::user("/tools")])).await;
    assert_eq!(chunks.concat(), "No tools are offered here.");
}

#[test]
fn calls_as_written() {
    let written = |name, arguments| ParsedCall { name, arguments };
    assert_eq!(read_calls("/call a"), [written("a", "")]);
    assert_eq!(
        read_calls("/call a {\n\"b\": 1\n}\n/call c\t[2]"),
        [written("a", "{\n\"b\": 1\n}"), written("c", "[2]")]
    );
    assert_eq!(read_calls("/call a {nonsense"), [written("a", "{nonsense")]);
    assert_eq!(read_calls(&"/call a\n".repeat(MAX_CALLS + 5)).len(), MAX_CALLS);
}

#[tokio::test]
async fn every_call_is_written_in_chunks() {
    let events = events(request_with("/call a\n/call b {\"é\\n\": [1]}\n/call c {\n/call d ü")).await;
    assert_chunks(&events);
    let calls = events.into_iter().filter_map(|event| {
        let ModelEvent::ToolCall { index, name, input, .. } = event else { return None };
        Some((index, name, input))
    });
    assert_eq!(
        calls.collect::<Vec<_>>(),
        [
            (0, "a".into(), ToolInput::Json(Arc::new(json!({})))),
            (1, "b".into(), ToolInput::Json(Arc::new(json!({"é\n": [1]})))),
            (2, "c".into(), ToolInput::Malformed("{".into())),
            (3, "d".into(), ToolInput::Malformed("ü".into())),
        ]
    );
}

#[tokio::test]
async fn what_only_looks_like_a_command_gets_the_explanation() {
    for words in ["/call", "/call ", "/caller a", "please /call a", "/tools all", ""] {
        let (chunks, _) = text_of(request_with(words)).await;
        assert!(chunks.concat().starts_with("No language model"), "{words:?}");
    }
}

#[tokio::test]
async fn it_says_what_the_tools_answered() {
    let mut request = request_with("/call weather\n/call app.notes");
    request.messages.push(message(MessageRole::Assistant, vec![text("calls")]));
    request.messages.push(message(
        MessageRole::User,
        vec![result("1", "weather", "12 °C", false), result("2", "app.notes", "no such app", true)],
    ));
    let (chunks, end) = text_of(request).await;
    assert_eq!(chunks.concat(), "The tool `weather` answered:\n12 °C\n\nThe tool `app.notes` failed:\nno such app");
    assert_eq!(end, ModelEvent::Stop(StopReason::EndOfTurn));
}

#[tokio::test]
async fn it_keeps_to_the_limit() {
    let events = events(ModelRequest { max_tokens: 3, ..request_with("hello") }).await;
    assert_eq!(events[2], ModelEvent::Text("No language ".to_owned()));
    assert_eq!(events[4], ModelEvent::Stop(StopReason::MaxTokens));
}

#[tokio::test]
async fn it_stops_when_told() {
    let stop = CancellationToken::new();
    let mut stream = OfflineProvider::new("offline").stream(request_with("hello"), stop.clone()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    stop.cancel();
    assert_eq!(stream.next().await, Some(Err(ModelError::Cancelled)));
    assert_eq!(stream.next().await, None);
}
