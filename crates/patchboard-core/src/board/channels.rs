//! Webhooks of channels. What they bring is on record before it is acknowledged, and brought to its end by tasks of
//! its own, whoever goes away in the meantime.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Board;
use crate::channel::{AcceptedDelivery, DeliveryTask, ResponseSender};
use crate::error::{BoardError, ErrorKind};
use crate::port::PluginRuntime;
use crate::webhook::{
    ChannelMessage, ChannelOptions, DeliveryId, ParsedWebhook, Webhook, WebhookOutcome, WebhookResponse,
};
use crate::{telemetry, trace};

/// What a caller that waits for the answer will hear.
type AnswerReceiver = oneshot::Receiver<Result<WebhookResponse, BoardError>>;

impl Board {
    pub(super) async fn receive_webhook(
        &self,
        channel: &str,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> Result<WebhookOutcome, BoardError> {
        let Some(channel) = self.0.channels.channel(channel) else {
            return Err(BoardError::not_found(format!("no channel adapter for '{channel}'")));
        };
        let outcome = self.process_webhook(channel, webhook, stop).await;
        telemetry::webhook(&channel.name, outcome_label(&outcome));
        outcome
    }

    async fn process_webhook(
        &self,
        channel: &Arc<ChannelOptions>,
        webhook: Webhook,
        stop: CancellationToken,
    ) -> Result<WebhookOutcome, BoardError> {
        let digest = webhook.digest.clone();
        let message = match self.0.channels.parse_webhook(channel, webhook, stop.clone()).await? {
            ParsedWebhook::Message(message) => message,
            ParsedWebhook::Ignore(why) => {
                tracing::debug!(channel = %channel.name, why, "a webhook is ignored");
                return Ok(WebhookOutcome::Ignored);
            }
            ParsedWebhook::Respond(answer) => return Ok(WebhookOutcome::Respond(answer)),
        };
        let (waiting, mut answered) = oneshot::channel();
        let waiting = channel.wait.map(|_| waiting);
        let Some(delivery) = self.record_message(channel.clone(), message, digest, waiting).await? else {
            return Ok(WebhookOutcome::Duplicate);
        };
        match channel.wait {
            None => Ok(WebhookOutcome::Accepted(delivery)),
            Some(wait) => {
                tokio::select! {
                    biased;
                    answer = &mut answered => return webhook_outcome(answer.ok(), delivery),
                    // Too late, or nobody there any more: the answer is sent as if nobody had waited.
                    () = tokio::time::sleep(wait) => {}
                    () = stop.cancelled() => {}
                }
                webhook_outcome(close_and_take(answered), delivery)
            }
        }
    }

    /// Answers when the message is on record; `None` if it was before. All of it is a task, so that whoever asks may
    /// go away at any time.
    async fn record_message(
        &self,
        channel: Arc<ChannelOptions>,
        message: ChannelMessage,
        digest: Arc<str>,
        waiting: Option<ResponseSender>,
    ) -> Result<Option<DeliveryId>, BoardError> {
        let plugins = self.0.channels.plugins()?.clone();
        let (taken, on_record) = oneshot::channel();
        let (board, trace) = (self.clone(), trace::current_traceparent());
        self.0.tracker.spawn(async move {
            let arrived = match board.0.channels.accept(&channel, message, &digest).await {
                Ok(Some(arrived)) => arrived,
                Ok(None) => return drop(taken.send(Ok(None))),
                Err(error) => return drop(taken.send(Err(error))),
            };
            // Nobody may be waiting any more; it is on record all the same.
            drop(taken.send(Ok(Some(arrived.delivery.id))));
            Box::pin(board.deliver(plugins, arrived, waiting, trace)).await;
        });
        on_record.await.unwrap_or_else(|_| Err(BoardError::new(ErrorKind::Internal, "the message was not recorded")))
    }

    /// Goes on with what the last process left open.
    pub(super) async fn recover_deliveries(&self) -> Result<usize, BoardError> {
        let left = self.0.channels.recover_open().await?;
        let Ok(plugins) = self.0.channels.plugins() else { return Ok(0) };
        let count = left.len();
        for arrived in left {
            let (board, plugins) = (self.clone(), plugins.clone());
            self.0.tracker.spawn(async move { Box::pin(board.deliver(plugins, arrived, None, None)).await });
        }
        Ok(count)
    }

    async fn deliver(
        &self,
        plugins: Arc<dyn PluginRuntime>,
        arrived: AcceptedDelivery,
        waiting: Option<ResponseSender>,
        trace: Option<Arc<str>>,
    ) {
        let (service, closing) = (self.0.channels.clone(), self.0.closing.clone());
        let runs = Arc::new(self.downgrade());
        let (task, slot) = DeliveryTask::new(runs, service, plugins, arrived, closing, trace);
        task.run(slot, waiting).await;
    }
}

/// Closed first: an answer that came until then is taken to be given, and nobody would send it.
fn close_and_take(mut answered: AnswerReceiver) -> Option<Result<WebhookResponse, BoardError>> {
    answered.close();
    answered.try_recv().ok()
}

/// Without an answer: it is on record, and somebody goes on with it, if not in this process.
fn webhook_outcome(
    answer: Option<Result<WebhookResponse, BoardError>>,
    delivery: DeliveryId,
) -> Result<WebhookOutcome, BoardError> {
    answer.map_or(Ok(WebhookOutcome::Accepted(delivery)), |answer| answer.map(WebhookOutcome::Respond))
}

fn outcome_label(outcome: &Result<WebhookOutcome, BoardError>) -> &'static str {
    match outcome {
        Ok(WebhookOutcome::Accepted(_)) => "accepted",
        Ok(WebhookOutcome::Duplicate) => "duplicate",
        Ok(WebhookOutcome::Ignored) => "ignored",
        Ok(WebhookOutcome::Respond(_)) => "answered",
        Err(error) => match error.kind {
            ErrorKind::Invalid => "invalid",
            ErrorKind::Exhausted => "refused",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Unauthenticated
            | ErrorKind::Forbidden
            | ErrorKind::NotFound
            | ErrorKind::Conflict
            | ErrorKind::Timeout
            | ErrorKind::Cancelled
            | ErrorKind::Upstream
            | ErrorKind::Internal => "failed",
        },
    }
}

#[cfg(test)]
mod tests;
