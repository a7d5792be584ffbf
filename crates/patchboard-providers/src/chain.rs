//! Tries one provider after another until one answers. Knows no HTTP: each failure carries its retry advice.
//!
//! # How long it may take
//!
//! Retries and fallbacks of one call take at most [`ChainOptions::retry_budget`] (8 s) before the first token:
//!
//! * The delays between attempts, connecting, and failed attempts count against it. An attempt starts only if
//!   [`ATTEMPT_RESERVE`] (2 s) is left, connecting is cancelled at the end of the budget, and a `Retry-After` that
//!   exceeds it ends the retries.
//! * A provider that has received the request is never cut off: a slow model and a dead one look the same, so only the
//!   provider's own timeouts end that wait. If it fails after holding the request for longer than the reserve, that
//!   time does not count against the remaining providers, but the same one is retried only while the whole call is
//!   within the limit.
//!
//! After the first text, thought or chunk of a tool call (or an answer that ends without any) nothing is retried, because
//! the client has seen output.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use patchboard_core::backoff::{self, BackoffSchedule};
use patchboard_core::model::{ListedModel, ModelError, ModelEvent, ModelRequest};
use patchboard_core::port::{BoxStream, ModelProvider};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::telemetry;
use crate::upstream::{AttemptLimits, ModelStream, RequestDelivery, RetryAdvice, Upstream, UpstreamFailure};

/// An attempt that takes longer than this counts as a slow model.
pub const ATTEMPT_RESERVE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct ChainOptions {
    pub retry_budget: Duration,
    /// Retries at the last provider of the chain.
    pub retries: u32,
    /// Retries at a provider that has a fallback, which is faster than waiting. A provider that failed slowly gets none.
    pub retries_before_fallback: u32,
    /// The delay before the first retry; it doubles with each, and up to half of it is random.
    pub initial_backoff: Duration,
    pub jitter: Jitter,
}

impl Default for ChainOptions {
    fn default() -> Self {
        Self {
            retry_budget: Duration::from_secs(8),
            retries: 3,
            retries_before_fallback: 1,
            initial_backoff: Duration::from_millis(400),
            jitter: Jitter::random(),
        }
    }
}

/// A source of random numbers from 0 up to 1.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

impl Jitter {
    pub fn random() -> Self {
        // Every `RandomState` has its own keys, which is random enough to spread callers.
        Self::from_fn(|| (RandomState::new().hash_one(0_u8) >> 11) as f64 / (1_u64 << 53) as f64)
    }

    pub fn from_fn(source: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}

/// A provider of the chain and the model to request from it.
#[derive(Debug, Clone)]
pub struct ChainLink {
    pub upstream: Arc<dyn Upstream>,
    pub model: ModelOverride,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelOverride {
    /// The model of the request.
    Requested,
    /// The provider's default.
    ProviderDefault,
    Named(Arc<str>),
}

impl ChainLink {
    pub fn new(upstream: Arc<dyn Upstream>, model: ModelOverride) -> Self {
        Self { upstream, model }
    }
}

#[derive(Debug)]
pub struct Chain {
    first: ChainLink,
    fallbacks: Vec<ChainLink>,
    options: ChainOptions,
}

impl Chain {
    pub fn new(first: ChainLink, fallbacks: Vec<ChainLink>, options: ChainOptions) -> Self {
        Self { first, fallbacks, options }
    }

    fn links(&self) -> impl Iterator<Item = &ChainLink> {
        std::iter::once(&self.first).chain(&self.fallbacks)
    }

    async fn run(&self, mut request: ModelRequest, stop: &CancellationToken) -> Result<ModelStream, ModelError> {
        let asked = Arc::clone(&request.model);
        let mut patience = RetryBudget::new(self.options.retry_budget);
        let mut failures: Vec<(&str, ModelError)> = Vec::new();
        for (index, link) in self.links().enumerate() {
            let name = link.upstream.name();
            if index > 0 {
                if !patience.allows_next() {
                    break;
                }
                if let Some((failed, error)) = failures.last() {
                    tracing::warn!(provider = failed, %error, next = name, "model provider failed, asking the next one");
                }
                telemetry::fallback(name);
            }
            request.model = match &link.model {
                ModelOverride::Requested => Arc::clone(&asked),
                ModelOverride::ProviderDefault => Arc::default(),
                ModelOverride::Named(model) => Arc::clone(model),
            };
            let place = if index < self.fallbacks.len() { ChainPosition::HasFallback } else { ChainPosition::Last };
            let failure = match self.try_link(link, place, &request, &mut patience, stop).await {
                Ok(stream) => return Ok(stream),
                Err(failure) => failure,
            };
            if failure.error == ModelError::Cancelled {
                return Err(ModelError::Cancelled);
            }
            failures.push((name, failure.error));
            if failure.retry == RetryAdvice::Never {
                break;
            }
        }
        Err(combine_failures(failures))
    }

    /// Asks one provider, with retries.
    async fn try_link(
        &self,
        link: &ChainLink,
        place: ChainPosition,
        request: &ModelRequest,
        patience: &mut RetryBudget,
        stop: &CancellationToken,
    ) -> Result<ModelStream, UpstreamFailure> {
        link.upstream.check()?;
        let mut tries = 0;
        loop {
            let began = Instant::now();
            let limits = AttemptLimits { connect_within: patience.remaining() };
            let failure = match attempt(link, request, limits, stop).await {
                Ok(stream) => return Ok(stream),
                Err(failure) => failure,
            };
            telemetry::failed_attempt(link.upstream.name(), &failure.error);
            let took = began.elapsed();
            patience.record_failure(took, failure.delivery);
            let RetryAdvice::SameProvider { after } = failure.retry else { return Err(failure) };
            let wait = self.backoff(tries).max(after.unwrap_or_default());
            let sensible = match place {
                ChainPosition::HasFallback => tries < self.options.retries_before_fallback && took <= ATTEMPT_RESERVE,
                ChainPosition::Last => tries < self.options.retries,
            };
            if !sensible || !patience.allows_retry_after(wait) {
                return Err(failure);
            }
            tracing::debug!(provider = link.upstream.name(), error = %failure.error, ?wait, "model call is tried again");
            tokio::select! {
                biased;
                () = stop.cancelled() => return Err(ModelError::Cancelled.into()),
                () = tokio::time::sleep(wait) => {}
            }
            tries += 1;
        }
    }

