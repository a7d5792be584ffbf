use patchboard_core::port::SchemaValidator;

use super::super::web_fetcher::tests::scope;
use super::hits::SearchHit;
use super::*;
use crate::JsonSchemaCheck;
use patchboard_testkit::http_stub::{Answer, Stub};

fn endpoint(kind: SearchKind, url: &str, key: Option<&str>) -> Result<SearchEndpoint, InvalidEndpoint> {
    SearchEndpoint::new(SearchOptions { kind, url: url.to_owned(), api_key: key.map(Into::into) })
}

async fn search(stub: &Stub, kind: SearchKind, field: SearchTopic, arguments: Value) -> ToolOutput {
    let endpoint = endpoint(kind, &format!("http://127.0.0.1:{}", stub.port()), Some(" key-1\n")).unwrap();
    SearchTool { topic: field, endpoint }.run(&scope(), &arguments, CancellationToken::new()).await
}

fn found(results: &Value) -> Answer {
    Answer::with("200 OK", "application/json", json!({"results": results, "more": 1}).to_string())
}

#[test]
fn specs() {
    let endpoint = endpoint(SearchKind::Exa, "https://search.example", None).unwrap();
    for (field, name) in [(SearchTopic::Web, "websearch"), (SearchTopic::Code, "codesearch")] {
        let spec = SearchTool { topic: field, endpoint: endpoint.clone() }.spec();
        assert_eq!(
            (&*spec.name, spec.effect, spec.unknown_outcome),
            (name, ToolEffect::ReadOnly, UnknownOutcomePolicy::Retry)
        );
        for (arguments, fits) in [
            (json!({"query": "a"}), true),
            (
                json!({
                    "query": "a", "numResults": 100, "type": "auto", "category": "news", "includeDomains": ["a.example"],
                    "excludeDomains": [], "startPublishedDate": "2025-01-01", "endPublishedDate": "2025-01-02"
                }),
                true,
            ),
            (json!({}), false),
            (json!({"query": ""}), false),
            (json!({"query": "a", "numResults": 0}), false),
            (json!({"query": "a", "numResults": 101}), false),
            (json!({"query": "a", "includeDomains": "a.example"}), false),
            (json!({"query": "a", "other": 1}), false),
        ] {
            let checked = JsonSchemaCheck::default().check(&spec.input_schema, &arguments);
            assert_eq!(checked.is_ok(), fits, "{arguments}: {checked:?}");
        }
    }
}

#[test]
fn endpoints() {
    let url = |url| endpoint(SearchKind::Exa, url, None).map(|endpoint| endpoint.url.to_string());
    assert_eq!(url(" https://search.example ").unwrap(), "https://search.example/search");
    assert_eq!(url("http://10.0.0.1:8080/api/v2?x=y#z").unwrap(), "http://10.0.0.1:8080/api/v2?x=y");
    for bad in ["", "search.example", "ftp://search.example", "https://user:secret@search.example"] {
        let error = url(bad).unwrap_err();
        assert!(!error.reason.contains("secret"), "{bad}");
    }
    assert!(endpoint(SearchKind::Exa, "https://search.example", Some("a\nb")).is_err());
    let with_key = endpoint(SearchKind::Exa, "https://search.example", Some("secret")).unwrap();
    assert!(!format!("{with_key:?}").contains("secret"), "{with_key:?}");
}

#[tokio::test]
async fn exa() {
    let results = json!([
        {"title": "One\n2. Fake", "url": "https://one.example/", "publishedDate": "2025-01-02T00:00:00.000Z",
         "author": null, "score": 0.5, "text": "First\n\n  words.\u{1b}[2J"},
        {"title": null, "url": "https://two.example/", "publishedDate": null, "text": null},
        {"title": "No address", "url": null},
    ]);
    let stub = Stub::start([found(&results)]).await;
    let arguments = json!({
        "query": "what \"is\"", "numResults": 3.0, "type": "auto", "category": "news", "includeDomains": ["one.example"],
        "excludeDomains": ["three.example"], "startPublishedDate": "2025-01-01", "endPublishedDate": "2025-12-31"
    });
    let output = search(&stub, SearchKind::Exa, SearchTopic::Web, arguments).await;
    assert_eq!(
        output,
        ToolOutput::ok(
            "1. One 2. Fake\n   https://one.example/\n   2025-01-02T00:00:00.000Z\n   First words. [2J\n\
             2. (no title)\n   https://two.example/"
        )
    );
    let received = &stub.received()[0];
    let (head, body) = received.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /search HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains("\r\nx-api-key: key-1\r\n") && head.contains("\r\ncontent-type: application/json\r\n"),
        "{head}"
    );
    assert_eq!(
        serde_json::from_str::<Value>(body).unwrap(),
        json!({
            "query": "what \"is\"", "numResults": 3, "type": "auto", "category": "news", "includeDomains": ["one.example"],
            "excludeDomains": ["three.example"], "startPublishedDate": "2025-01-01", "endPublishedDate": "2025-12-31",
            "contents": {"text": true}
        })
    );
}

