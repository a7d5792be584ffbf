//! Brings an answer to the other service: one request after the other, each again while that may help. How many are out
//! is on record, so that the next process does not begin anew.

use super::deliver::{Courier, Step};
use super::desk::Work;
use super::retry::{Backoff, Sent, host};
use super::{ChannelRequest, DeliveryState};
use crate::port::Durability;

impl Courier {
    /// Sends what is not out yet.
    pub(super) async fn send(&mut self) {
        while let Some(request) = self.delivery.letter.requests.get(self.delivery.letter.sent).cloned() {
            match self.send_one(&request).await {
                Step::Done(Ok(())) => {}
                Step::Done(Err(why)) => return self.fail(format!("{}: {why}", host(&request.url))).await,
                Step::Leave => return,
            }
            self.delivery.letter.sent += 1;
            let is_last = self.delivery.letter.sent >= self.delivery.letter.requests.len();
            // A power cut may make one of them go out twice; losing one is what must not happen.
            if !is_last && let Err(error) = self.desk.change(&self.delivery, Durability::Delta).await {
                tracing::warn!(
                    channel = %self.delivery.channel.name, delivery = %self.delivery.id.0, %error,
                    "it is not on record how much of an answer is out; a restart would send some of it again"
                );
            }
        }
        self.close(DeliveryState::Sent, None).await;
    }

    async fn send_one(&self, request: &ChannelRequest) -> Step<Result<(), String>> {
        let mut backoff = Backoff::for_requests();
        loop {
            let result = {
                let Some(_sending) = self.place(Work::Sending).await else { return Step::Leave };
                let stop = self.closing.child_token();
                self.plugins.send(&self.delivery.channel.plugin, request.clone(), stop).await
            };
            let (why, after) = match Sent::of(result, self.desk.now()) {
                Sent::Out => return Step::Done(Ok(())),
                Sent::Never { why } => return Step::Done(Err(why)),
                Sent::Stopped => return Step::Leave,
                Sent::Later { why, after } => (why, after),
            };
            let Some(pause) = backoff.pause(after) else { return Step::Done(Err(why)) };
            tracing::debug!(
                channel = %self.delivery.channel.name, delivery = %self.delivery.id.0, host = host(&request.url), why,
                pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX), "an answer is sent again"
            );
            if !self.desk.pause(pause).await {
                return Step::Leave;
            }
        }
    }
}
