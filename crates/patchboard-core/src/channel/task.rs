//! The processing of one delivery: wait for its turn, run the agent, have the adapter format the answer, send it. Each
//! step is recorded before the next begins; after a crash the next process continues from there.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;

use super::delivery::OpenDelivery;
use super::error_text;
use super::load::LoadPermit;
use super::retry::RetrySchedule;
use super::service::{AcceptedDelivery, ChannelService, DeliveryHold, PermitKind};
use crate::caller::{Caller, GrantSet, Principal, Surface};
use crate::error::BoardError;
use crate::id::ConnectionId;
use crate::port::PluginRuntime;
use crate::run::starter::RunStarter;
use crate::session::{QueueSlot, SessionPermit};
use crate::store::StoreError;
use crate::telemetry;
use crate::webhook::{ChannelError, ChannelReply, DeliveryState, FormattedReply, WebhookResponse};

/// Most requests of one answer; an adapter that returns more gets an error.
const MAX_REQUESTS: usize = 32;

/// The reply channel of a synchronous caller. It receives errors as they are.
pub(crate) type ResponseSender = oneshot::Sender<Result<WebhookResponse, BoardError>>;

/// The agent's answer, or why there is none.
pub(super) type AgentResult = Result<String, BoardError>;

/// Whether this process has more to do.
pub(super) enum TaskStep<T> {
    Done(T),
    /// The next process continues from the record.
    Suspend,
}

/// Processes one delivery to its end.
#[derive(Debug)]
pub(crate) struct DeliveryTask {
    pub(super) runs: Arc<dyn RunStarter>,
    pub(super) service: Arc<ChannelService>,
    pub(super) plugins: Arc<dyn PluginRuntime>,
    pub(super) delivery: OpenDelivery,
    load_permit: LoadPermit,
    pub(super) caller: Caller,
    pub(super) is_recovered: bool,
    /// Its progress could not be recorded, so that another process, or this one, has to take it up again.
    is_unrecorded: bool,
    _hold: DeliveryHold,
    /// Cancelled when work in progress must end too.
    pub(super) closing: CancellationToken,
    /// The trace context of the webhook.
    pub(super) trace: Option<Arc<str>>,
}

impl DeliveryTask {
    pub(crate) fn new(
        runs: Arc<dyn RunStarter>,
        service: Arc<ChannelService>,
        plugins: Arc<dyn PluginRuntime>,
        accepted: AcceptedDelivery,
        closing: CancellationToken,
        trace: Option<Arc<str>>,
    ) -> (Self, QueueSlot) {
        let AcceptedDelivery { delivery, queue_slot, load_permit, is_recovered, hold } = accepted;
        let caller = Caller {
            surface: Surface::Webhook,
            principal: Principal::Channel(delivery.channel.name.clone()),
            // No connection: only the operator answers questions of its runs.
            connection: ConnectionId::NONE,
            grants: GrantSet::CHANNEL,
        };
        let task = Self {
            runs,
            service,
            plugins,
            delivery,
            load_permit,
            caller,
            is_recovered,
            is_unrecorded: false,
            _hold: hold,
            closing,
            trace,
        };
        (task, queue_slot)
    }

    /// Returns `true` if the delivery is released: it has to be taken up again.
    pub(crate) async fn run(mut self, queue_slot: QueueSlot, response_sender: Option<ResponseSender>) -> bool {
        let Some(_session_permit) = self.acquire_session_permit(queue_slot).await else { return false };
        if self.delivery.state == DeliveryState::Received {
            match Box::pin(self.ask_and_record(response_sender)).await {
                TaskStep::Done(true) => {}
                TaskStep::Done(false) | TaskStep::Suspend => return self.is_unrecorded,
            }
        }
        Box::pin(self.send_requests()).await;
        self.is_unrecorded
    }

    /// Runs the agent and records the requests to send. `false` if the delivery is closed already.
    async fn ask_and_record(&mut self, response_sender: Option<ResponseSender>) -> TaskStep<bool> {
        let step = {
            let Some(_agent_permit) = self.acquire_permit(PermitKind::Asking).await else { return TaskStep::Suspend };
            self.agent_result().await
        };
        let TaskStep::Done(mut result) = step else { return TaskStep::Suspend };
        if let Some(response_sender) = response_sender.filter(|response_sender| !response_sender.is_closed()) {
            result = match self.respond_to_caller(response_sender, result).await {
                Ok(step) => return step,
                // The caller has disconnected.
                Err(result) => result,
            };
        }
        if let Err(error) = &result {
            // The chat user learns only that there is no answer.
            self.log_problem(&error.to_string(), "a message could not be answered");
        }
        let reply = self.reply(&result, false);
        match self.format(reply).await {
            TaskStep::Suspend => TaskStep::Suspend,
            TaskStep::Done(Ok(outgoing)) => self.record_answer(outgoing).await,
            TaskStep::Done(Err(why)) => {
                self.fail(format!("format_outgoing failed: {why}")).await;
                TaskStep::Done(false)
            }
        }
    }

