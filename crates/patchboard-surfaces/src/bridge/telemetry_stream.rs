//! Telemetry events of the server and its workers; each subscriber has its own filter.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use patchboard_core::bridge::{EventFilter, TelemetryEvent};
use patchboard_proto::pb;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use tokio::time::Instant;
use tonic::{Code, Status, Streaming};

use super::rpc_counters::{RpcMethod, RpcOutcome};
use super::{Bridge, map};

pub(super) type TelemetryStream = Pin<Box<dyn Stream<Item = Result<pb::TelemetryEvent, Status>> + Send>>;

/// A subscription is disabled until a toggle enables it.
pub(super) fn subscribe(
    bridge: Bridge,
    controls: Streaming<pb::TelemetryControl>,
    events: broadcast::Receiver<Arc<TelemetryEvent>>,
    timeout: Option<Duration>,
) -> Result<TelemetryStream, Status> {
    let Ok(permit) = bridge.0.telemetry_permits.clone().try_acquire_owned() else {
        return Err(Status::resource_exhausted("too many listen already"));
    };
    let subscription = TelemetrySubscription {
        bridge,
        controls: Some(controls),
        events,
        filter: EventFilter::default(),
        is_enabled: false,
        deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        final_code: Code::Cancelled,
        _permit: permit,
    };
    Ok(Box::pin(stream::unfold(Some(subscription), |subscription| async move {
        let mut subscription = subscription?;
        match subscription.next().await {
            Ok(event) => Some((Ok(event), Some(subscription))),
            Err(status) => {
                subscription.final_code = status.code();
                Some((Err(status), None))
            }
        }
    })))
}

struct TelemetrySubscription {
    bridge: Bridge,
    /// `None` once the client has closed its side; the subscription continues.
    controls: Option<Streaming<pb::TelemetryControl>>,
    events: broadcast::Receiver<Arc<TelemetryEvent>>,
    filter: EventFilter,
    is_enabled: bool,
    deadline: Option<Instant>,
    /// The status code for the metrics.
    final_code: Code,
    _permit: OwnedSemaphorePermit,
}

impl TelemetrySubscription {
    async fn next(&mut self) -> Result<pb::TelemetryEvent, Status> {
        loop {
            tokio::select! {
                biased;
                () = self.bridge.0.draining.cancelled() => {
                    return Err(Status::unavailable("server is shutting down"));
                }
                () = deadline_reached(self.deadline) => return Err(Status::deadline_exceeded("the time for listening is over")),
                control = next_control(&mut self.controls) => match control? {
                    Some(control) => {
                        let switched = map::apply_control(control, &mut self.filter).map_err(Status::invalid_argument)?;
                        self.is_enabled = switched.unwrap_or(self.is_enabled);
                    }
                    None => self.controls = None,
                },
                event = self.events.recv() => match event {
                    Ok(event) if self.filter.accepts(&event.name) => {
                        return Ok(map::telemetry_event(&event, &self.bridge.0.node));
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(count)) if self.is_enabled => {
                        let missed = map::dropped_events(count, self.bridge.0.clock.now());
                        return Ok(map::telemetry_event(&missed, &self.bridge.0.node));
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(Status::unavailable("server is shutting down")),
                },
            }
        }
    }
}

impl Drop for TelemetrySubscription {
    fn drop(&mut self) {
        self.bridge.0.rpc_counters.count(RpcMethod::StreamTelemetry, RpcOutcome::Ended(self.final_code));
    }
}

async fn next_control(
    controls: &mut Option<Streaming<pb::TelemetryControl>>,
) -> Result<Option<pb::TelemetryControl>, Status> {
    match controls {
        Some(controls) => controls.message().await,
        None => std::future::pending().await,
    }
}

async fn deadline_reached(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