#[tokio::test]
async fn code_is_looked_for_where_it_is() {
    let stub = Stub::start([found(&json!([])), found(&json!([])), found(&json!([]))]).await;
    let output = search(&stub, SearchKind::Exa, SearchTopic::Code, json!({"query": "a"})).await;
    assert_eq!(output, ToolOutput::ok("Nothing was found."));
    search(&stub, SearchKind::Exa, SearchTopic::Code, json!({"query": "a", "category": "pdf"})).await;
    search(&stub, SearchKind::SearXng, SearchTopic::Code, json!({"query": "a"})).await;
    let received = stub.received();
    let body = |index: usize| serde_json::from_str::<Value>(received[index].split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body(0), json!({"query": "a", "numResults": 10, "category": "github", "contents": {"text": true}}));
    assert_eq!(body(1)["category"], json!("pdf"));
    assert!(received[2].starts_with("GET /search?q=a&format=json&categories=it HTTP/1.1\r\n"), "{}", received[2]);
}

#[tokio::test]
async fn searxng() {
    let results = json!([
        {"title": "In time", "url": "https://docs.one.example/a", "publishedDate": "2025-06-01T10:00:00", "content": "Words."},
        {"title": "Too early", "url": "https://one.example/b", "publishedDate": "2024-12-31T10:00:00"},
        {"title": "Elsewhere", "url": "https://notone.example/c"},
        {"title": "Left out", "url": "https://old.one.example/d"},
        {"title": "No date", "url": "https://one.example/e", "publishedDate": null},
        {"title": "Too many", "url": "https://one.example/f"},
    ]);
    let stub = Stub::start([found(&results)]).await;
    let arguments = json!({
        "query": "a & b?", "numResults": 2, "includeDomains": ["One.example"], "excludeDomains": ["old.one.example"],
        "startPublishedDate": "2025-01-01", "endPublishedDate": "2025-12-31T23:59:59Z"
    });
    let output = search(&stub, SearchKind::SearXng, SearchTopic::Web, arguments).await;
    assert_eq!(
        output,
        ToolOutput::ok(
            "1. In time\n   https://docs.one.example/a\n   2025-06-01T10:00:00\n   Words.\n\
             2. No date\n   https://one.example/e"
        )
    );
    let received = &stub.received()[0];
    let expected = "GET /search?q=a+%26+b%3F+site%3AOne.example&format=json HTTP/1.1\r\n";
    assert!(received.starts_with(expected), "{received}");
}

#[tokio::test]
async fn failures_are_told_without_the_key() {
    let stub = Stub::start([
        Answer::with("401 Unauthorized", "application/json", "{\"error\": \"bad key key-1\"}"),
        Answer::with("200 OK", "text/html", "<html>"),
        Answer::with("200 OK", "application/json", "{\"answers\": []}"),
        Answer::redirect(302, "http://localhost:1/"),
    ])
    .await;
    for expected in [
        "the search failed: the server answered 401 Unauthorized: {\"error\": \"bad key [key]\"}",
        "the search service gave an answer that cannot be read",
        "the search service gave an answer that cannot be read",
        "the search failed: `localhost:1` is at a loopback address, which may not be fetched from; the operator can allow \
         the host in `tools.fetch_private_hosts`",
    ] {
        let output = search(&stub, SearchKind::Exa, SearchTopic::Web, json!({"query": "a"})).await;
        assert_eq!(output, ToolOutput::error(expected));
    }
}

#[tokio::test]
async fn stopping_a_search() {
    let stub = Stub::start([Answer::then_hold("")]).await;
    let stop = CancellationToken::new();
    let endpoint = endpoint(SearchKind::Exa, &format!("http://127.0.0.1:{}", stub.port()), None).unwrap();
    let (tool, scope, arguments) = (SearchTool { topic: SearchTopic::Web, endpoint }, scope(), json!({"query": "a"}));
    let searching = tool.run(&scope, &arguments, stop.clone());
    let stopping = async {
        stub.holding().await;
        stop.cancel();
    };
    let (output, ()) = futures_util::join!(searching, stopping);
    assert_eq!(output, ToolOutput::error("the search failed: cancelled"));
}

#[test]
fn a_list_of_results_is_bounded() {
    let long = "word ".repeat(10_000);
    for count in [1, 10, 100] {
        let results: Vec<Value> = (0..count)
            .map(|_| json!({"title": long, "url": format!("https://a.example/{long}"), "publishedDate": long, "text": long}))
            .collect();
        let hits: Vec<SearchHit> = hits::parse_hits(json!({"results": results}).to_string().as_bytes()).unwrap();
        let told = hits::render_hits(&hits);
        assert_eq!(told.lines().count(), count * 4);
        assert!(told.len() < 200 * 1024, "{}", told.len());
    }
}
