//! Sinks over HTTP against a real listener, and the log line of the console.

use std::fmt;
use std::sync::{Arc, Mutex};

use patchboard_core::app::UserNotice;
use patchboard_core::port::NoticeSink;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::field::{Field, Visit};
use tracing::span;

use super::post::PostClient;
use super::*;
use patchboard_testkit::http_stub::{Answer, ClosedPort, Stub};

fn notice() -> Arc<UserNotice> {
    Arc::new(UserNotice {
        app: Some("notebook".into()),
        title: "Gesichert ✓".into(),
        body: "two\nlines".into(),
        priority: NoticePriority::High,
        message: Some("msg-00000000-0000-4000-8000-000000000001".parse().unwrap()),
        at: "2026-03-04T05:06:07Z".parse().unwrap(),
    })
}

fn hub_notice() -> Arc<UserNotice> {
    let (title, body) = ("Nobody is connected".into(), "".into());
    let at = "1970-01-01T00:00:00Z".parse().unwrap();
    Arc::new(UserNotice { app: None, title, body, priority: NoticePriority::Low, message: None, at })
}

fn post_box(port: u16, token: Option<&str>) -> PostClient {
    let mut post =
        PostClient::new(&format!("http://127.0.0.1:{port}/hooks/secret-path"), token.map(Into::into)).unwrap();
    post.without_retry_delays();
    post
}

async fn show(sink: &dyn NoticeSink, notice: Arc<UserNotice>) -> Result<(), String> {
    sink.show(notice, CancellationToken::new()).await
}

fn status(line: &str) -> Answer {
    Answer::with(line, "text/plain", "whatever")
}

#[tokio::test]
async fn webhooks_get_json() {
    let stub = Stub::start([Answer::ok(""), status("204 No Content")]).await;
    let sink = webhook::WebhookSink::at(post_box(stub.port(), Some("tk_secret")));
    show(&sink, notice()).await.unwrap();
    show(&sink, hub_notice()).await.unwrap();
    let received = stub.received();
    let [first, second] = received.as_slice() else { panic!("{received:?}") };
    assert!(first.starts_with("POST /hooks/secret-path HTTP/1.1\r\n"), "{first}");
    assert!(first.contains("\r\nauthorization: Bearer tk_secret\r\n"), "{first}");
    assert!(first.contains("\r\ncontent-type: application/json\r\n"), "{first}");
    let body = |request: &str| serde_json::from_str::<Value>(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(
        body(first),
        json!({
            "app": "notebook",
            "title": "Gesichert ✓",
            "body": "two\nlines",
            "priority": "high",
            "message": "msg-00000000-0000-4000-8000-000000000001",
            "at": "2026-03-04T05:06:07Z",
        })
    );
    assert_eq!(
        body(second),
        json!({
            "app": null,
            "title": "Nobody is connected",
            "body": "",
            "priority": "low",
            "message": null,
            "at": "1970-01-01T00:00:00Z",
        })
    );
}

#[tokio::test]
async fn ntfy_gets_text_and_headers() {
    let stub = Stub::start([Answer::ok("{}"), Answer::ok("{}")]).await;
    let options = NtfyOptions {
        server: format!("http://127.0.0.1:{}/", stub.port()),
        topic: "my_topic".to_owned(),
        token: Some("tk_secret".into()),
    };
    let sink = NtfySink::new(options).unwrap();
    show(&sink, notice()).await.unwrap();
    show(&sink, hub_notice()).await.unwrap();
    let received = stub.received();
    let check = |request: &str, headers: &[&str], body: &str| {
        let (head, sent) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /my_topic HTTP/1.1\r\n"), "{head}");
        for header in headers {
            assert!(head.lines().any(|line| line == *header), "{header} is not in {head}");
        }
        assert_eq!(sent, body);
    };
    check(
        &received[0],
        &[
            "title: =?UTF-8?B?R2VzaWNoZXJ0IOKckw==?=",
            "priority: 4",
            "tags: notebook",
            "authorization: Bearer tk_secret",
        ],
        "two\nlines",
    );
    check(&received[1], &["title: Nobody is connected", "priority: 2", "tags: patchboard"], "Nobody is connected");
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    let cases: [(Vec<&str>, usize, Result<(), String>); 6] = [
        (vec!["503 Busy", "429 Slow Down", "500 Oops", "200 OK"], 4, Ok(())),
        (vec!["503 Busy"; 4], 4, Err("`127.0.0.1` answered 503".to_owned())),
        (vec!["404 Not Found", "200 OK"], 1, Err("`127.0.0.1` answered 404".to_owned())),
        (vec!["401 Unauthorized", "200 OK"], 1, Err("`127.0.0.1` answered 401".to_owned())),
        (vec!["302 Found\r\nlocation: /elsewhere", "200 OK"], 1, Err("`127.0.0.1` answered 302".to_owned())),
        (vec!["202 Accepted"], 1, Ok(())),
    ];
    for (answers, attempts, wanted) in cases {
        let stub = Stub::start(answers.iter().map(|line| status(line))).await;
        let sink = webhook::WebhookSink::at(post_box(stub.port(), None));
        assert_eq!(show(&sink, notice()).await, wanted, "{answers:?}");
        assert_eq!(stub.received().len(), attempts, "{answers:?}");
    }
}

#[tokio::test]
async fn failures_name_the_host_and_no_secret() {
    let closed = ClosedPort::take();
    let cut = Stub::start([Answer::raw("HTTP/1.1 200 OK\r\nno header")]).await;
    for (port, begin) in
        [(closed.port(), "cannot connect to `127.0.0.1`: "), (cut.port(), "`127.0.0.1` gave no proper answer: ")]
    {
        let sink = webhook::WebhookSink::at(post_box(port, Some("tk_secret")));
        let error = show(&sink, notice()).await.unwrap_err();
        assert!(error.starts_with(begin), "{error}");
        for text in [error, format!("{sink:?}")] {
            assert!(!text.contains("secret") && !text.contains(&port.to_string()), "{text}");
        }
    }
    assert_eq!(cut.received().len(), 1, "what may have arrived is not sent again");
    for address in ["", "ftp://host/x", "not an address", "unix:/x"] {
        let error = WebhookSink::new(WebhookOptions { url: address.to_owned(), token: None }).unwrap_err();
        assert!(error.starts_with("the address "), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_stops_waits_for_no_webhook() {
    let stub = Stub::start([Answer::then_hold("")]).await;
    let sink = Arc::new(webhook::WebhookSink::at(post_box(stub.port(), None)));
    let stop = CancellationToken::new();
    let showing = TaskTracker::new().spawn({
        let (sink, stop) = (sink.clone(), stop.clone());
        async move { sink.show(notice(), stop).await }
    });
    stub.holding().await;
    stop.cancel();
    assert_eq!(showing.await.unwrap(), Err("the server stopped before `127.0.0.1` had it".to_owned()));
    stub.left().await;
}

/// Collects events as the log would see them.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl tracing::Subscriber for Listener {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn the_console_has_one_line_for_each() {
    let listener = Listener::default();
    let _listening = tracing::subscriber::set_default(listener.clone());
    show(&ConsoleSink, notice()).await.unwrap();
    show(&ConsoleSink, hub_notice()).await.unwrap();
    assert_eq!(
        *listener.0.lock().unwrap(),
        [
            r#"INFO message=notice app="notebook" priority="high" message.id=msg-00000000-0000-4000-8000-000000000001 title="Gesichert ✓" body="two\nlines""#,
            r#"INFO message=notice priority="low" title="Nobody is connected""#,
        ]
    );
}