    /// The error returns the answer when the caller has disconnected.
    async fn respond_to_caller(
        &mut self,
        response_sender: ResponseSender,
        result: AgentResult,
    ) -> Result<TaskStep<bool>, AgentResult> {
        let reply = self.reply(&result, true);
        if let Err(error) = result {
            // The caller may retry as soon as it sees the failure.
            let _duplicates_permit = self.service.hold_duplicates(&self.delivery).await;
            // `send` returns the error if the caller has disconnected.
            if let Err(unsent) = response_sender.send(Err(error)) {
                return Err(unsent.map(|_| String::new()));
            }
            self.delivery.payload.is_failure_reported = true;
            self.close(DeliveryState::Failed, Some("the caller was told".to_owned())).await;
            return Ok(TaskStep::Done(false));
        }
        let plain = plain_text_response(&reply.content);
        let stop = self.closing.child_token();
        let formatted = self.plugins.format_outgoing(&self.delivery.channel.plugin, reply, stop).await;
        let outgoing = formatted.map_err(|error| error.to_string()).and_then(bounded).unwrap_or_else(|why| {
            self.log_problem(&format!("format_outgoing failed: {why}"), "an answer is given as plain text");
            FormattedReply::default()
        });
        let FormattedReply { requests, answer } = outgoing;
        // Responds before recording: a crash in between causes a duplicate answer rather than none.
        if response_sender.send(Ok(answer.unwrap_or(plain))).is_err() {
            return Err(result);
        }
        Ok(self.record_answer(FormattedReply { requests, answer: None }).await)
    }

    fn reply(&self, result: &AgentResult, is_synchronous: bool) -> ChannelReply {
        let (content, is_error) = match result {
            Ok(text) if text.trim().is_empty() => (error_text::NO_ANSWER.to_owned(), true),
            Ok(text) => (text.clone(), false),
            Err(error) => (error_text::user_text(error).to_owned(), true),
        };
        ChannelReply { context: self.delivery.payload.message.context.clone(), content, is_error, is_synchronous }
    }

    async fn record_answer(&mut self, outgoing: FormattedReply) -> TaskStep<bool> {
        if outgoing.requests.is_empty() {
            self.close(DeliveryState::Sent, None).await;
            return TaskStep::Done(false);
        }
        self.delivery.set_requests(outgoing.requests);
        match self.service.save_with_retry(&self.delivery).await {
            Ok(()) => {
                self.load_permit.update(DeliveryState::Answered, &self.delivery.payload);
                TaskStep::Done(true)
            }
            // Not sent: without a record the next start would send it again.
            Err(error) => {
                self.note_unrecorded(&error);
                TaskStep::Suspend
            }
        }
    }

    /// Formats the answer with the adapter. Waits for an adapter that is being replaced.
    async fn format(&self, reply: ChannelReply) -> TaskStep<Result<FormattedReply, String>> {
        let mut backoff = RetrySchedule::for_adapters();
        loop {
            let stop = self.closing.child_token();
            let result = self.plugins.format_outgoing(&self.delivery.channel.plugin, reply.clone(), stop).await;
            let why = match result {
                Ok(outgoing) => return TaskStep::Done(bounded(outgoing)),
                Err(_) if self.closing.is_cancelled() => return TaskStep::Suspend,
                Err(ChannelError::Rejected(why) | ChannelError::Failed(why)) => return TaskStep::Done(Err(why)),
                Err(ChannelError::Unavailable(why)) => why,
            };
            let Some(pause) = backoff.pause(None) else { return TaskStep::Done(Err(why)) };
            if !self.service.pause(pause).await {
                return TaskStep::Suspend;
            }
        }
    }

    async fn acquire_session_permit(&self, queue_slot: QueueSlot) -> Option<SessionPermit> {
        tokio::select! {
            biased;
            () = self.service.draining().cancelled() => None,
            permit = queue_slot.permit() => permit.ok(),
        }
    }

    /// Acquires one of the channel's permits; `None` while draining if none is free at once.
    pub(super) async fn acquire_permit(&self, kind: PermitKind) -> Option<OwnedSemaphorePermit> {
        let permits = self.service.permits(&self.delivery.channel.name, kind)?;
        tokio::select! {
            biased;
            () = self.service.draining().cancelled() => permits.clone().try_acquire_owned().ok(),
            permit = permits.clone().acquire_owned() => permit.ok(),
        }
    }

    pub(super) async fn fail(&mut self, why: String) {
        self.log_problem(&why, "an answer could not be delivered");
        self.close(DeliveryState::Failed, Some(why)).await;
    }

    pub(super) async fn close(&mut self, state: DeliveryState, problem: Option<String>) {
        self.delivery.finish(state, problem);
        match self.service.save_with_retry(&self.delivery).await {
            Ok(()) => telemetry::delivery_ended(state),
            Err(error) => self.note_unrecorded(&error),
        }
    }

    pub(super) fn note_unrecorded(&mut self, error: &StoreError) {
        self.is_unrecorded = true;
        tracing::error!(
            channel = %self.delivery.channel.name, delivery = %self.delivery.id.0, %error,
            "the progress of a delivery could not be recorded; it is released and taken up again"
        );
    }

    fn log_problem(&self, why: &str, what: &'static str) {
        let channel = &self.delivery.channel;
        tracing::warn!(
            channel = %channel.name,
            plugin = %channel.plugin,
            delivery = %self.delivery.id.0,
            why,
            "{what}"
        );
    }
}

fn bounded(outgoing: FormattedReply) -> Result<FormattedReply, String> {
    match outgoing.requests.len() {
        0..=MAX_REQUESTS => Ok(outgoing),
        count => Err(format!("{count} requests for one answer; at most {MAX_REQUESTS} are sent")),
    }
}

fn plain_text_response(text: &str) -> WebhookResponse {
    WebhookResponse {
        status: 200,
        content_type: "text/plain; charset=utf-8".to_owned(),
        body: text.as_bytes().to_vec(),
    }
}
