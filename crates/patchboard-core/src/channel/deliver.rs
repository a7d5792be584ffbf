//! The way of one delivery: its turn comes, the agent is asked, the adapter puts the answer into the other service's
//! form, and it is sent. Each step is on record before the next; whatever ends the process, the next one goes on there.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::CancellationToken;

use super::delivery::Delivery;
use super::desk::{Arrived, ChannelDesk, Work};
use super::load::Held;
use super::retry::Backoff;
use super::{ChannelAnswer, ChannelError, ChannelReply, DeliveryState, Outgoing, words};
use crate::access::{Caller, Grant, Grants, Surface};
use crate::board::Board;
use crate::error::BoardError;
use crate::id::ConnId;
use crate::port::{Plugins, StoreError};
use crate::session::{Place, Turn};
use crate::telemetry;

/// Requests of one answer; an adapter that wants more is refused.
const MAX_REQUESTS: usize = 32;

/// A caller that waits for the answer. It hears of failures as they are.
pub(crate) type Waiting = oneshot::Sender<Result<ChannelAnswer, BoardError>>;

/// What the agent said, or why it did not.
pub(super) type Said = Result<String, BoardError>;

/// Is there anything more to do in this process?
pub(super) enum Step<T> {
    Done(T),
    /// What is on record is for the next process to go on with.
    Leave,
}

/// Brings one delivery to its end.
#[derive(Debug)]
pub(crate) struct Courier {
    pub(super) board: Board,
    pub(super) desk: Arc<ChannelDesk>,
    pub(super) plugins: Arc<dyn Plugins>,
    pub(super) delivery: Delivery,
    held: Held,
    pub(super) caller: Caller,
    pub(super) is_left_over: bool,
    /// Cancelled when even what is at work has to end.
    pub(super) closing: CancellationToken,
    /// Position of the webhook in its trace.
    pub(super) trace: Option<Arc<str>>,
}

impl Courier {
    pub(crate) fn new(
        board: Board,
        desk: Arc<ChannelDesk>,
        plugins: Arc<dyn Plugins>,
        arrived: Arrived,
        closing: CancellationToken,
        trace: Option<Arc<str>>,
    ) -> (Self, Place) {
        let Arrived { delivery, place, held, is_left_over } = arrived;
        let caller = Caller {
            surface: Surface::Webhook,
            principal: format!("channel:{}", delivery.channel.name).into(),
            // No connection: only the operator answers what its runs ask.
            connection: ConnId(0),
            grants: Grants::NONE.with(Grant::Converse),
        };
        (Self { board, desk, plugins, delivery, held, caller, is_left_over, closing, trace }, place)
    }

    pub(crate) async fn go(mut self, place: Place, waiting: Option<Waiting>) {
        let Some(_turn) = self.turn(place).await else { return };
        if self.delivery.state == DeliveryState::Received {
            match Box::pin(self.answer(waiting)).await {
                Step::Done(true) => {}
                Step::Done(false) | Step::Leave => return,
            }
        }
        Box::pin(self.send()).await;
    }

    /// Asks the agent and puts on record what is to be sent. `false` when the delivery is over already.
    async fn answer(&mut self, waiting: Option<Waiting>) -> Step<bool> {
        let heard = {
            let Some(_asking) = self.place(Work::Asking).await else { return Step::Leave };
            self.hear().await
        };
        let Step::Done(mut said) = heard else { return Step::Leave };
        if let Some(waiting) = waiting.filter(|waiting| !waiting.is_closed()) {
            said = match self.answer_waiting(waiting, said).await {
                Ok(step) => return step,
                // It has gone in the meantime.
                Err(said) => said,
            };
        }
        if let Err(error) = &said {
            // The person hears no more than that there is no answer.
            self.tell(&error.to_string(), "a message could not be answered");
        }
        let reply = self.reply(&said, false);
        match self.format(reply).await {
            Step::Leave => Step::Leave,
            Step::Done(Ok(outgoing)) => self.record_answer(outgoing).await,
            Step::Done(Err(why)) => {
                self.fail(format!("format_outgoing failed: {why}")).await;
                Step::Done(false)
            }
        }
    }

