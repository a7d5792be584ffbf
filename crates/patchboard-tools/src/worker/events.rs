//! Telemetry streams of workers, forwarded to the server's telemetry bus.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use patchboard_core::backoff::{Backoff, BackoffSchedule};
use patchboard_core::bridge::{MeasuredValue, TelemetryEvent};
use patchboard_core::text::cut;
use patchboard_proto::limits::MAX_CORRELATION_BYTES;
use patchboard_proto::pb::telemetry_control::Control;
use patchboard_proto::pb::telemetry_value::Value;
use patchboard_proto::pb::{self, TelemetryControl, TelemetryToggle};
use tokio::time::Instant;
use tonic::{Code, Status};

use super::pool::{ConnectedWorker, WorkerPool};

const REOPEN_BACKOFF: BackoffSchedule = BackoffSchedule::doubling(Duration::from_millis(500), Duration::from_secs(30));
/// A stream that lasted so long is opened again at once.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);
/// Events per worker and second; further events are dropped and counted.
const MAX_EVENTS: u32 = 2000;
const RATE_WINDOW: Duration = Duration::from_secs(1);
/// An event whose name is longer or has more parts is treated as unnamed.
const MAX_NAME: usize = 200;
const MAX_PARTS: usize = 16;
/// Further measurements and metadata entries are dropped.
const MAX_ENTRIES: usize = 64;
/// Longer values are truncated.
const MAX_TEXT: usize = 1024;
const MAX_KEY: usize = 128;

/// Forwards a worker's telemetry until the worker is gone. A stream that ends is reopened.
pub(super) async fn forward_telemetry(pool: Arc<WorkerPool>, worker: Arc<ConnectedWorker>) {
    let forwarding = async {
        let mut backoff = Backoff::new(REOPEN_BACKOFF);
        let mut rate = EventRateWindow::default();
        loop {
            let opened_at = Instant::now();
            match read_stream(&pool, &worker, &mut rate).await {
                Err(status) if status.code() == Code::Unimplemented => return,
                Err(status) => {
                    tracing::debug!(worker.id = %worker.id, "telemetry stream failed: {}", super::start::status_text(&status));
                }
                Ok(()) => tracing::debug!(worker.id = %worker.id, "telemetry stream ended"),
            }
            if opened_at.elapsed() >= HEALTHY_AFTER {
                backoff.reset();
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    };
    tokio::select! {
        () = forwarding => {}
        () = worker.removed.cancelled() => {}
        () = worker.connection.closed() => {}
    }
}

async fn read_stream(pool: &WorkerPool, worker: &ConnectedWorker, rate: &mut EventRateWindow) -> Result<(), Status> {
    let toggle = TelemetryControl { control: Some(Control::Toggle(TelemetryToggle { enabled: true })) };
    // The worker ends the stream when its control stream ends, so that one stays open.
    let controls = stream::iter([toggle]).chain(stream::pending());
    let mut events = worker.connection.client().stream_telemetry(controls).await?.into_inner();
    while let Some(event) = events.message().await? {
        match rate.admit(Instant::now()) {
            RateDecision::Pass => {}
            RateDecision::PassAfterDrops(dropped) => {
                pool.metrics.events_dropped.increment(dropped);
                pool.emit_event("telemetry.dropped", Some(&worker.id), |telemetry| {
                    telemetry.with_measure("count", MeasuredValue::Int(i64::try_from(dropped).unwrap_or(i64::MAX)))
                });
            }
            RateDecision::Drop => continue,
        }
        pool.context.telemetry.emit(|| telemetry_event(pool, worker, event));
    }
    Ok(())
}

/// Counts the events of the current second.
#[derive(Debug, Default)]
struct EventRateWindow {
    since: Option<Instant>,
    count: u32,
    dropped: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum RateDecision {
    Pass,
    /// Carries the number of events dropped before this one.
    PassAfterDrops(u64),
    Drop,
}

impl EventRateWindow {
    fn admit(&mut self, now: Instant) -> RateDecision {
        let is_same_window = self.since.is_some_and(|since| now.saturating_duration_since(since) < RATE_WINDOW);
        if !is_same_window {
            self.since = Some(now);
            self.count = 0;
        }
        if self.count >= MAX_EVENTS {
            self.dropped += 1;
            return RateDecision::Drop;
        }
        self.count += 1;
        match std::mem::take(&mut self.dropped) {
            0 => RateDecision::Pass,
            dropped => RateDecision::PassAfterDrops(dropped),
        }
    }
}

/// Converts an event within the bounds. An event without a usable name becomes `telemetry.unnamed`.
fn telemetry_event(pool: &WorkerPool, worker: &ConnectedWorker, event: pb::TelemetryEvent) -> TelemetryEvent {
    let name = event.event_parts.join(".");
    let is_valid_name = !name.is_empty()
        && name.len() <= MAX_NAME
        && event.event_parts.len() <= MAX_PARTS
        && !name.chars().any(char::is_control);
    let name = if is_valid_name { name.as_str() } else { "telemetry.unnamed" };
    let at = match event.timestamp_ns {
        0 => None,
        nanoseconds => Timestamp::from_nanosecond(i128::from(nanoseconds)).ok(),
    };
    let mut forwarded = TelemetryEvent::new(name, at.unwrap_or_else(|| pool.context.clock.now()));
    let is_valid_key = |key: &str| !key.is_empty() && key.len() <= MAX_KEY;
    for (key, value) in event.measurements.into_iter().filter(|(key, _)| is_valid_key(key)).take(MAX_ENTRIES) {
        let measure = match value.value {
            Some(Value::IntValue(number)) => MeasuredValue::Int(number),
            Some(Value::FloatValue(number)) => MeasuredValue::Float(number),
            Some(Value::StringValue(text)) => MeasuredValue::Text(cut(&text, MAX_TEXT).into()),
            None => continue,
        };
        forwarded = forwarded.with_measure(&key, measure);
    }
    // The server sets these identity keys itself; the worker's values are ignored.
    let is_server_key = |key: &str| matches!(key, "worker_id" | "pool_name" | "python_pid");
    let metadata = event.metadata.into_iter().filter(|(key, _)| is_valid_key(key) && !is_server_key(key));
    for (key, value) in metadata.take(MAX_ENTRIES) {
        forwarded = forwarded.with_metadata(&key, cut(&value, MAX_TEXT));
    }
    if let Some(pid) = worker.pid {
        forwarded = forwarded.with_metadata("python_pid", pid.to_string());
    }
    let correlation = Some(event.correlation_id).filter(|id| !id.is_empty() && id.len() <= MAX_CORRELATION_BYTES);
    forwarded
        .with_metadata("worker_id", worker.id.0.clone())
        .with_metadata("pool_name", pool.name().clone())
        .with_correlation(correlation.map(Into::into))
}

#[cfg(test)]
mod tests;
