//! What the server and its workers tell about themselves, for whoever listens at the moment.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::broadcast;

mod sieve;

pub use sieve::{MAX_PATTERNS, Sieve, TooManyPatterns};

/// Signals a listener may be behind; the oldest are lost to it first, and it is told how many.
const AHEAD: usize = 1024;

#[derive(Debug, Clone, PartialEq)]
pub struct Signal {
    /// Parts joined by points, such as `tool.execution.stop`.
    pub name: Arc<str>,
    pub measures: Vec<(Arc<str>, Measure)>,
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
    pub at: Timestamp,
    pub correlation: Option<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Measure {
    Int(i64),
    Float(f64),
    Text(Arc<str>),
}

/// Cheap to clone. Where nobody listens, nothing is made.
#[derive(Debug, Clone)]
pub struct Signals(broadcast::Sender<Arc<Signal>>);

impl Default for Signals {
    fn default() -> Self {
        Self(broadcast::Sender::new(AHEAD))
    }
}

impl Signals {
    pub fn tell(&self, signal: impl FnOnce() -> Signal) {
        if self.0.receiver_count() > 0 {
            // The last listener may have gone in between.
            drop(self.0.send(Arc::new(signal())));
        }
    }

    pub fn listen(&self) -> broadcast::Receiver<Arc<Signal>> {
        self.0.subscribe()
    }
}

impl Signal {
    pub fn new(name: &str, at: Timestamp) -> Self {
        Self { name: name.into(), measures: Vec::new(), metadata: Vec::new(), at, correlation: None }
    }

    #[must_use]
    pub fn measure(mut self, name: &str, measure: Measure) -> Self {
        self.measures.push((name.into(), measure));
        self
    }

    #[must_use]
    pub fn note(mut self, name: &str, value: impl Into<Arc<str>>) -> Self {
        self.metadata.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn correlated(mut self, correlation: Option<Arc<str>>) -> Self {
        self.correlation = correlation;
        self
    }
}
