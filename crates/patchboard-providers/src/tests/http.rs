//! Real requests against a scripted server.

use std::time::Duration;

use futures_util::StreamExt;
use patchboard_core::model::{ListedModel, ModelError, ModelEvent, ModelMessage, StopReason, TokenCount};
use patchboard_core::port::{Embedder, ModelProvider};
use patchboard_http::ClientPool;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::fixture::request;
use super::stub::{Script, Still, Stub, Then};
use crate::{
    Chain, ChainLink, ChainOptions, Jitter, ModelOverride, ProviderKind, ProviderOptions, build, embedder, list_models,
    upstream,
};

const KEY: &str = "sk-very-secret-key";
const SECRET: &str = "secret upstream words";
/// Of paused time, which no machine is too slow for.
const SHORT: Duration = Duration::from_millis(300);

fn options(kind: ProviderKind, base_url: &str) -> ProviderOptions {
    ProviderOptions {
        base_url: Some(base_url.to_owned()),
        api_key: Some(KEY.into()),
        ..ProviderOptions::new("main", kind)
    }
}

fn openai(base_url: &str) -> ProviderOptions {
    options(ProviderKind::OpenAi, base_url)
}

/// Retries without waiting.
fn quick(links: Vec<ProviderOptions>, pool: &ClientPool) -> Chain {
    let mut links = links.into_iter().map(|options| {
        let model = ModelOverride::Requested;
        ChainLink::new(upstream(options, pool).unwrap(), model)
    });
    let options =
        ChainOptions { initial_backoff: Duration::ZERO, jitter: Jitter::from_fn(|| 0.0), ..Default::default() };
    Chain::new(links.next().unwrap(), links.collect(), options)
}

fn chunk(delta: Value, finish_reason: Option<&str>) -> String {
    let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish_reason}]);
    format!("data: {}\n\n", json!({"object": "chat.completion.chunk", "choices": choices}))
}

fn hello() -> Vec<String> {
    vec![
        chunk(json!({"role": "assistant", "content": "Hel"}), None),
        chunk(json!({"content": "lo"}), None),
        chunk(json!({}), Some("stop")),
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n".to_owned(),
        "data: [DONE]\n\n".to_owned(),
    ]
}

fn failing(status: u16) -> Script {
    Script::Status(status, vec![("retry-after", "0")], json!({"error": {"message": SECRET, "type": KEY}}).to_string())
}

fn said(text: &str) -> Result<ModelEvent, ModelError> {
    Ok(ModelEvent::Text(text.to_owned()))
}

fn answering() -> Result<ModelEvent, ModelError> {
    Ok(ModelEvent::ModelSelected { provider: "main".into(), model: "test-model".into() })
}

fn whole_hello() -> Vec<Result<ModelEvent, ModelError>> {
    vec![
        answering(),
        said("Hel"),
        said("lo"),
        Ok(ModelEvent::Usage(TokenCount { input: 3, output: 2 })),
        Ok(ModelEvent::Stop(StopReason::EndOfTurn)),
    ]
}

async fn ask(provider: &dyn ModelProvider) -> Result<Vec<Result<ModelEvent, ModelError>>, ModelError> {
    let stream = provider.stream(request(vec![ModelMessage::user("hello")]), CancellationToken::new()).await?;
    Ok(stream.collect().await)
}

