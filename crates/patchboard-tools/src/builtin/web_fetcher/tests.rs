use std::sync::Mutex;

use futures_util::FutureExt;
use patchboard_core::id::{MemoryOwner, SessionKey};
use patchboard_core::port::ProgressSink;
use patchboard_core::port::{FetchError, SchemaValidator};

use super::*;
use crate::JsonSchemaCheck;
use patchboard_http::GuardedFetch;
use patchboard_testkit::http_stub::{Answer, Stub};

/// Keeps what it was asked for and answers what it was given.
#[derive(Debug)]
struct Canned {
    answer: Result<FetchResponse, FetchError>,
    asked: Mutex<Vec<FetchRequest>>,
}

impl HttpFetcher for Canned {
    fn fetch(
        &self,
        request: FetchRequest,
        _stop: CancellationToken,
    ) -> BoxFuture<'_, Result<FetchResponse, FetchError>> {
        self.asked.lock().unwrap().push(request);
        Box::pin(async { self.answer.clone() })
    }
}

pub(crate) fn scope() -> ToolScope {
    ToolScope {
        session: SessionKey::conversation("a", "b", "c", "d"),
        owner: MemoryOwner::account("a", "b"),
        folder: None,
        folder_grant: None,
        progress: ProgressSink::default(),
        call_metadata: None,
    }
}

