//! Webhooks of channels. A message is recorded before it is acknowledged, and processed by a task of its own that does
//! not depend on the caller.

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

/// Receives the response for a caller that waits for it.
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
            ParsedWebhook::Ignore(reason) => {
                tracing::debug!(channel = %channel.name, reason, "a webhook is ignored");
                return Ok(WebhookOutcome::Ignored);
            }
            ParsedWebhook::Respond(response) => return Ok(WebhookOutcome::Respond(response)),
        };
        let (responder, mut answered) = oneshot::channel();
        let responder = channel.wait.map(|_| responder);
        let Some(delivery) = self.record_message(channel.clone(), message, digest, responder).await? else {
            return Ok(WebhookOutcome::Duplicate);
        };
        match channel.wait {
            None => Ok(WebhookOutcome::Accepted(delivery)),
            Some(wait) => {
                tokio::select! {
                    biased;
                    answer = &mut answered => return webhook_outcome(answer.ok(), delivery),
                    // Too late, or the caller has disconnected: the answer is delivered as if no caller had waited.
                    () = tokio::time::sleep(wait) => {}
                    () = stop.cancelled() => {}
                }
                webhook_outcome(close_and_take(answered), delivery)
            }
        }
    }

    /// Records the message and returns its id; `None` if it was already recorded. Runs as a task, so that the caller
    /// may disconnect at any time.
    async fn record_message(
        &self,
        channel: Arc<ChannelOptions>,
        message: ChannelMessage,
        digest: Arc<str>,
        responder: Option<ResponseSender>,
    ) -> Result<Option<DeliveryId>, BoardError> {
        let plugins = self.0.channels.plugins()?.clone();
        let (recorded, on_record) = oneshot::channel();
        let (board, trace) = (self.clone(), trace::current_traceparent());
        self.0.tracker.spawn(async move {
            let accepted = match board.0.channels.accept(&channel, message, &digest).await {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return drop(recorded.send(Ok(None))),
                Err(error) => return drop(recorded.send(Err(error))),
            };
            // The caller may have disconnected; the delivery is recorded and continues.
            drop(recorded.send(Ok(Some(accepted.delivery.id))));
            Box::pin(board.deliver(plugins, accepted, responder, trace)).await;
        });
        on_record.await.unwrap_or_else(|_| Err(BoardError::new(ErrorKind::Internal, "the message was not recorded")))
    }

    /// Continues deliveries that no living process works on.
    pub(super) async fn adopt_deliveries(&self) -> Result<usize, BoardError> {
        let open = self.0.channels.adopt_open().await?;
        let Ok(plugins) = self.0.channels.plugins() else { return Ok(0) };
        let count = open.len();
        for accepted in open {
            let (board, plugins) = (self.clone(), plugins.clone());
            self.0.tracker.spawn(async move { Box::pin(board.deliver(plugins, accepted, None, None)).await });
        }
        Ok(count)
    }

    async fn deliver(
        &self,
        plugins: Arc<dyn PluginRuntime>,
        accepted: AcceptedDelivery,
        responder: Option<ResponseSender>,
        trace: Option<Arc<str>>,
    ) {
        let (service, closing) = (self.0.channels.clone(), self.0.closing.clone());
        let runs = Arc::new(self.downgrade());
        let (task, slot) = DeliveryTask::new(runs, service, plugins, accepted, closing, trace);
        if task.run(slot, responder).await {
            self.note_released();
        }
    }
}

/// Closes the channel first: a response sent before that counts as returned to the caller, and no other path would send
/// it.
fn close_and_take(mut answered: AnswerReceiver) -> Option<Result<WebhookResponse, BoardError>> {
    answered.close();
    answered.try_recv().ok()
}

/// Without a response the webhook is accepted: the delivery is recorded and continues, after a restart if need be.
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