    /// The error gives back what was said, because nobody waits any more.
    async fn answer_waiting(&mut self, waiting: Waiting, said: Said) -> Result<Step<bool>, Said> {
        let reply = self.reply(&said, true);
        if let Err(error) = said {
            // Whoever hears of a failure may try again at once.
            let _tried_again_later = self.desk.keep_equals_out(&self.delivery).await;
            // It comes back if nobody has heard it.
            if let Err(unheard) = waiting.send(Err(error)) {
                return Err(unheard.map(|_| String::new()));
            }
            self.delivery.letter.is_returned = true;
            self.close(DeliveryState::Failed, Some("the caller was told".to_owned())).await;
            return Ok(Step::Done(false));
        }
        let plain = plain_answer(&reply.content);
        let stop = self.closing.child_token();
        let formatted = self.plugins.format_outgoing(&self.delivery.channel.plugin, reply, stop).await;
        let outgoing = formatted.map_err(|error| error.to_string()).and_then(bounded).unwrap_or_else(|why| {
            self.tell(&format!("format_outgoing failed: {why}"), "an answer is given as plain text");
            Outgoing::default()
        });
        let Outgoing { requests, answer } = outgoing;
        // Told before it is recorded: whoever dies in between answers twice rather than never.
        if waiting.send(Ok(answer.unwrap_or(plain))).is_err() {
            return Err(said);
        }
        Ok(self.record_answer(Outgoing { requests, answer: None }).await)
    }

    fn reply(&self, said: &Said, is_synchronous: bool) -> ChannelReply {
        let (content, is_error) = match said {
            Ok(text) if text.trim().is_empty() => (words::NO_ANSWER.to_owned(), true),
            Ok(text) => (text.clone(), false),
            Err(error) => (words::for_person(error).to_owned(), true),
        };
        ChannelReply { context: self.delivery.letter.message.context.clone(), content, is_error, is_synchronous }
    }

    async fn record_answer(&mut self, outgoing: Outgoing) -> Step<bool> {
        if outgoing.requests.is_empty() {
            self.close(DeliveryState::Sent, None).await;
            return Step::Done(false);
        }
        self.delivery.answered(outgoing.requests);
        match self.desk.change_surely(&self.delivery).await {
            Ok(()) => {
                self.held.moved(DeliveryState::Answered, &self.delivery.letter);
                Step::Done(true)
            }
            // Not sent: the next start would not know of it and send it again.
            Err(error) => {
                self.unrecorded(&error);
                Step::Leave
            }
        }
    }

    /// The answer in the form of the other service. An adapter that is being replaced is waited for.
    async fn format(&self, reply: ChannelReply) -> Step<Result<Outgoing, String>> {
        let mut backoff = Backoff::for_adapters();
        loop {
            let stop = self.closing.child_token();
            let result = self.plugins.format_outgoing(&self.delivery.channel.plugin, reply.clone(), stop).await;
            let why = match result {
                Ok(outgoing) => return Step::Done(bounded(outgoing)),
                Err(_) if self.closing.is_cancelled() => return Step::Leave,
                Err(ChannelError::Rejected(why) | ChannelError::Failed(why)) => return Step::Done(Err(why)),
                Err(ChannelError::Unavailable(why)) => why,
            };
            let Some(pause) = backoff.pause(None) else { return Step::Done(Err(why)) };
            if !self.desk.pause(pause).await {
                return Step::Leave;
            }
        }
    }

    async fn turn(&self, place: Place) -> Option<Turn> {
        tokio::select! {
            biased;
            () = self.desk.leaving().cancelled() => None,
            turn = place.turn() => turn.ok(),
        }
    }

    /// One of so many that do the same.
    pub(super) async fn place(&self, work: Work) -> Option<OwnedSemaphorePermit> {
        let places = self.desk.places(&self.delivery.channel.name, work)?;
        tokio::select! {
            biased;
            () = self.desk.leaving().cancelled() => places.clone().try_acquire_owned().ok(),
            place = places.clone().acquire_owned() => place.ok(),
        }
    }

    pub(super) async fn fail(&mut self, why: String) {
        self.tell(&why, "an answer could not be brought");
        self.close(DeliveryState::Failed, Some(why)).await;
    }

    pub(super) async fn close(&mut self, state: DeliveryState, problem: Option<String>) {
        self.delivery.seal(state, problem);
        match self.desk.change_surely(&self.delivery).await {
            Ok(()) => telemetry::delivery_ended(state),
            Err(error) => self.unrecorded(&error),
        }
    }

    pub(super) fn unrecorded(&self, error: &StoreError) {
        tracing::error!(
            channel = %self.delivery.channel.name, delivery = %self.delivery.id.0, %error,
            "it cannot be recorded how far a delivery is; the next start goes on with it"
        );
    }

    fn tell(&self, why: &str, what: &'static str) {
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

fn bounded(outgoing: Outgoing) -> Result<Outgoing, String> {
    match outgoing.requests.len() {
        0..=MAX_REQUESTS => Ok(outgoing),
        wanted => Err(format!("{wanted} requests for one answer; at most {MAX_REQUESTS} are sent")),
    }
}

fn plain_answer(text: &str) -> ChannelAnswer {
    ChannelAnswer { status: 200, content_type: "text/plain; charset=utf-8".to_owned(), body: text.as_bytes().to_vec() }
}
