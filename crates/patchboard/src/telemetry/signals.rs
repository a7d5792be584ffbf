//! What workers tell about themselves, made into metrics and, where traces are kept, into the last span of a trace: the
//! tool's own work in the worker.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use patchboard_core::bridge::{Measure, Signal};
use patchboard_core::trace::{TraceParent, field};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::metric;
use super::otlp::{FinishedSpan, Kind, SpanQueue, Value};

/// Names begin with one of these, or count as `other`.
const KINDS: &[&str] = &[
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
const OTHER: &str = "other";
/// A worker that has not been heard of for so long counts no more.
const STALE: Duration = Duration::from_secs(300);
/// Workers whose samples are kept at once; those of further ones are not counted.
const MAX_WORKERS: usize = 1024;

/// Until `stop`. `spans` is there where traces are kept.
pub(crate) async fn watch_signals(
    mut signals: broadcast::Receiver<Arc<Signal>>,
    spans: Option<SpanQueue>,
    stop: CancellationToken,
) {
    let mut samples = Samples::default();
    loop {
        let signal = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            signal = signals.recv() => signal,
        };
        match signal {
            Ok(signal) => {
                metric::signal(kind(&signal.name));
                samples.take(&signal, Instant::now());
                if let Some(spans) = &spans
                    && let Some(span) = worker_span(&signal, spans)
                {
                    spans.push(span);
                }
            }
            Err(RecvError::Lagged(missed)) => metric::signals_missed(missed),
            Err(RecvError::Closed) => return,
        }
    }
}

/// The first two parts of a known name.
fn kind(name: &str) -> &'static str {
    let begins = |kind: &&&str| name.strip_prefix(**kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    KINDS.iter().find(begins).copied().unwrap_or(OTHER)
}

/// A finished call of a tool, where the worker says which trace it belongs to and that trace is kept.
fn worker_span(signal: &Signal, spans: &SpanQueue) -> Option<FinishedSpan> {
    let error = match &*signal.name {
        "tool.execution.stop" => None,
        "tool.execution.exception" => Some(noted(signal, "error_type").unwrap_or("tool_error")),
        _ => return None,
    };
    let above = TraceParent::parse(noted(signal, "traceparent")?).filter(|above| above.is_sampled)?;
    let took = SignedDuration::from_nanos(whole(signal, "duration")?.max(0));
    let tool = noted(signal, "tool").or_else(|| noted(signal, "tool_name")).unwrap_or("tool");
    let mut attributes = vec![(field::TOOL, Value::text(tool)), ("gen_ai.tool.name", Value::text(tool))];
    for key in ["worker_id", "pool_name"] {
        attributes.extend(noted(signal, key).map(|text| (key, Value::text(text))));
    }
    let pid = whole(signal, "python_pid").or_else(|| noted(signal, "python_pid")?.parse().ok());
    attributes.extend(pid.map(|pid| ("python_pid", Value::Int(pid))));
    attributes.extend(error.map(|error| (field::ERROR, Value::text(error))));
    let Value::Text(name) = Value::text(&format!("worker {tool}")) else { return None };
    Some(FinishedSpan {
        trace: above.trace,
        span: spans.ids().span(),
        parent: Some(above.span),
        name: Cow::Owned(name),
        kind: Kind::Server,
        start: signal.at.checked_sub(took).unwrap_or(signal.at),
        end: signal.at,
        attributes,
        error: error.map(str::to_owned),
    })
}

fn noted<'a>(signal: &'a Signal, key: &str) -> Option<&'a str> {
    signal.metadata.iter().find(|(name, _)| **name == *key).map(|(_, text)| &**text)
}

fn measured<'a>(signal: &'a Signal, key: &str) -> Option<&'a Measure> {
    signal.measures.iter().find(|(name, _)| **name == *key).map(|(_, measure)| measure)
}

fn whole(signal: &Signal, key: &str) -> Option<i64> {
    match measured(signal, key)? {
        Measure::Int(number) => Some(*number),
        Measure::Float(number) => Some(*number as i64),
        Measure::Text(_) => None,
    }
}

fn number(signal: &Signal, key: &str) -> Option<f64> {
    let number = match measured(signal, key)? {
        Measure::Int(number) => *number as f64,
        Measure::Float(number) => *number,
        Measure::Text(_) => return None,
    };
    number.is_finite().then_some(number)
}

/// The last sample of every worker. A pool's figure is the sum over its workers.
#[derive(Debug, Default)]
struct Samples {
    memory: HashMap<Worker, (f64, Instant)>,
    cpu: HashMap<Worker, (f64, Instant)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Worker {
    pool: Arc<str>,
    id: Arc<str>,
}

impl Samples {
    fn take(&mut self, signal: &Signal, now: Instant) {
        let (kept, key, tell): (_, _, fn(&str, f64)) = match &*signal.name {
            "python.memory.sampled" => (&mut self.memory, "rss_bytes", metric::worker_memory),
            "python.cpu.sampled" => (&mut self.cpu, "cpu_percent", metric::worker_cpu),
            _ => return,
        };
        let (Some(pool), Some(id)) = (noted(signal, "pool_name"), noted(signal, "worker_id")) else { return };
        let Some(sample) = number(signal, key) else { return };
        kept.retain(|_, (_, at)| now.saturating_duration_since(*at) < STALE);
        let worker = Worker { pool: pool.into(), id: id.into() };
        if kept.len() < MAX_WORKERS || kept.contains_key(&worker) {
            kept.insert(worker, (sample, now));
        }
        let of_pool = kept.iter().filter(|(worker, _)| *worker.pool == *pool);
        tell(pool, of_pool.map(|(_, (sample, _))| sample).sum());
    }
}

#[cfg(test)]
mod tests;
