//! One try at one model API. Trying again, and elsewhere, is the business of [`crate::Chain`].

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

    /// `Err(NotConfigured)` when it cannot be asked at all.
    fn check(&self) -> Result<(), ModelError>;

    /// Asks once. Resolves when the provider has taken the request; the stream starts with `Answering`, ends after
    /// `Stop` or its first error, and dropping it ends the call.
    fn attempt<'a>(
        &'a self,
        request: &'a ModelRequest,
        limits: AttemptLimits,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelStream, UpstreamFailure>>;

    /// The models it offers, in its order. `Err` says why it cannot tell.
    fn models<'a>(&'a self, _stop: &'a CancellationToken) -> BoxFuture<'a, Result<Vec<ListedModel>, ModelError>> {
        let silent = ModelError::Unavailable("this provider does not list its models".to_owned());
        Box::pin(std::future::ready(Err(silent)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptLimits {
    /// Connecting must not take longer than this, or than the provider's own limit. It does not limit the answer.
    pub connect_within: Duration,
}

/// Why an attempt failed, and what may be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamFailure {
    pub error: ModelError,
    pub retry: RetryAdvice,
    pub delivery: RequestDelivery,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    /// The same request may do better a little later, and no sooner than the provider said.
    SameProvider { after: Option<Duration> },
    /// Not soon, or never, at this provider; another one may well answer.
    OtherProvider,
    /// The request itself is at fault, or nobody waits any more.
    Never,
}

/// Did the provider get the request? Until it has, time is lost; from then on it may just be thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestDelivery {
    NotReceived,
    Received,
}

/// What an error says by itself, without the circumstances only an HTTP answer tells.
impl From<ModelError> for UpstreamFailure {
    fn from(error: ModelError) -> Self {
        let again = match &error {
            ModelError::RateLimited(_) | ModelError::Unavailable(_) | ModelError::Truncated(_) => {
                RetryAdvice::SameProvider { after: None }
            }
            // It has already had all the time it is given.
            ModelError::Timeout(_) | ModelError::NotConfigured(_) => RetryAdvice::OtherProvider,
            ModelError::Rejected(_) | ModelError::Cancelled => RetryAdvice::Never,
        };
        Self { error, retry: again, delivery: RequestDelivery::Received }
    }
}

/// Any provider as a link of a chain.
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
