//! Turns telemetry events of workers into metrics and, with tracing, into the innermost span of a trace: the tool's
//! work in the worker.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use patchboard_core::bridge::{MeasuredValue, TelemetryEvent};
use patchboard_core::trace::{TraceParent, field};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::metric;
use super::otlp::{AttributeValue, FinishedSpan, SpanQueue, TraceSpanKind};

/// Known event name prefixes; others count as `other`.
const EVENT_KINDS: &[&str] = &[
    "bridge.session",
    "heartbeat.timeout",
    "pool.call",
    "pool.saturated",
    "pool.worker",
    "python.call",
    "python.cpu",
    "python.error",
    "python.exception",
    "python.gc",
    "python.memory",
    "telemetry.dropped",
    "tool.execution",
    "tool.progress",
    "tool.result_size",
    "worker.crash",
    "worker.recycled",
    "worker.restarted",
];
const OTHER_KIND: &str = "other";
/// A worker without a sample for this long is left out.
const MAX_SAMPLE_AGE: Duration = Duration::from_secs(300);
/// Workers with stored samples; further ones are left out.
const MAX_WORKERS: usize = 1024;

/// Runs until `stop`. `spans` is set if traces are exported.
pub(crate) async fn watch_worker_events(
    mut signals: broadcast::Receiver<Arc<TelemetryEvent>>,
    spans: Option<SpanQueue>,
    stop: CancellationToken,
) {
    let mut samples = WorkerSamples::default();
    loop {
        let signal = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            signal = signals.recv() => signal,
        };
        match signal {
            Ok(signal) => {
                metric::worker_event(event_kind(&signal.name));
                samples.record(&signal, Instant::now());
                if let Some(spans) = &spans
                    && let Some(span) = worker_span(&signal, spans)
                {
                    spans.push(span);
                }
            }
            Err(RecvError::Lagged(missed)) => metric::worker_events_missed(missed),
            Err(RecvError::Closed) => return,
        }
    }
}

/// The first two parts of a known name.
fn event_kind(name: &str) -> &'static str {
    let begins = |kind: &&&str| name.strip_prefix(**kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    EVENT_KINDS.iter().find(begins).copied().unwrap_or(OTHER_KIND)
}

/// A span for a finished tool call, if the event has a `traceparent` and that trace is sampled.
fn worker_span(signal: &TelemetryEvent, spans: &SpanQueue) -> Option<FinishedSpan> {
    let error = match &*signal.name {
        "tool.execution.stop" => None,
        "tool.execution.exception" => Some(metadata_text(signal, "error_type").unwrap_or("tool_error")),
        _ => return None,
    };
    let parent = TraceParent::parse(metadata_text(signal, "traceparent")?).filter(|parent| parent.is_sampled)?;
    // Workers report nanoseconds, and the event is sent when the call ends.
    let took = SignedDuration::from_nanos(measure_int(signal, "duration")?.max(0));
    let tool = metadata_text(signal, "tool").or_else(|| metadata_text(signal, "tool_name")).unwrap_or("tool");
    let mut attributes =
        vec![(field::TOOL, AttributeValue::text(tool)), ("gen_ai.tool.name", AttributeValue::text(tool))];
    for key in ["worker_id", "pool_name"] {
        attributes.extend(metadata_text(signal, key).map(|text| (key, AttributeValue::text(text))));
    }
    let pid = measure_int(signal, "python_pid").or_else(|| metadata_text(signal, "python_pid")?.parse().ok());
    attributes.extend(pid.map(|pid| ("python_pid", AttributeValue::Int(pid))));
    attributes.extend(error.map(|error| (field::ERROR, AttributeValue::text(error))));
    let AttributeValue::Text(name) = AttributeValue::text(&format!("worker {tool}")) else { return None };
    Some(FinishedSpan {
        trace: parent.trace,
        span: spans.ids().next_span_id(),
        parent: Some(parent.span),
        name: Cow::Owned(name),
        kind: TraceSpanKind::Server,
        start: signal.at.checked_sub(took).unwrap_or(signal.at),
        end: signal.at,
        attributes,
        error: error.map(str::to_owned),
    })
}

fn metadata_text<'a>(signal: &'a TelemetryEvent, key: &str) -> Option<&'a str> {
    signal.metadata.iter().find(|(name, _)| **name == *key).map(|(_, text)| &**text)
}

fn measure_named<'a>(signal: &'a TelemetryEvent, key: &str) -> Option<&'a MeasuredValue> {
    signal.measures.iter().find(|(name, _)| **name == *key).map(|(_, measure)| measure)
}

fn measure_int(signal: &TelemetryEvent, key: &str) -> Option<i64> {
    match measure_named(signal, key)? {
        MeasuredValue::Int(number) => Some(*number),
        MeasuredValue::Float(number) => Some(*number as i64),
        MeasuredValue::Text(_) => None,
    }
}

fn measure_float(signal: &TelemetryEvent, key: &str) -> Option<f64> {
    let number = match measure_named(signal, key)? {
        MeasuredValue::Int(number) => *number as f64,
        MeasuredValue::Float(number) => *number,
        MeasuredValue::Text(_) => return None,
    };
    number.is_finite().then_some(number)
}

/// The latest sample of each worker. A pool's value is the sum over its workers.
#[derive(Debug, Default)]
struct WorkerSamples {
    memory: HashMap<WorkerKey, (f64, Instant)>,
    cpu: HashMap<WorkerKey, (f64, Instant)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct WorkerKey {
    pool: Arc<str>,
    id: Arc<str>,
}

impl WorkerSamples {
    fn record(&mut self, signal: &TelemetryEvent, now: Instant) {
        let (samples, key, set_metric): (_, _, fn(&str, f64)) = match &*signal.name {
            "python.memory.sampled" => (&mut self.memory, "rss_bytes", metric::worker_memory),
            "python.cpu.sampled" => (&mut self.cpu, "cpu_percent", metric::worker_cpu),
            _ => return,
        };
        let (Some(pool), Some(id)) = (metadata_text(signal, "pool_name"), metadata_text(signal, "worker_id")) else {
            return;
        };
        let Some(sample) = measure_float(signal, key) else { return };
        samples.retain(|_, (_, at)| now.saturating_duration_since(*at) < MAX_SAMPLE_AGE);
        let worker = WorkerKey { pool: pool.into(), id: id.into() };
        if samples.len() < MAX_WORKERS || samples.contains_key(&worker) {
            samples.insert(worker, (sample, now));
        }
        let of_pool = samples.iter().filter(|(worker, _)| *worker.pool == *pool);
        set_metric(pool, of_pool.map(|(_, (sample, _))| sample).sum());
    }
}

#[cfg(test)]
mod tests;
