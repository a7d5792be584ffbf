//! Sends an answer's requests to the other service one after the other, with retries. The number of sent requests is
//! recorded, so that the next process does not start over.

use super::retry::{RetrySchedule, SendOutcome, host};
use super::service::PermitKind;
use super::task::{DeliveryTask, TaskStep};
use crate::store::Durability;
use crate::tool::IDEMPOTENCY_KEY;
use crate::webhook::{ChannelRequest, DeliveryState};

impl DeliveryTask {
    /// Sends the requests that are not sent yet.
    pub(super) async fn send_requests(&mut self) {
        while let Some(mut request) = self.delivery.payload.requests.get(self.delivery.payload.sent_count).cloned() {
            self.add_idempotency_key(&mut request);
            match self.send_one(&request).await {
                TaskStep::Done(Ok(())) => {}
                TaskStep::Done(Err(why)) => return self.fail(format!("{}: {why}", host(&request.url))).await,
                TaskStep::Suspend => return,
            }
            self.delivery.payload.sent_count += 1;
            let is_last = self.delivery.payload.sent_count >= self.delivery.payload.requests.len();
            // A power failure may cause one request to be sent twice; none may be lost.
            if !is_last && let Err(error) = self.service.save(&self.delivery, Durability::Delta).await {
                tracing::warn!(
                    channel = %self.delivery.channel.name, delivery = %self.delivery.id.0, %error,
                    "the number of sent requests could not be recorded; a restart would send some of them again"
                );
            }
        }
        self.close(DeliveryState::Sent, None).await;
    }

    /// The same for every attempt, also of another process, so that the service can recognise a repeated request.
    fn add_idempotency_key(&self, request: &mut ChannelRequest) {
        if !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY)) {
            let key = format!("{}-{}", self.delivery.id.0, self.delivery.payload.sent_count);
            request.headers.push((IDEMPOTENCY_KEY.to_owned(), key));
        }
    }

    async fn send_one(&self, request: &ChannelRequest) -> TaskStep<Result<(), String>> {
        let mut backoff = RetrySchedule::for_requests();
        loop {
            let result = {
                let Some(_sending) = self.acquire_permit(PermitKind::Sending).await else { return TaskStep::Suspend };
                if self.service.is_abandoned(self.delivery.id) || self.service.tenure.may_act().is_err() {
                    return TaskStep::Suspend;
                }
                let stop = self.closing.child_token();
                self.plugins.send(&self.delivery.channel.plugin, request.clone(), stop).await
            };
            let (why, after) = match SendOutcome::of(result, self.service.now()) {
                SendOutcome::Sent => return TaskStep::Done(Ok(())),
                SendOutcome::Failed { why } => return TaskStep::Done(Err(why)),
                SendOutcome::Stopped => return TaskStep::Suspend,
                SendOutcome::Retry { why, after } => (why, after),
            };
            let Some(pause) = backoff.pause(after) else { return TaskStep::Done(Err(why)) };
            tracing::debug!(
                channel = %self.delivery.channel.name, delivery = %self.delivery.id.0, host = host(&request.url), why,
                pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX), "sending an answer again"
            );
            if !self.service.pause(pause).await {
                return TaskStep::Suspend;
            }
        }
    }
}
