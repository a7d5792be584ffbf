//! Events that the server and its workers publish about themselves to current subscribers.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::broadcast;

mod event_filter;

pub use event_filter::{EventFilter, MAX_PATTERNS, TooManyPatterns};

/// Events that a subscriber may lag behind; past it the oldest are lost to it, and it learns how many.
const CHANNEL_CAPACITY: usize = 1024;

#[derive(Debug, Clone, PartialEq)]
pub struct TelemetryEvent {
    /// Parts joined by points, such as `tool.execution.stop`.
    pub name: Arc<str>,
    pub measures: Vec<(Arc<str>, MeasuredValue)>,
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
    pub at: Timestamp,
    pub correlation: Option<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MeasuredValue {
    Int(i64),
    Float(f64),
    Text(Arc<str>),
}

/// A broadcast of telemetry events. Without a subscriber no event is built.
#[derive(Debug, Clone)]
pub struct TelemetryBus(broadcast::Sender<Arc<TelemetryEvent>>);

impl Default for TelemetryBus {
    fn default() -> Self {
        Self(broadcast::Sender::new(CHANNEL_CAPACITY))
    }
}

impl TelemetryBus {
    pub fn emit(&self, event: impl FnOnce() -> TelemetryEvent) {
        if self.0.receiver_count() > 0 {
            // The last subscriber may have disconnected meanwhile.
            drop(self.0.send(Arc::new(event())));
        }
    }

    pub fn subscribe(&self) -> broadcast::Receiver<Arc<TelemetryEvent>> {
        self.0.subscribe()
    }
}

impl TelemetryEvent {
    pub fn new(name: &str, at: Timestamp) -> Self {
        Self { name: name.into(), measures: Vec::new(), metadata: Vec::new(), at, correlation: None }
    }

    #[must_use]
    pub fn with_measure(mut self, name: &str, measure: MeasuredValue) -> Self {
        self.measures.push((name.into(), measure));
        self
    }

    #[must_use]
    pub fn with_metadata(mut self, name: &str, value: impl Into<Arc<str>>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn with_correlation(mut self, correlation: Option<Arc<str>>) -> Self {
        self.correlation = correlation;
        self
    }
}