#[tokio::test]
async fn an_openai_call() {
    let stub = Stub::start([Script::Events(hello())]).await;
    let provider = build(openai(&stub.url()), &ClientPool::new()).unwrap();
    assert_eq!(ask(provider.as_ref()).await, Ok(whole_hello()));
    let [received] = stub.received().try_into().unwrap();
    assert_eq!(received.path, "/v1/chat/completions");
    assert_eq!(received.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(received.headers["content-type"], "application/json");
    let body: Value = serde_json::from_str(&received.body).unwrap();
    assert_eq!(body["messages"], json!([{"role": "user", "content": "hello"}]));
}

#[tokio::test]
async fn an_anthropic_call() {
    let events = include_str!("../anthropic/golden/text.sse");
    let stub = Stub::start([Script::Events(vec![events.to_owned()])]).await;
    let base_url = format!("{}/v1/", stub.url());
    let provider = build(options(ProviderKind::Anthropic, &base_url), &ClientPool::new()).unwrap();
    let said = ask(provider.as_ref()).await.unwrap();
    assert_eq!((said.len(), said.last()), (7, Some(&Ok(ModelEvent::Stop(StopReason::EndOfTurn)))));
    let [received] = stub.received().try_into().unwrap();
    assert_eq!(received.path, "/v1/messages");
    assert_eq!(received.headers["x-api-key"], KEY);
    assert_eq!(received.headers["anthropic-version"], "2023-06-01");
    assert!(!received.headers.contains_key("authorization"));
}

#[tokio::test]
async fn without_a_key_none_is_sent() {
    let stub = Stub::start([Script::Events(hello())]).await;
    let keyless = ProviderOptions { api_key: None, ..openai(&stub.url()) };
    assert_eq!(ask(build(keyless, &ClientPool::new()).unwrap().as_ref()).await, Ok(whole_hello()));
    assert!(!stub.received()[0].headers.contains_key("authorization"));
}

#[tokio::test]
async fn too_many_requests_then_an_answer() {
    let stub = Stub::start([failing(429), failing(503), Script::Events(hello())]).await;
    assert_eq!(ask(&quick(vec![openai(&stub.url())], &ClientPool::new())).await, Ok(whole_hello()));
    assert_eq!(stub.received().len(), 3);
}

#[tokio::test]
async fn a_failing_provider_then_its_fallback() {
    let one = Stub::start([failing(500), failing(500)]).await;
    let two = Stub::start([Script::Events(hello())]).await;
    let chain = quick(vec![openai(&one.url()), openai(&two.url())], &ClientPool::new());
    assert_eq!(ask(&chain).await, Ok(whole_hello()));
    assert_eq!((one.received().len(), two.received().len()), (2, 1));
    assert_eq!(one.received()[0].body, two.received()[0].body);
}

#[tokio::test]
async fn an_unreachable_provider_then_its_fallback() {
    let two = Stub::start([Script::Events(hello())]).await;
    let chain = quick(vec![openai("http://127.0.0.1:9"), openai(&two.url())], &ClientPool::new());
    assert_eq!(ask(&chain).await, Ok(whole_hello()));
}

#[tokio::test]
async fn failures_in_words_anybody_may_read() {
    for (status, expected) in [
        (400, ModelError::Rejected("400 Bad Request".to_owned())),
        (401, ModelError::Rejected("401 Unauthorized".to_owned())),
        (429, ModelError::RateLimited("429 Too Many Requests".to_owned())),
        (500, ModelError::Unavailable("500 Internal Server Error".to_owned())),
    ] {
        let stub = Stub::start((0..4).map(|_| failing(status))).await;
        assert_eq!(ask(&quick(vec![openai(&stub.url())], &ClientPool::new())).await, Err(expected));
    }
}

#[tokio::test]
async fn connection_failures_name_the_host_only() {
    let secret_url = "http://user:password@127.0.0.1:9/v1";
    let refused = ModelError::Unavailable("connection refused (127.0.0.1:9)".to_owned());
    assert_eq!(ask(&quick(vec![openai(secret_url)], &ClientPool::new())).await, Err(refused));

    // What exactly is wrong with a name that does not exist is the resolver's business.
    let unresolvable = quick(vec![openai("http://user:password@no-such-host.invalid/v1")], &ClientPool::new());
    let failed = ask(&unresolvable).await.unwrap_err().to_string();
    assert!(failed.ends_with(" (no-such-host.invalid)") && !failed.contains("password"), "{failed}");
}

#[tokio::test]
async fn a_server_without_tls_is_a_failed_handshake() {
    let stub = Stub::start([]).await;
    let chain = quick(vec![openai(&format!("https://{}", stub.host()))], &ClientPool::new());
    let expected = ModelError::Unavailable(format!("TLS handshake failed ({})", stub.host()));
    assert_eq!(ask(&chain).await, Err(expected));
}

#[tokio::test]
async fn neither_options_nor_providers_show_the_key() {
    let stub = Stub::start([]).await;
    let options = openai(&stub.url());
    let provider = build(options.clone(), &ClientPool::new()).unwrap();
    let shown = format!("{options:?} {provider:?}");
    assert!(shown.contains("main") && !shown.contains(KEY), "{shown}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Stub::start([Script::Events(hello())]).await;
    let redirect = Script::Status(307, vec![("location", "http://127.0.0.1:9/")], String::new());
    let stub = Stub::start([redirect]).await;
    let expected = ModelError::Rejected("307 Temporary Redirect: redirects are not followed".to_owned());
    assert_eq!(ask(&quick(vec![openai(&stub.url())], &ClientPool::new())).await, Err(expected));
    assert!(elsewhere.received().is_empty());
}

#[tokio::test]
async fn a_page_is_no_event_stream() {
    let page = Script::Status(200, vec![("content-type", "text/html; charset=utf-8")], SECRET.to_owned());
    let stub = Stub::start([page]).await;
    let expected = ModelError::Rejected("provider answered with `text/html` instead of an event stream".to_owned());
    assert_eq!(ask(&quick(vec![openai(&stub.url())], &ClientPool::new())).await, Err(expected));
}

#[tokio::test]
async fn an_error_in_mid_stream_is_told_and_not_retried() {
    let error = format!("data: {}\n\n", json!({"error": {"type": "server_error", "message": SECRET}}));
    let stub = Stub::start([Script::Events(vec![hello()[0].clone(), error])]).await;
    let expected =
        vec![answering(), said("Hel"), Err(ModelError::Unavailable("provider reported server_error".to_owned()))];
    assert_eq!(ask(&quick(vec![openai(&stub.url())], &ClientPool::new())).await, Ok(expected));
    assert_eq!(stub.received().len(), 1);
}

#[tokio::test]
async fn an_error_before_the_first_word_is_retried() {
    let error = format!("data: {}\n\n", json!({"error": {"type": "server_error", "message": SECRET}}));
    let stub = Stub::start([Script::Events(vec![error]), Script::Events(hello())]).await;
    assert_eq!(ask(&quick(vec![openai(&stub.url())], &ClientPool::new())).await, Ok(whole_hello()));
}

#[tokio::test]
async fn a_cut_stream_is_told() {
    let truncated = ModelError::Truncated("provider stream ended before the answer was complete".to_owned());
    for cut in [
        Script::EventsThen(vec![hello()[0].clone()], Then::Cut),
        Script::Events(vec![hello()[0].clone()]),
        Script::Events(vec![hello()[0].clone(), "data: {\"choi".to_owned()]),
    ] {
        let stub = Stub::start([cut]).await;
        let provider = build(openai(&stub.url()), &ClientPool::new()).unwrap();
        assert_eq!(ask(provider.as_ref()).await, Ok(vec![answering(), said("Hel"), Err(truncated.clone())]));
    }
}

#[tokio::test]
async fn a_connection_closed_without_an_answer_is_tried_again() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let chain = quick(vec![openai(&format!("http://{}", listener.local_addr().unwrap()))], &ClientPool::new());
    let serving = async {
        let (mut first, _) = listener.accept().await.unwrap();
        first.read_exact(&mut [0; 64]).await.unwrap();
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        second.read_exact(&mut [0; 64]).await.unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", hello().concat());
        second.write_all(answer.as_bytes()).await.unwrap();
        second.shutdown().await.unwrap();
        // Waits for the client to disconnect: closing earlier would discard what it has not read.
        tokio::io::copy(&mut second, &mut tokio::io::sink()).await.unwrap();
    };
    let (asked, ()) = tokio::join!(ask(&chain), serving);
    assert_eq!(asked, Ok(whole_hello()));
}

/// Lets time pass once what was asked has arrived.
async fn outwait(stub: &Stub) {
    while stub.received().is_empty() {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(SHORT + Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn silence_in_mid_stream_ends_the_call() {
    let still = Still::begin();
    let stub = Stub::start([Script::EventsThen(vec![hello()[0].clone()], Then::Silence)]).await;
    let options = ProviderOptions { idle_timeout: SHORT, ..openai(&stub.url()) };
    let chain = quick(vec![options], &ClientPool::new());
    let asked = chain.stream(request(vec![ModelMessage::user("hello")]), CancellationToken::new()).await;
    let mut stream = asked.unwrap();
    assert_eq!(stream.next().await, Some(answering()));
    assert_eq!(stream.next().await, Some(said("Hel")));
    // There is nothing more to wait for than the end of the time.
    drop(still);
    let idle = ModelError::Timeout("provider stream idle timeout after 300ms".to_owned());
    assert_eq!(stream.next().await, Some(Err(idle)));
    assert_eq!(stream.next().await, None);
    stub.abandoned(1).await;
}

#[tokio::test(start_paused = true)]
async fn silence_after_a_whole_answer_does_not_spoil_it() {
    let still = Still::begin();
    let stub = Stub::start([Script::EventsThen(hello()[..4].to_vec(), Then::Silence)]).await;
    let options = ProviderOptions { idle_timeout: SHORT, ..openai(&stub.url()) };
    let chain = quick(vec![options], &ClientPool::new());
    let asked = chain.stream(request(vec![ModelMessage::user("hello")]), CancellationToken::new()).await;
    let mut stream = asked.unwrap();
    let mut heard = Vec::new();
    while heard.last() != Some(&said("lo")) {
        heard.push(stream.next().await.unwrap());
    }
    // The rest has come together with it.
    drop(still);
    heard.extend(stream.collect::<Vec<_>>().await);
    assert_eq!(heard, whole_hello());
}

#[tokio::test(start_paused = true)]
async fn silence_instead_of_an_answer_ends_the_call() {
    let _still = Still::begin();
    let stub = Stub::start([Script::Silence]).await;
    let options = ProviderOptions { response_timeout: SHORT, ..openai(&stub.url()) };
    let expected = ModelError::Timeout("provider request timed out".to_owned());
    let chain = quick(vec![options], &ClientPool::new());
    let (asked, ()) = tokio::join!(ask(&chain), outwait(&stub));
    assert_eq!(asked, Err(expected));
    stub.abandoned(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_then_its_fallback() {
    let _still = Still::begin();
    let one = Stub::start([Script::Silence]).await;
    let two = Stub::start([Script::Events(hello())]).await;
    let silent = ProviderOptions { response_timeout: SHORT, ..openai(&one.url()) };
    let chain = quick(vec![silent, openai(&two.url())], &ClientPool::new());
    let (asked, ()) = tokio::join!(ask(&chain), outwait(&one));
    assert_eq!(asked, Ok(whole_hello()));
    assert_eq!(one.received().len(), 1);
}

#[tokio::test]
async fn cancelling_closes_the_connection_upstream() {
    let stub = Stub::start([Script::EventsThen(vec![hello()[0].clone()], Then::Silence), Script::Silence]).await;
    let provider = build(openai(&stub.url()), &ClientPool::new()).unwrap();

    let stop = CancellationToken::new();
    let mut stream = provider.stream(request(vec![ModelMessage::user("hello")]), stop.clone()).await.unwrap();
    assert_eq!(stream.next().await, Some(answering()));
    assert_eq!(stream.next().await, Some(said("Hel")));
    stop.cancel();
    assert_eq!(stream.next().await, Some(Err(ModelError::Cancelled)));
    assert_eq!(stream.next().await, None);
    stub.abandoned(1).await;

    let stop = CancellationToken::new();
    let asking = provider.stream(request(vec![ModelMessage::user("hello")]), stop.clone());
    let cancelling = async {
        while stub.received().len() < 2 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (asked, ()) = tokio::join!(asking, cancelling);
    assert_eq!(asked.err(), Some(ModelError::Cancelled));
    stub.abandoned(2).await;
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection_upstream() {
    let stub = Stub::start([Script::EventsThen(vec![hello()[0].clone()], Then::Silence)]).await;
    let provider = build(openai(&stub.url()), &ClientPool::new()).unwrap();
    let stream = provider.stream(request(vec![ModelMessage::user("hello")]), CancellationToken::new()).await.unwrap();
    drop(stream);
    stub.abandoned(1).await;
}

#[tokio::test]
async fn connections_are_used_again() {
    let stub = Stub::start((0..5).map(|_| Script::Events(hello()))).await;
    let pool = ClientPool::new();
    for provider in [build(openai(&stub.url()), &pool).unwrap(), build(openai(&stub.url()), &pool).unwrap()] {
        for _ in 0..2 {
            let mut stream =
                provider.stream(request(vec![ModelMessage::user("hello")]), CancellationToken::new()).await.unwrap();
            // Readers stop at `Stop` and do not wait for the end of the body.
            while !matches!(stream.next().await, Some(Ok(ModelEvent::Stop(_)))) {}
            drop(stream);
            pool.close().await;
        }
    }
    let peers: Vec<_> = stub.received().iter().map(|received| received.peer).collect();
    assert_eq!(peers, vec![peers[0]; 4]);
}

#[tokio::test]
async fn nothing_of_a_long_stream_is_lost() {
    let words: Vec<String> = (0..20_000).map(|number| format!("wörd {number} ")).collect();
    let mut bytes: String = words.iter().map(|word| chunk(json!({"content": word}), None)).collect();
    bytes.push_str(&chunk(json!({}), Some("stop")));
    bytes.push_str("data: [DONE]\n\n");
    let pieces = bytes.as_bytes().chunks(1013).map(|piece| piece.to_vec()).collect::<Vec<_>>();
    // Pieces end in the middle of characters, which the stub's strings cannot.
    let stub = Stub::start([Script::Events(rejoin(pieces))]).await;
    let said = ask(build(openai(&stub.url()), &ClientPool::new()).unwrap().as_ref()).await.unwrap();
    let texts: Vec<String> = said
        .into_iter()
        .filter_map(|event| if let Ok(ModelEvent::Text(text)) = event { Some(text) } else { None })
        .collect();
    assert_eq!(texts, words);
}

/// The same bytes in pieces that are whole characters each.
fn rejoin(pieces: Vec<Vec<u8>>) -> Vec<String> {
    let mut rest = Vec::new();
    let mut whole = Vec::new();
    for piece in pieces {
        rest.extend(piece);
        let valid = String::from_utf8_lossy(&rest).trim_end_matches('\u{fffd}').len();
        let later = rest.split_off(valid);
        whole.push(String::from_utf8(std::mem::replace(&mut rest, later)).unwrap());
    }
    whole
}

#[tokio::test]
async fn models_are_listed() {
    let list = json!({"object": "list", "data": [{"id": "b", "display_name": "B"}, {"id": "a"}]}).to_string();
    let answer = || Script::Status(200, vec![("content-type", "application/json")], list.clone());
    let stub = Stub::start([answer(), answer(), failing(404)]).await;
    let stop = CancellationToken::new();
    for kind in [ProviderKind::OpenAi, ProviderKind::Anthropic] {
        let models = list_models(options(kind, &stub.url()), &ClientPool::new(), &stop).await;
        let listed = |id: &str, name: Option<&str>| ListedModel { id: id.into(), name: name.map(Into::into) };
        assert_eq!(models, Ok(vec![listed("b", Some("B")), listed("a", None)]));
    }
    assert!(list_models(openai(&stub.url()), &ClientPool::new(), &stop).await.is_err());
    let received = stub.received();
    assert_eq!(received[0].path, "/v1/models");
    assert_eq!(received[1].path, "/v1/models?limit=1000");
    assert_eq!(received[1].headers["x-api-key"], KEY);
}

#[tokio::test]
async fn texts_are_embedded_in_batches() {
    let vectors = |count: usize| {
        let data: Vec<Value> =
            (0..count).rev().map(|index| json!({"index": index, "embedding": [index, 0.5]})).collect();
        Script::Status(200, vec![], json!({"data": data}).to_string())
    };
    let stub = Stub::start([vectors(64), vectors(1)]).await;
    let embedder = embedder(openai(&stub.url()), "small", &ClientPool::new()).unwrap();
    assert_eq!(embedder.space(), "small");
    let texts: Vec<String> = (0..65).map(|number| format!("text {number}")).collect();
    let vectors = embedder.embed(texts, CancellationToken::new()).await.unwrap();
    assert_eq!((vectors.len(), &vectors[63], &vectors[64]), (65, &vec![63.0, 0.5], &vec![0.0, 0.5]));
    let received = stub.received();
    assert_eq!(received[1].path, "/v1/embeddings");
    let body: Value = serde_json::from_str(&received[1].body).unwrap();
    assert_eq!(body, json!({"model": "small", "input": ["text 64"], "encoding_format": "float"}));
}

#[tokio::test]
async fn a_failing_embedder_says_why() {
    let stub = Stub::start([failing(500), Script::Status(200, vec![], SECRET.to_owned())]).await;
    let embedder = embedder(openai(&stub.url()), "small", &ClientPool::new()).unwrap();
    for expected in ["500 Internal Server Error", "provider answered with something unreadable"] {
        let failed = embedder.embed(vec!["text".to_owned()], CancellationToken::new()).await;
        assert_eq!(failed, Err(ModelError::Unavailable(expected.to_owned())));
    }
}

#[tokio::test]
async fn a_request_without_any_model_is_not_sent() {
    let stub = Stub::start([]).await;
    let provider = build(openai(&stub.url()), &ClientPool::new()).unwrap();
    let request =
        patchboard_core::model::ModelRequest { model: "".into(), ..request(vec![ModelMessage::user("hello")]) };
    let asked = provider.stream(request, CancellationToken::new()).await;
    let expected = ModelError::NotConfigured("no model named for provider 'main'. Set `model`".to_owned());
    assert_eq!(asked.err(), Some(expected));
    assert!(stub.received().is_empty());
}
