use std::borrow::Cow;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use patchboard_core::backoff::BackoffSchedule;
use patchboard_http::PostAddress;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::fmt::MakeWriter;

use super::collector::{Collector, OK};
use crate::telemetry::Redactor;
use crate::telemetry::otlp::export::ExportTiming;
use crate::telemetry::otlp::queue::QUEUE_CAPACITY;
use crate::telemetry::otlp::wire::Resource;
use crate::telemetry::otlp::{FinishedSpan, IdSource, SpanExporter, SpanQueue, TraceSpanKind};

fn span(name: &str) -> FinishedSpan {
    FinishedSpan {
        trace: [1; 16],
        span: [2; 8],
        parent: None,
        name: Cow::Owned(name.to_owned()),
        kind: TraceSpanKind::Internal,
        start: Timestamp::UNIX_EPOCH,
        end: Timestamp::UNIX_EPOCH,
        attributes: Vec::new(),
        error: None,
    }
}

/// No time is lost between attempts, and none passes before a batch leaves.
fn hurry() -> ExportTiming {
    ExportTiming {
        batch_window: Duration::ZERO,
        attempt_timeout: Duration::from_secs(60),
        backoff: BackoffSchedule::doubling(Duration::ZERO, Duration::ZERO).with_max_retries(2),
        shutdown_timeout: Duration::from_secs(60),
    }
}

fn exporter(url: &str, pace: ExportTiming) -> (SpanQueue, SpanExporter) {
    let (spans, finished) = SpanQueue::new(IdSource::starting_at(1));
    let resource = Resource { service: "test".to_owned(), version: "1", instance: "one".to_owned() };
    let address = PostAddress::below(url, "/v1/traces").unwrap();
    (spans, SpanExporter::new(finished, address, resource, Arc::new(Redactor::default()), pace))
}

/// Sends `count` spans named by their number; ends when all of them are dealt with.
async fn send(collector: &Collector, count: usize) {
    let (spans, exporter) = exporter(&collector.url(), hurry());
    for number in 0..count {
        spans.push(span(&number.to_string()));
    }
    drop(spans);
    exporter.run(CancellationToken::new()).await;
}

/// What of these metrics was counted.
fn counted(recorder: &PrometheusRecorder) -> Vec<String> {
    let text = recorder.handle().render();
    let mut lines: Vec<String> = text.lines().filter(|line| line.contains("trace_spans")).map(str::to_owned).collect();
    lines.retain(|line| !line.starts_with('#'));
    lines.sort();
    lines
}

#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Lines {
    /// Without the line every exporter begins with, and without addresses.
    fn after_the_first(&self, url: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let host = url.strip_prefix("http://").unwrap();
        text.lines().skip(1).map(|line| line.trim().replace(host, "HOST")).collect()
    }
}

#[tokio::test]
async fn a_batch_goes_where_collectors_listen() {
    let collector = Collector::start([]).await;
    send(&collector, 3).await;
    assert_eq!(collector.names(), [["0", "1", "2"]]);
    let [received] = collector.received().try_into().unwrap();
    assert!(received.head.starts_with("post /v1/traces http/1.1\r\n"), "{}", received.head);
    assert!(received.head.contains("content-type: application/json\r\n"), "{}", received.head);
}

