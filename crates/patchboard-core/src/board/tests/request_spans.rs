//! Spans of requests: which commands have one, and how it is marked when the request is refused.

use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use super::*;
use crate::command::DescribeServer;
use crate::trace::{field, name};

/// Records each request's name and, if it failed, its error.
#[derive(Default)]
struct SpanRecorder(Mutex<Vec<SpanFields>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SpanFields {
    request: String,
    error: Option<String>,
}

impl Visit for SpanFields {
    fn record_str(&mut self, recorded: &Field, value: &str) {
        match recorded.name() {
            field::REQUEST_NAME => self.request = value.to_owned(),
            field::ERROR => self.error = Some(value.to_owned()),
            _ => {}
        }
    }

    fn record_debug(&mut self, _recorded: &Field, _value: &dyn fmt::Debug) {}
}

impl Subscriber for SpanRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == name::REQUEST
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = self.0.lock().unwrap();
        let mut fields = SpanFields::default();
        span.record(&mut fields);
        spans.push(fields);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let place = usize::try_from(span.into_u64()).unwrap() - 1;
        values.record(&mut self.0.lock().unwrap()[place]);
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, _event: &tracing::Event<'_>) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_has_a_span_that_says_why() {
    let recorder = Arc::new(SpanRecorder::default());
    let _subscriber = tracing::subscriber::set_default(recorder.clone());
    let bench = bench([]);
    let without_grants = Caller { grants: GrantSet::NONE, ..caller(1) };
    bench.start("alice", "hi").await;
    bench.ask(&without_grants, start("alice", "hi")).await.unwrap_err();
    bench.ask(&stranger(), start("alice", "hi")).await.unwrap_err();
    bench.ask(&caller(1), DescribeServer).await.unwrap_err();
    bench.board.drain(Duration::from_secs(1)).await.unwrap();
    bench.ask(&caller(1), start("alice", "hi")).await.unwrap_err();
    let spans = recorder.0.lock().unwrap();
    assert!(spans.iter().all(|span| span.request == "start_run"), "{spans:?}");
    let errors: Vec<Option<&str>> = spans.iter().map(|span| span.error.as_deref()).collect();
    assert_eq!(errors, [None, Some("forbidden"), Some("forbidden"), Some("unavailable")]);
}
