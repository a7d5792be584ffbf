//! The error type of the core. Each surface maps `ErrorKind` to its own codes, exhaustively.

use std::time::Duration;

use crate::model::ModelError;
use crate::store::StoreError;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is invalid; repeating it changes nothing.
    Invalid,
    Unauthenticated,
    Forbidden,
    NotFound,
    /// The request conflicts with the current state (an id in use, a finished run).
    Conflict,
    /// A limit: budget, rate, queue.
    Exhausted,
    Timeout,
    Cancelled,
    Unavailable,
    /// An external provider or tool failed, not Patchboard.
    Upstream,
    Internal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryHint {
    Never,
    Now,
    After(Duration),
}

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct BoardError {
    pub kind: ErrorKind,
    pub message: String,
    pub retry: RetryHint,
    #[source]
    pub source: Option<BoxError>,
}

impl BoardError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry: RetryHint::Never, source: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, message)
    }

    pub fn retry(mut self, retry: RetryHint) -> Self {
        self.retry = retry;
        self
    }

    pub fn caused_by(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// All causes, for the log: the error of a client says what failed, not why.
    pub fn source_chain(&self) -> Option<String> {
        let first = self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static));
        let chain = std::iter::successors(first, |error| error.source());
        let causes: Vec<String> = chain.map(ToString::to_string).collect();
        (!causes.is_empty()).then(|| causes.join(": "))
    }

    /// The request was withdrawn before it started.
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "cancelled")
    }

    /// The run has not ended; the next process resumes it.
    pub fn suspended() -> Self {
        let message = "server is shutting down; the run goes on at its next start: attach again then";
        Self::new(ErrorKind::Unavailable, message).retry(RetryHint::After(Duration::from_secs(5)))
    }

    pub fn shutting_down() -> Self {
        Self::new(ErrorKind::Unavailable, "server is shutting down").retry(RetryHint::After(Duration::from_secs(5)))
    }
}

impl From<StoreError> for BoardError {
    fn from(error: StoreError) -> Self {
        let (kind, retry) = match &error {
            StoreError::Busy => (ErrorKind::Exhausted, RetryHint::After(Duration::from_secs(1))),
            StoreError::Closed => (ErrorKind::Unavailable, RetryHint::After(Duration::from_secs(5))),
            StoreError::Full => (ErrorKind::Unavailable, RetryHint::After(Duration::from_secs(60))),
            StoreError::BadCursor => (ErrorKind::Invalid, RetryHint::Never),
            StoreError::Fenced => (ErrorKind::Unavailable, RetryHint::After(Duration::from_secs(1))),
            StoreError::Conflict => (ErrorKind::Conflict, RetryHint::After(Duration::ZERO)),
            StoreError::Failed { .. } | StoreError::Corrupt { .. } => (ErrorKind::Internal, RetryHint::Never),
        };
        let message = match &error {
            // Concerns the request, not the storage.
            StoreError::BadCursor | StoreError::Fenced | StoreError::Conflict => error.to_string(),
            StoreError::Full => format!("{error}: the disk of the server's data directory has no room left"),
            StoreError::Busy | StoreError::Closed | StoreError::Failed { .. } | StoreError::Corrupt { .. } => {
                format!("storage: {error}")
            }
        };
        Self::new(kind, message).retry(retry).caused_by(error)
    }
}

impl From<ModelError> for BoardError {
    fn from(error: ModelError) -> Self {
        let kind = match &error {
            ModelError::NotConfigured(_) => ErrorKind::Unavailable,
            ModelError::Cancelled => ErrorKind::Cancelled,
            ModelError::Timeout(_) => ErrorKind::Timeout,
            ModelError::Rejected(_)
            | ModelError::RateLimited(_)
            | ModelError::Unavailable(_)
            | ModelError::Truncated(_) => ErrorKind::Upstream,
        };
        Self::new(kind, format!("provider error: {error}")).caused_by(error)
    }
}
