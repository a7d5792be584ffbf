//! The managed local model as a provider: wakes its server, talks to it like to any other, and ends answers that repeat
//! themselves.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use patchboard_core::model::{ListedModel, ModelError, ModelEvent, ModelRequest, StopReason};
use tokio_util::sync::CancellationToken;

use crate::managed::{Call, Error as ManagedError, ManagedServer};
use crate::repetition::Repetition;
use crate::upstream::{Again, AttemptLimits, Failure, ModelStream, Reached, Upstream};

/// Said where an answer is cut, so that its end is not taken for the model's.
const CUT: &str = " … (cut here: the model began to repeat itself)";

#[derive(Debug)]
pub(crate) struct LocalModel {
    server: Arc<ManagedServer>,
    /// Speaks the dialect of the server's address.
    inner: Arc<dyn Upstream>,
}

impl LocalModel {
    pub(crate) fn new(server: Arc<ManagedServer>, inner: Arc<dyn Upstream>) -> Self {
        Self { server, inner }
    }
}

impl Upstream for LocalModel {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn check(&self) -> Result<(), ModelError> {
        self.inner.check()
    }

    fn attempt<'a>(
        &'a self,
        request: &'a ModelRequest,
        limits: AttemptLimits,
        stop: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelStream, Failure>> {
        Box::pin(async move {
            let call = tokio::select! {
                awake = self.server.awake() => awake.map_err(not_awake)?,
                () = stop.cancelled() => return Err(ModelError::Cancelled.into()),
            };
            let answer = self.inner.attempt(request, limits, stop).await?;
            Ok(Box::pin(Guarded::new(answer, Some(call))) as ModelStream)
        })
    }

    /// Known without waking it.
    fn models<'a>(&'a self, _stop: &'a CancellationToken) -> BoxFuture<'a, Result<Vec<ListedModel>, ModelError>> {
        let only = ListedModel { id: self.server.model_name().into(), name: None };
        Box::pin(std::future::ready(Ok(vec![only])))
    }
}

/// Another attempt would only load the weights again; another provider may answer.
fn not_awake(error: ManagedError) -> Failure {
    Failure { error: ModelError::Unavailable(error.to_string()), again: Again::Elsewhere, reached: Reached::Yes }
}

/// An answer that ends where it begins to repeat itself. Keeps the server awake until it is dropped.
pub(crate) struct Guarded {
    /// None once it was cut: dropping it ends the computation.
    answer: Option<ModelStream>,
    repetition: Repetition,
    /// The end of a cut answer.
    ending: Option<ModelEvent>,
    _call: Option<Call>,
}

impl Guarded {
    pub(crate) fn new(answer: ModelStream, call: Option<Call>) -> Self {
        Self { answer: Some(answer), repetition: Repetition::default(), ending: None, _call: call }
    }
}

impl Stream for Guarded {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(answer) = &mut this.answer else {
            return Poll::Ready(this.ending.take().map(Ok));
        };
        let next = std::task::ready!(answer.poll_next_unpin(cx));
        let repeats = match &next {
            Some(Ok(ModelEvent::Text(piece) | ModelEvent::Thought(piece))) => this.repetition.hear(piece),
            Some(_) | None => false,
        };
        if !repeats {
            return Poll::Ready(next);
        }
        tracing::debug!("the local model repeats itself; its answer is cut");
        this.answer = None;
        this.ending = Some(ModelEvent::Stop(StopReason::MaxTokens));
        Poll::Ready(match next {
            Some(Ok(ModelEvent::Text(piece))) => Some(Ok(ModelEvent::Text(piece + CUT))),
            thought => thought,
        })
    }
}

#[cfg(test)]
mod tests;
