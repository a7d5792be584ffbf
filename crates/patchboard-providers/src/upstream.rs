//! A single attempt at one model API. Retries and fallbacks are the responsibility of [`crate::Chain`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::model::{ListedModel, ModelError, ModelEvent, ModelRequest};
use patchboard_core::port::{BoxStream, ModelProvider};
use tokio_util::sync::CancellationToken;

pub type ModelStream = BoxStream<Result<ModelEvent, ModelError>>;

pub trait Upstream: Send + Sync + fmt::Debug {
    fn name(&self) -> &str;

    /// `Err(NotConfigured)` if it cannot be called at all.
    fn check(&self) -> Result<(), ModelError>;

    /// Makes one attempt. Resolves when the provider has accepted the request; the stream starts with `ModelSelected`,
    /// ends after `Stop` or its first error, and dropping it cancels the call.
    fn attempt<'a>(
        &'a self,
        request: &'a ModelRequest,
        limits: AttemptLimits,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelStream, UpstreamFailure>>;

    /// The offered models, in the provider's order. `Err` says why they are unknown.
    fn models<'a>(&'a self, _stop: &'a CancellationToken) -> BoxFuture<'a, Result<Vec<ListedModel>, ModelError>> {
        let silent = ModelError::Unavailable("this provider does not list its models".to_owned());
        Box::pin(std::future::ready(Err(silent)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptLimits {
    /// Connecting may take at most this long, or the provider's own limit if that is shorter. Does not limit the
    /// response.
    pub connect_within: Duration,
}

/// Why an attempt failed, and which retry may help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamFailure {
    pub error: ModelError,
    pub retry: RetryAdvice,
    pub delivery: RequestDelivery,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    /// The same request may succeed later, but no sooner than the provider's hint.
    SameProvider { after: Option<Duration> },
    /// This provider will not succeed soon; another one may.
    OtherProvider,
    /// The request itself is at fault, or the caller has cancelled.
    Never,
}

/// Whether the provider has received the request. Until then waiting is lost time; afterwards it may be processing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestDelivery {
    NotReceived,
    Received,
}

/// Classifies an error by itself, without the details of an HTTP response.
impl From<ModelError> for UpstreamFailure {
    fn from(error: ModelError) -> Self {
        let retry = match &error {
            ModelError::RateLimited(_) | ModelError::Unavailable(_) | ModelError::Truncated(_) => {
                RetryAdvice::SameProvider { after: None }
            }
            // It has already used up its time.
            ModelError::Timeout(_) | ModelError::NotConfigured(_) => RetryAdvice::OtherProvider,
            ModelError::Rejected(_) | ModelError::Cancelled => RetryAdvice::Never,
        };
        Self { error, retry, delivery: RequestDelivery::Received }
    }
}

/// Uses any provider as an upstream of a chain.
#[derive(Debug, Clone)]
pub struct ProviderUpstream(pub Arc<dyn ModelProvider>);

impl Upstream for ProviderUpstream {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn check(&self) -> Result<(), ModelError> {
        self.0.check()
    }

    fn attempt<'a>(
        &'a self,
        request: &'a ModelRequest,
        _limits: AttemptLimits,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelStream, UpstreamFailure>> {
        Box::pin(async move { Ok(self.0.stream(request.clone(), stop.clone()).await?) })
    }

    fn models<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, Result<Vec<ListedModel>, ModelError>> {
        self.0.models(stop.clone())
    }
}