fn fetched(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> FetchResponse {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    FetchResponse {
        status,
        url: "http://a.example/".to_owned(),
        headers,
        body: body.as_ref().to_vec(),
        is_truncated: false,
    }
}

/// What the tool asks for, and what it makes of the answer.
fn run(arguments: Value, answer: Result<FetchResponse, FetchError>) -> (Option<FetchRequest>, ToolOutput) {
    let canned = Arc::new(Canned { answer, asked: Mutex::default() });
    let tool = WebFetcherTool { fetch: canned.clone() };
    let output = tool.run(&scope(), &arguments, CancellationToken::new()).now_or_never().unwrap();
    (canned.asked.lock().unwrap().pop(), output)
}

#[test]
fn arguments() {
    let spec = WebFetcherTool { fetch: Arc::new(GuardedFetch::new(vec![])) }.spec();
    assert_eq!((spec.effect, spec.unknown_outcome), (ToolEffect::Writes, UnknownOutcomePolicy::Ask));
    for (arguments, fits) in [
        (json!({"url": "http://a.example"}), true),
        (json!({"url": "http://a.example", "method": "POST", "body": [1], "headers": {"a": "b"}}), true),
        (json!({"url": "http://a.example", "body": null}), true),
        (json!({}), false),
        (json!({"url": ""}), false),
        (json!({"url": "http://a.example", "method": "DELETE"}), false),
        (json!({"url": "http://a.example", "headers": {"a": 1}}), false),
        (json!({"url": "http://a.example", "timeout": 1}), false),
    ] {
        let checked = JsonSchemaCheck::default().check(&spec.input_schema, &arguments);
        assert_eq!(checked.is_ok(), fits, "{arguments}: {checked:?}");
    }
}

#[test]
fn requests() {
    let check = |arguments: Value, method: &str, headers: &[(&str, &str)], body: Option<&str>| {
        let expected = FetchRequest {
            method: method.to_owned(),
            url: "http://a.example".to_owned(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: body.map(|body| body.as_bytes().to_vec()),
            timeout: TIMEOUT,
            max_bytes: MAX_PAGE_BYTES,
            only_hosts: None,
        };
        assert_eq!(run(arguments, Err(FetchError::Cancelled)).0, Some(expected));
    };
    let url = "http://a.example";
    check(json!({"url": url}), "GET", &[], None);
    check(json!({"url": url, "headers": {"X-A": "b"}, "body": null}), "GET", &[("X-A", "b")], None);
    let plain = ("content-type", "text/plain; charset=utf-8");
    check(json!({"url": url, "method": "POST", "body": "a \"b\""}), "POST", &[plain], Some("a \"b\""));
    let json = ("content-type", "application/json");
    check(json!({"url": url, "method": "POST", "body": {"a": [1]}}), "POST", &[json], Some("{\"a\":[1]}"));
    check(json!({"url": url, "method": "POST", "body": 7}), "POST", &[json], Some("7"));
    check(json!({"url": url, "method": "POST"}), "POST", &[], None);
    let own = ("Content-Type", "application/x-ndjson");
    let arguments = json!({"url": url, "method": "POST", "body": "{}", "headers": {"Content-Type": own.1}});
    check(arguments, "POST", &[own], Some("{}"));
    let (asked, output) = run(json!({"url": url, "body": "a"}), Err(FetchError::Cancelled));
    assert_eq!((asked, output), (None, ToolOutput::error("a `body` is sent only with the `method` POST")));
}

#[test]
fn answers() {
    let html = ("content-type", "text/html; charset=utf-8");
    let latin = ("content-type", "text/html; charset=ISO-8859-1");
    let none: (&str, &str) = ("x-nothing", "");
    let compressed = ("content-encoding", "gzip");
    for (status, headers, body, expected) in [
        (200, vec![html], "<title>Hi</title><p>Grüezi</p>".as_bytes(), ToolOutput::ok("Title: Hi\n\nGrüezi")),
        (200, vec![none], b"\xef\xbb\xbfplain", ToolOutput::ok("plain")),
        (200, vec![], b" <!DOCTYPE HTML><h1>a</h1>", ToolOutput::ok("# a")),
        (200, vec![], b"<p>a", ToolOutput::ok("<p>a")),
        (200, vec![html], b"<script>x</script>", ToolOutput::ok("[the page holds no text without its scripts]")),
        (200, vec![("content-type", "text/plain")], b"<html> <b>x", ToolOutput::ok("<html> <b>x")),
        (200, vec![("content-type", "application/json")], b"{\"a\":  \"<b>\"}", ToolOutput::ok("{\"a\":  \"<b>\"}")),
        (200, vec![("content-type", "text/markdown")], b"# a\n\n\n<br>", ToolOutput::ok("# a\n\n\n<br>")),
        (200, vec![("Content-Type", "application/XHTML+XML; x=y")], b"<p>a<br/>b</p>", ToolOutput::ok("a\nb")),
        (200, vec![latin], b"Gr\xfcezi", ToolOutput::ok("Grüezi")),
        (200, vec![html], b"Gr\xfcezi", ToolOutput::ok("Gr\u{fffd}ezi")),
        (204, vec![html], b"", ToolOutput::ok("The answer has status 204 and no body.")),
        (
            200,
            vec![("Content-Type", "image/png")],
            b"\x89PNG\0",
            ToolOutput::error("the answer is not text: it holds NUL bytes (image/png, 5 bytes)"),
        ),
        (
            200,
            vec![none],
            b"\xff\xfe",
            ToolOutput::error("the answer is not text: it is not UTF-8 (no content type, 2 bytes)"),
        ),
        (
            200,
            vec![html, compressed],
            b"\x1f\x8b",
            ToolOutput::error("the answer is not text: it is compressed (text/html; charset=utf-8, 2 bytes)"),
        ),
        (
            404,
            vec![html],
            b" <h1>no\r\n\x1b such</h1> ",
            ToolOutput::error("the server answered 404 Not Found: <h1>no \\u{1b} such</h1>"),
        ),
        (599, vec![html], b"", ToolOutput::error("the server answered 599")),
        (500, vec![html], b"\0", ToolOutput::error("the server answered 500 Internal Server Error")),
        (304, vec![html], b"", ToolOutput::error("the server answered 304 Not Modified")),
    ] {
        let (_, output) = run(json!({"url": "http://a.example"}), Ok(fetched(status, &headers, body)));
        assert_eq!(output, expected);
    }
}

#[test]
fn long_answers() {
    let cut = FetchResponse { is_truncated: true, ..fetched(200, &[], b"ab\xc3") };
    let (_, output) = run(json!({"url": "http://a.example"}), Ok(cut));
    assert_eq!(output, ToolOutput::ok("ab\n\n[cut: only the first 3 bytes were read]"));
    let (_, output) = run(json!({"url": "http://a.example"}), Ok(fetched(500, &[], "é".repeat(1000))));
    assert_eq!(output.content.len(), "the server answered 500 Internal Server Error: ".len() + 500 + "…".len());
}

#[test]
fn failures_are_told() {
    let (_, output) = run(json!({"url": "http://a.example"}), Err(FetchError::Refused("no".to_owned())));
    assert_eq!(output, ToolOutput::error("no"));
}

#[tokio::test]
async fn over_a_socket() {
    let stub =
        Stub::start([Answer::with("200 OK", "text/html", "<p>hello</p>"), Answer::ok(&"x".repeat(600 * 1024))]).await;
    let allowed = format!("127.0.0.1:{}", stub.port()).parse().unwrap();
    let tool = WebFetcherTool { fetch: Arc::new(GuardedFetch::new(vec![allowed])) };
    let arguments = json!({
        "url": format!("http://127.0.0.1:{}/form", stub.port()),
        "method": "POST",
        "body": {"a": "é"},
        "headers": {"X-Key": "v"}
    });
    let output = tool.run(&scope(), &arguments, CancellationToken::new()).await;
    assert_eq!(output, ToolOutput::ok("hello"));
    let received = &stub.received()[0];
    assert!(
        received.starts_with("POST /form HTTP/1.1\r\n") && received.ends_with("\r\n\r\n{\"a\":\"é\"}"),
        "{received}"
    );
    for header in ["x-key: v", "content-type: application/json"] {
        assert!(received.contains(&format!("\r\n{header}\r\n")), "{received}");
    }
    let output = tool.run(&scope(), &arguments, CancellationToken::new()).await;
    assert!(output.content.ends_with("x\n\n[cut: only the first 524288 bytes were read]"));
    let closed = WebFetcherTool { fetch: Arc::new(GuardedFetch::new(vec![])) };
    let output = closed.run(&scope(), &arguments, CancellationToken::new()).await;
    assert!(output.is_error && output.content.contains("a loopback address"), "{output:?}");
}