#[tokio::test]
async fn answers_and_what_follows_from_them() {
    let sent = |count: u32| format!("patchboard_trace_spans_sent_total {count}");
    let lost = |count: u32| format!("patchboard_trace_spans_dropped_total{{reason=\"refused\"}} {count}");
    let unwell =
        |problem: &str| format!("WARN traces cannot be sent; they are dropped until they can problem=\"{problem}\"");
    let well = || "INFO traces are sent again".to_owned();
    /// Answers, how many requests they lead to, what is counted and what is logged.
    type Case = (&'static [&'static str], usize, Vec<String>, Vec<String>);
    let cases: [Case; 8] = [
        (&[OK], 1, vec![sent(2)], vec![]),
        (&["503 busy {}", OK], 2, vec![sent(2)], vec![unwell("HOST answered 503"), well()]),
        (&["429 slow {}", "429 slow {}", OK], 3, vec![sent(2)], vec![unwell("HOST answered 429"), well()]),
        (&["503 busy {}"; 3], 3, vec![lost(2)], vec![unwell("HOST answered 503")]),
        (
            &["503 busy {}", "502 busy {}", OK],
            3,
            vec![sent(2)],
            vec![unwell("HOST answered 503"), unwell("HOST answered 502"), well()],
        ),
        (&["400 no {}"], 1, vec![lost(2)], vec![unwell("HOST answered 400")]),
        (
            &["200 OK {\"partialSuccess\":{\"rejectedSpans\":\"1\"}}"],
            1,
            vec![lost(1), sent(1)],
            vec![unwell("HOST rejected some spans")],
        ),
        (
            &["200 OK {\"partialSuccess\":{\"rejectedSpans\":99}}"],
            1,
            vec![lost(2), sent(0)],
            vec![unwell("HOST rejected some spans")],
        ),
    ];
    for (answers, requests, metrics, logged) in cases {
        let recorder = PrometheusBuilder::new().build_recorder();
        let lines = Lines::default();
        let logs = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).without_time();
        let _metrics = metrics::set_default_local_recorder(&recorder);
        let _logs = tracing::subscriber::set_default(logs.with_target(false).finish());
        let collector = Collector::start(answers.iter().copied()).await;
        send(&collector, 2).await;
        assert_eq!(collector.names(), vec![["0", "1"]; requests], "{answers:?}");
        assert_eq!(counted(&recorder), metrics, "{answers:?}");
        assert_eq!(lines.after_the_first(&collector.url()), logged, "{answers:?}");
    }
}

#[tokio::test]
async fn what_finds_no_place_is_dropped_and_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let collector = Collector::start([]).await;
    send(&collector, QUEUE_CAPACITY + 10).await;
    let sizes: Vec<usize> = collector.names().iter().map(Vec::len).collect();
    assert_eq!(sizes, [512; 4]);
    assert_eq!(
        counted(&recorder),
        [
            "patchboard_trace_spans_dropped_total{reason=\"full\"} 10".to_owned(),
            format!("patchboard_trace_spans_sent_total {QUEUE_CAPACITY}"),
        ]
    );
}

#[tokio::test]
async fn what_is_left_at_the_end_is_sent_at_once() {
    let collector = Collector::start([]).await;
    let patient = ExportTiming { batch_window: Duration::from_secs(3600), ..hurry() };
    let (spans, exporter) = exporter(&collector.url(), patient);
    let stop = CancellationToken::new();
    spans.push(span("a"));
    spans.push(span("b"));
    let stopping = async {
        // It has taken what was there by the time this is polled, and gathers more.
        spans.push(span("c"));
        stop.cancel();
    };
    tokio::join!(exporter.run(stop.clone()), stopping);
    let mut names = collector.names().concat();
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_batch_that_was_being_tried_is_tried_once_more_at_the_end() {
    let collector = Collector::start(["503 busy {}"]).await;
    let hour = Duration::from_secs(3600);
    let patient = ExportTiming { backoff: BackoffSchedule::doubling(hour, hour).with_max_retries(1), ..hurry() };
    let (spans, exporter) = exporter(&collector.url(), patient);
    let stop = CancellationToken::new();
    spans.push(span("a"));
    let stopping = async {
        while collector.received().is_empty() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    tokio::join!(exporter.run(stop.clone()), stopping);
    assert_eq!(collector.names(), [["a"], ["a"]]);
}

#[tokio::test]
async fn nobody_there_costs_the_end_nothing() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    // Bound, so that no other process gets the port, but not listened on.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    let (spans, exporter) = exporter(&url, hurry());
    let stop = CancellationToken::new();
    for number in 0..600 {
        spans.push(span(&number.to_string()));
    }
    stop.cancel();
    exporter.run(stop).await;
    assert_eq!(counted(&recorder), ["patchboard_trace_spans_dropped_total{reason=\"refused\"} 600"]);
}
