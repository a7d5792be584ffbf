//! The managed local model as a provider: starts its server on demand, forwards calls to it, and cuts responses that
//! repeat themselves.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use patchboard_core::model::{ListedModel, ModelError, ModelEvent, ModelRequest, StopReason};
use patchboard_providers::{AttemptLimits, ModelStream, RequestDelivery, RetryAdvice, Upstream, UpstreamFailure};
use tokio_util::sync::CancellationToken;

use crate::repetition::RepetitionDetector;
use crate::{Error, ManagedServer, ServerLease};

/// Appended where a response is cut, so that its end is not taken for the model's.
const CUT_NOTICE: &str = " … (cut here: the model began to repeat itself)";

#[derive(Debug)]
pub struct LocalModel {
    server: Arc<ManagedServer>,
    /// Speaks the server's API.
    upstream: Arc<dyn Upstream>,
}

impl LocalModel {
    /// `inner` must speak the server's API and use its address.
    pub fn new(server: Arc<ManagedServer>, inner: Arc<dyn Upstream>) -> Self {
        Self { server, upstream: inner }
    }
}

impl Upstream for LocalModel {
    fn name(&self) -> &str {
        self.upstream.name()
    }

    fn check(&self) -> Result<(), ModelError> {
        self.upstream.check()
    }

    fn attempt<'a>(
        &'a self,
        request: &'a ModelRequest,
        limits: AttemptLimits,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelStream, UpstreamFailure>> {
        Box::pin(async move {
            let call = tokio::select! {
                awake = self.server.ensure_running() => awake.map_err(wake_failure)?,
                () = stop.cancelled() => return Err(ModelError::Cancelled.into()),
            };
            let answer = self.upstream.attempt(request, limits, stop).await?;
            Ok(Box::pin(RepetitionGuard::new(answer, Some(call))) as ModelStream)
        })
    }

    /// Answered without starting the server.
    fn models<'a>(&'a self, _stop: &'a CancellationToken) -> BoxFuture<'a, Result<Vec<ListedModel>, ModelError>> {
        let only = ListedModel { id: self.server.model_name().into(), name: None };
        Box::pin(std::future::ready(Ok(vec![only])))
    }
}

/// Not retryable: another attempt would only load the weights again; a fallback provider may answer.
fn wake_failure(error: Error) -> UpstreamFailure {
    UpstreamFailure {
        error: ModelError::Unavailable(error.to_string()),
        retry: RetryAdvice::OtherProvider,
        delivery: RequestDelivery::Received,
    }
}

/// A response stream that ends where it begins to repeat itself. Keeps the server running until it is dropped.
pub(crate) struct RepetitionGuard {
    /// `None` once the response was cut: dropping the stream ends the computation.
    answer: Option<ModelStream>,
    repetition: RepetitionDetector,
    /// The final event of a cut response.
    ending: Option<ModelEvent>,
    _lease: Option<ServerLease>,
}

impl RepetitionGuard {
    pub(crate) fn new(answer: ModelStream, call: Option<ServerLease>) -> Self {
        Self { answer: Some(answer), repetition: RepetitionDetector::default(), ending: None, _lease: call }
    }
}

impl Stream for RepetitionGuard {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(answer) = &mut this.answer else {
            return Poll::Ready(this.ending.take().map(Ok));
        };
        let next = std::task::ready!(answer.poll_next_unpin(cx));
        let repeats = match &next {
            Some(Ok(ModelEvent::Text(piece) | ModelEvent::Thought(piece))) => this.repetition.push(piece),
            Some(_) | None => false,
        };
        if !repeats {
            return Poll::Ready(next);
        }
        tracing::debug!("the local model repeats itself; its answer is cut");
        this.answer = None;
        this.ending = Some(ModelEvent::Stop(StopReason::MaxTokens));
        Poll::Ready(match next {
            Some(Ok(ModelEvent::Text(piece))) => Some(Ok(ModelEvent::Text(piece + CUT_NOTICE))),
            thought => thought,
        })
    }
}

#[cfg(test)]
mod tests;