    fn backoff(&self, tries: u32) -> Duration {
        // No ceiling: the retry budget ends the retries first.
        let schedule = BackoffSchedule::doubling(self.options.initial_backoff, Duration::MAX);
        backoff::with_jitter(schedule.delay(tries), (self.options.jitter.0)())
    }
}

impl ModelProvider for Chain {
    fn name(&self) -> &str {
        self.first.upstream.name()
    }

    /// Succeeds if any of its providers can be asked; otherwise returns the error of the first.
    fn check(&self) -> Result<(), ModelError> {
        let first = self.first.upstream.check();
        if first.is_err() && self.fallbacks.iter().any(|link| link.upstream.check().is_ok()) {
            return Ok(());
        }
        first
    }

    fn stream(
        &self,
        request: ModelRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<BoxStream<Result<ModelEvent, ModelError>>, ModelError>> {
        Box::pin(async move { self.run(request, &stop).await })
    }

    /// The models of the first provider: those of the fallbacks are fixed.
    fn models(&self, stop: CancellationToken) -> BoxFuture<'_, Result<Vec<ListedModel>, ModelError>> {
        Box::pin(async move { self.first.upstream.models(&stop).await })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChainPosition {
    HasFallback,
    Last,
}

/// Makes one attempt, up to the first event that the client sees.
async fn attempt(
    link: &ChainLink,
    request: &ModelRequest,
    limits: AttemptLimits,
    stop: &CancellationToken,
) -> Result<ModelStream, UpstreamFailure> {
    let beginning = async {
        let mut rest = link.upstream.attempt(request, limits, stop).await?;
        let mut held = VecDeque::new();
        loop {
            match rest.next().await {
                Some(Ok(event)) => {
                    let seen = match &event {
                        ModelEvent::Text(_)
                        | ModelEvent::Thought(_)
                        | ModelEvent::ToolCallChunk { .. }
                        | ModelEvent::ToolCall { .. }
                        | ModelEvent::Stop(_) => true,
                        ModelEvent::ModelSelected { .. } => false,
                        ModelEvent::Usage(_) => {
                            // A later figure replaces an earlier one, so at most one is buffered.
                            held.retain(|event| !matches!(event, ModelEvent::Usage(_)));
                            false
                        }
                    };
                    held.push_back(event);
                    if seen {
                        let stream: ModelStream = Box::pin(PeekedStream { buffered: held, rest });
                        return Ok(stream);
                    }
                }
                Some(Err(error)) => return Err(error.into()),
                None => return Err(ModelError::Truncated("provider stream ended without an answer".to_owned()).into()),
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(ModelError::Cancelled.into()),
        begun = beginning => begun,
    }
}

/// A stream whose first events were read and buffered.
struct PeekedStream {
    buffered: VecDeque<ModelEvent>,
    rest: ModelStream,
}

impl Stream for PeekedStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.buffered.pop_front() {
            Some(event) => Poll::Ready(Some(Ok(event))),
            None => self.rest.poll_next_unpin(cx),
        }
    }
}

/// The time left for retries; see the module's documentation for the rule.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    limit: Duration,
    started: Instant,
    /// Time that providers held the request before a slow failure.
    uncounted: Duration,
}

impl RetryBudget {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, started: Instant::now(), uncounted: Duration::ZERO }
    }

    fn remaining(&self) -> Duration {
        self.limit.saturating_sub(self.started.elapsed().saturating_sub(self.uncounted))
    }

    fn record_failure(&mut self, attempt: Duration, reached: RequestDelivery) {
        if reached == RequestDelivery::Received && attempt > ATTEMPT_RESERVE {
            self.uncounted += attempt;
        }
    }

    fn allows_next(&self) -> bool {
        self.remaining() >= ATTEMPT_RESERVE
    }

    fn allows_retry_after(&self, wait: Duration) -> bool {
        let whole_call = self.started.elapsed();
        wait.saturating_add(whole_call).saturating_add(ATTEMPT_RESERVE) <= self.limit
    }
}

/// Returns the error of a single provider unchanged; for several, all their texts with the kind of the last.
fn combine_failures(mut failures: Vec<(&str, ModelError)>) -> ModelError {
    let text = failures.iter().map(|(name, error)| format!("{name}: {error}")).collect::<Vec<_>>().join("; ");
    let several = failures.len() > 1;
    match failures.pop() {
        None => ModelError::Unavailable("no provider could be asked".to_owned()),
        Some((_, error)) if !several => error,
        Some((_, error)) => match error {
            ModelError::NotConfigured(_) => ModelError::Unavailable(text),
            ModelError::Rejected(_) => ModelError::Rejected(text),
            ModelError::RateLimited(_) => ModelError::RateLimited(text),
            ModelError::Unavailable(_) => ModelError::Unavailable(text),
            ModelError::Timeout(_) => ModelError::Timeout(text),
            ModelError::Truncated(_) => ModelError::Truncated(text),
            ModelError::Cancelled => ModelError::Cancelled,
        },
    }
}

#[cfg(test)]
mod tests;
