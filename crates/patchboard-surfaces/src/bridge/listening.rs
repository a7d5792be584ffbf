//! What the server and its workers tell about themselves, to whoever listens: each listener has a sieve of its own.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use patchboard_core::bridge::{Sieve, Signal};
use patchboard_proto::pb;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use tokio::time::Instant;
use tonic::{Code, Status, Streaming};

use super::counts::{Method, Outcome};
use super::{Bridge, map};

pub(super) type Events = Pin<Box<dyn Stream<Item = Result<pb::TelemetryEvent, Status>> + Send>>;

/// Begins switched off; the first toggle decides.
pub(super) fn begin(
    bridge: Bridge,
    controls: Streaming<pb::TelemetryControl>,
    signals: broadcast::Receiver<Arc<Signal>>,
    patience: Option<Duration>,
) -> Result<Events, Status> {
    let Ok(place) = bridge.0.listeners.clone().try_acquire_owned() else {
        return Err(Status::resource_exhausted("too many listen already"));
    };
    let listening = Listening {
        bridge,
        controls: Some(controls),
        signals,
        sieve: Sieve::default(),
        is_on: false,
        until: patience.and_then(|patience| Instant::now().checked_add(patience)),
        end: Code::Cancelled,
        _place: place,
    };
    Ok(Box::pin(stream::unfold(Some(listening), |listening| async move {
        let mut listening = listening?;
        match listening.next().await {
            Ok(event) => Some((Ok(event), Some(listening))),
            Err(status) => {
                listening.end = status.code();
                Some((Err(status), None))
            }
        }
    })))
}

struct Listening {
    bridge: Bridge,
    /// Gone when the client has said all it wants; it listens on.
    controls: Option<Streaming<pb::TelemetryControl>>,
    signals: broadcast::Receiver<Arc<Signal>>,
    sieve: Sieve,
    is_on: bool,
    until: Option<Instant>,
    /// How it ended.
    end: Code,
    _place: OwnedSemaphorePermit,
}

impl Listening {
    async fn next(&mut self) -> Result<pb::TelemetryEvent, Status> {
        loop {
            tokio::select! {
                biased;
                () = self.bridge.0.draining.cancelled() => {
                    return Err(Status::unavailable("server is shutting down"));
                }
                () = reached(self.until) => return Err(Status::deadline_exceeded("the time for listening is over")),
                control = said(&mut self.controls) => match control? {
                    Some(control) => {
                        let switched = map::control(control, &mut self.sieve).map_err(Status::invalid_argument)?;
                        self.is_on = switched.unwrap_or(self.is_on);
                    }
                    None => self.controls = None,
                },
                signal = self.signals.recv() => match signal {
                    Ok(signal) if self.sieve.passes(&signal.name) => {
                        return Ok(map::event(&signal, &self.bridge.0.node));
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(count)) if self.is_on => {
                        let missed = map::missed(count, self.bridge.0.clock.now());
                        return Ok(map::event(&missed, &self.bridge.0.node));
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Err(Status::unavailable("server is shutting down")),
                },
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.bridge.0.counts.count(Method::StreamTelemetry, Outcome::Ended(self.end));
    }
}

async fn said(controls: &mut Option<Streaming<pb::TelemetryControl>>) -> Result<Option<pb::TelemetryControl>, Status> {
    match controls {
        Some(controls) => controls.message().await,
        None => std::future::pending().await,
    }
}

async fn reached(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
