//! One model call: reserve tokens, send the request, stream the answer into the log, count, settle.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use futures_core::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::driver::Driver;
use super::strategy::{AnswerKind, Completion, ToolAvailability};
use crate::budget::call_chain::{BudgetExhausted, TokenHold};
use crate::budget::charge::ReceivedAnswer;
use crate::budget::{Headroom, Reservation, ReservationRequest};
use crate::caller::Surface;
use crate::error::{BoardError, ErrorKind};
use crate::event::{Event, ModelCallOutcome, ModelCallUsage, NewEvent, TextChunks};
use crate::id::{CallId, NodeId, Seq};
use crate::memory::context;
use crate::model::{
    ContentPart, ModelError, ModelEvent, ModelMessage, ModelRequest, StopReason, TokenCount, ToolCall, ToolInput,
};
use crate::port::IdGenerator;
use crate::run_spec::NodeKey;
use crate::store::{Durability, ModelCallRow, StoreWrite, UsageRow};
use crate::tokens;
use crate::tool::ToolSpec;
use crate::trace;

/// Model events taken from the stream at a time, before they are stored and published.
const EVENTS_PER_RECORD: usize = 1024;
/// Records buffered while one is being stored; past this the stream is not read until the store catches up.
const MAX_BUFFERED_RECORDS: usize = 4;
/// Calls taken from one answer; only a malfunctioning model makes more, and the rest is dropped.
const MAX_CALLS: usize = 128;
/// Text and reasoning of one answer, in case the provider ignores its token limit; a longer answer fails the call.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// Arguments nested deeper are treated as malformed: once stored, they could not be decoded.
const MAX_ARGUMENT_DEPTH: usize = 64;

/// An item of a provider's stream, or the panic that ended it.
type StreamItem = Result<Result<ModelEvent, ModelError>, Box<dyn Any + Send>>;

/// A call whose tokens are reserved but which is not sent yet.
#[derive(Debug)]
pub(super) struct PreparedModelCall {
    key: NodeKey,
    node: Option<NodeId>,
    answer_kind: AnswerKind,
    number: u32,
    request: ModelRequest,
    reservation: Reservation,
    estimated_input: u64,
    /// Held against the run's own limit until the call is settled.
    token_hold: TokenHold,
}

/// The result of a call. `pending` is not stored yet: the driver commits it together with the steps that follow from
/// it.
#[derive(Debug)]
pub(super) struct ModelCallResult {
    pub(super) node: NodeKey,
    pub(super) result: Result<Completion, ModelError>,
    pub(super) pending: PendingCommit,
}

/// Whether the reply still has to mention that the budget had no room for the tools' schemas.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum MissingToolsNote {
    #[default]
    None,
    /// To be appended to the reply.
    Pending(String),
    Delivered,
}

/// Events and rows of the next commit, and the reservation to settle after it.
#[derive(Debug, Default)]
pub(super) struct PendingCommit {
    pub(super) events: Vec<NewEvent>,
    pub(super) writes: Vec<StoreWrite>,
    pub(super) settlement: Option<(Reservation, u64)>,
}

impl PendingCommit {
    /// Inserts before the usage event. Clients rely on the order: text, calls, then usage.
    pub(super) fn add_before_usage(&mut self, entry: NewEvent) {
        let usage = self.events.iter().position(|entry| matches!(entry.event, Event::ModelUsage(_)));
        self.events.insert(usage.unwrap_or(self.events.len()), entry);
    }
}

impl Driver {
    /// Builds the request and reserves its tokens; the error says why the call may not be made.
    pub(super) async fn prepare_call(
        &self,
        key: NodeKey,
        node: Option<NodeId>,
        mut messages: Vec<ModelMessage>,
        tools: ToolAvailability,
        answer_kind: AnswerKind,
    ) -> Result<PreparedModelCall, BoardError> {
        let agent = &self.agent;
        let (tools, schema_tokens): (Arc<[ToolSpec]>, u64) = match tools {
            ToolAvailability::Offered => (self.context.tool_set.specs.clone(), self.context.tool_set.tokens),
            ToolAvailability::Withheld => (Arc::from([]), 0),
        };
        let system_tokens = tokens::estimate(&self.system);
        let window = u64::from(agent.context_window).saturating_sub(u64::from(self.max_output));
        if !context::fit_to_window(&mut messages, system_tokens + schema_tokens, window) {
            tracing::debug!(run.id = %self.context.run, "the request is estimated to be larger than the model's window");
        }
        let offered = !tools.is_empty();
        let message_tokens = system_tokens + tokens::estimate_messages(&messages);
        // A conversation that contains tool calls makes no sense to a model without the tools' schemas.
        let tools_are_needed = messages.iter().flat_map(|message| &message.parts).any(|part| match part {
            ContentPart::Text(_) => false,
            ContentPart::ToolCall(_) | ContentPart::ToolResult(_) => true,
        });
        let (text_tokens, tool_tokens) =
            if tools_are_needed { (message_tokens + schema_tokens, 0) } else { (message_tokens, schema_tokens) };
        let reservation_request = ReservationRequest {
            session: &self.context.call_chain.root_session,
            agent: &agent.name,
            agent_limits: agent.budget,
            key: self.deps.tool_executor.charged_key(&self.context.call_chain)?,
            text_tokens,
            tool_tokens,
            max_output: self.remaining_output(message_tokens + schema_tokens)?,
        };
        let reservation =
            self.deps.ledger.reserve(reservation_request).await.inspect_err(|_| crate::telemetry::budget_refused())?;
        let (tools, estimated_input) = if reservation.tools_fit {
            (tools, text_tokens + tool_tokens)
        } else {
            if offered && tool_tokens > 0 {
                self.note_missing_tools(tool_tokens, text_tokens, reservation.tightest_limit.as_ref());
            }
            (Arc::from([]), text_tokens)
        };
        let request = ModelRequest {
            model: agent.model.clone(),
            system: self.system.clone(),
            messages,
            tools,
            max_tokens: reservation.max_output,
            temperature: agent.temperature,
        };
        let number = self.model_calls.fetch_add(1, Ordering::Relaxed) + 1;
        let held_tokens = estimated_input.saturating_add(u64::from(request.max_tokens));
        let token_hold = self.context.call_chain.token_budget.hold(held_tokens);
        Ok(PreparedModelCall { key, node, answer_kind, number, request, reservation, estimated_input, token_hold })
    }

    /// Notes the missing tools once in the log and once in the reply; otherwise the model would just seem to ignore its
    /// tools.
    fn note_missing_tools(&self, tool_tokens: u64, text_tokens: u64, tightest_limit: Option<&Headroom>) {
        let Some(tightest_limit) = tightest_limit else { return };
        let note = format!(
            "answered without tools: describing them takes about {tool_tokens} tokens besides {text_tokens} for the \
             conversation, and the {} budget has {} of {} left; {}",
            tightest_limit.budget,
            tightest_limit.remaining(),
            tightest_limit.limit,
            tightest_limit.remedy()
        );
        let mut note_state = self.missing_tools_note.lock().unwrap_or_else(PoisonError::into_inner);
        if *note_state == MissingToolsNote::None {
            tracing::warn!(run.id = %self.context.run, agent = %self.agent.name, "{note}");
            *note_state = match self.context.caller.surface {
                // Anyone may be behind a webhook, and budgets cannot be changed from there, so the reply does not
                // mention them.
                Surface::Webhook => MissingToolsNote::Delivered,
                Surface::Gateway | Surface::Runs | Surface::Hub | Surface::Bridge | Surface::Mcp | Surface::Cli => {
                    MissingToolsNote::Pending(note)
                }
            };
        }
    }

    /// The note still to be appended to the reply, at most once.
    fn take_missing_tools_note(&self) -> Option<String> {
        let mut note_state = self.missing_tools_note.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *note_state, MissingToolsNote::Delivered) {
            MissingToolsNote::Pending(note) => Some(note),
            before @ (MissingToolsNote::None | MissingToolsNote::Delivered) => {
                *note_state = before;
                None
            }
        }
    }

    /// Tokens left for the answer by the run's own limit and by those of the runs that wait for it.
    fn remaining_output(&self, input: u64) -> Result<u32, BoardError> {
        match self.context.call_chain.token_budget.remaining(input) {
            Ok(remaining) => Ok(u32::try_from(remaining).unwrap_or(u32::MAX).min(self.max_output)),
            Err(BudgetExhausted { used, limit }) => {
                let needed = input.saturating_add(1);
                let remaining = limit.saturating_sub(used);
                let message = format!(
                    "the run's token limit is reached ({used}/{limit}): the next call needs about {needed} tokens and \
                     {remaining} are left; raise `agents.{}.max_run_tokens`",
                    self.agent.name
                );
                Err(BoardError::new(ErrorKind::Exhausted, message))
            }
        }
    }

    /// The row that marks the call as open, committed before the request is sent.
    pub(super) fn open_row(&self, call: &PreparedModelCall, first_seq: Seq) -> StoreWrite {
        StoreWrite::OpenModelCall(ModelCallRow {
            run: self.context.run,
            number: call.number,
            session: self.context.call_chain.root_session.clone(),
            agent: self.agent.name.clone(),
            provider: self.agent.provider.name().into(),
            model: self.agent.model.clone(),
            estimated_input: call.estimated_input,
            reserved: call.reservation.tokens,
            first_seq,
            node: call.node,
            key: self.context.call_chain.key.clone(),
            at: self.deps.clock.now(),
        })
    }

    /// Makes the call. Chunks of text are stored and published as they arrive; everything else is returned in
    /// `pending`.
    pub(super) async fn make_call(
        &self,
        call: PreparedModelCall,
        stop: &CancellationToken,
    ) -> Result<ModelCallResult, BoardError> {
        let started = tokio::time::Instant::now();
        let PreparedModelCall { key, node, answer_kind, number, request, reservation, estimated_input, token_hold } =
            call;
        let mut answer = StreamingAnswer::new(node, answer_kind, self.records_nodes);
        let span = trace::model_call(self.agent.provider.name(), &request.model);
        let streamed = self.stream_answer(request, stop, &mut answer).instrument(span.clone()).await;
        drop(token_hold);
        let result = match streamed {
            Ok(result) => result,
            Err(error) => {
                // The run ends here without a record, but the tokens received so far are spent.
                reservation.settle(answer.count_tokens(estimated_input).total());
                return Err(error);
            }
        };
        let estimated = answer.stop.is_none() || answer.usage.is_none();
        let tokens = answer.count_tokens(estimated_input);
        self.context.call_chain.token_budget.spend(tokens.total());
        let label = match &result {
            Ok(()) => "ok",
            Err(ModelError::Cancelled) => "cancelled",
            Err(_) => "failed",
        };
        crate::telemetry::model_call(label, tokens, started.elapsed());
        if result.is_ok() && answer_kind == AnswerKind::Reply && answer.calls.is_empty() {
            answer.add_note(self.take_missing_tools_note());
        }
        trace::model_answered(&span, answer.model.as_deref(), tokens, result.as_ref().err());
        drop(span);
        let provider = answer.provider.clone().unwrap_or_else(|| self.agent.provider.name().into());
        let model = answer.model.clone().unwrap_or_else(|| self.agent.model.clone());
        let at = self.deps.clock.now();
        let usage = UsageRow {
            run: self.context.run,
            number,
            at,
            session: self.context.call_chain.root_session.clone(),
            agent: self.agent.name.clone(),
            provider: provider.clone(),
            model: model.clone(),
            tokens,
            cost_nanousd: self.deps.prices.get().cost_nanousd(&model, tokens),
            estimated,
            // The scopes of the reservation, even if the day has changed since.
            scopes: reservation.scopes.clone(),
        };
        let mut pending = PendingCommit { settlement: Some((reservation, tokens.total())), ..PendingCommit::default() };
        pending.events.extend(answer.take_unrecorded());
        if tokens.total() > 0 {
            let event = Event::ModelUsage(ModelCallUsage { tokens, provider, model, estimated });
            pending.events.push(NewEvent { node, event });
        }
        pending.writes.push(StoreWrite::SettleModelCall(usage));
        let result = result.and_then(|()| {
            let stop = answer.stop.ok_or_else(|| ModelError::Truncated("stream ended without a terminator".into()))?;
            Ok(Completion { text: answer.text, calls: answer.calls, stop })
        });
        if self.records_nodes {
            let outcome = match &result {
                Ok(completion) => {
                    ModelCallOutcome::Completed { stop: completion.stop, calls: completion.calls.clone() }
                }
                Err(error) => ModelCallOutcome::Failed(format!("provider error: {error}").into()),
            };
            pending.add_before_usage(NewEvent { node, event: Event::ModelCallEnded(outcome) });
        }
        Ok(ModelCallResult { node: key, result, pending })
    }

    /// Reads the stream to its end into `answer`. The outer error is the store's, the inner one the model's.
    async fn stream_answer(
        &self,
        request: ModelRequest,
        stop: &CancellationToken,
        answer: &mut StreamingAnswer,
    ) -> Result<Result<(), ModelError>, BoardError> {
        if stop.is_cancelled() {
            return Ok(Err(ModelError::Cancelled));
        }
        self.deps.log.tenure().may_act()?;
        let (asked, mut has_first_piece) = (tokio::time::Instant::now(), false);
        // A panic of the provider is a failed call like any other: the run settles it and reports it.
        let opening = async { self.agent.provider.stream(request, stop.child_token()).await };
        let opened = tokio::select! {
            opened = AssertUnwindSafe(opening).catch_unwind() => opened.unwrap_or_else(|_| Err(provider_panicked())),
            () = stop.cancelled() => {
                answer.abandoned = true;
                return Ok(Err(ModelError::Cancelled));
            }
        };
        let mut stream = match opened {
            Ok(stream) => AssertUnwindSafe(stream).catch_unwind().ready_chunks(EVENTS_PER_RECORD),
            Err(error) => return Ok(Err(error)),
        };
        // While one record is being stored the next one is buffered, so that a fast model is stored in few large
        // records and a slow one in small records without delay. The append future must not be dropped before it
        // completes, as the log requires.
        let mut storing: Option<BoxFuture<'_, Result<(), BoardError>>> = None;
        let mut ended: Option<Result<(), ModelError>> = None;
        loop {
            if storing.is_none() {
                if let Some(ended) = ended {
                    return Ok(ended);
                }
                let events = answer.take_unrecorded();
                if !events.is_empty() {
                    storing = Some(Box::pin(self.writer.append(events, vec![], Durability::Delta)));
                }
            }
            let chunk = tokio::select! {
                biased;
                stored = async { storing.as_mut()?.await.err() }, if storing.is_some() => {
                    storing = None;
                    match stored {
                        Some(error) => return Err(error),
                        None => continue,
                    }
                }
                () = stop.cancelled(), if ended.is_none() => {
                    answer.abandoned = true;
                    ended = Some(Err(ModelError::Cancelled));
                    continue;
                }
                chunk = async { self.writer.wait_for_follower().await; stream.next().await },
                    if ended.is_none() && answer.unrecorded.len() <= MAX_BUFFERED_RECORDS => chunk,
            };
            ended = answer.push_chunk(chunk, &*self.deps.ids);
            if !has_first_piece && answer.has_pieces() {
                has_first_piece = true;
                crate::telemetry::model_first_piece(asked.elapsed());
            }
        }
    }
}

/// An answer while it is being received.
#[derive(Debug)]
struct StreamingAnswer {
    node: Option<NodeId>,
    answer_kind: AnswerKind,
    /// Whether chunks of tool arguments are recorded.
    records_arguments: bool,
    /// The id of each call of this answer, by the provider's index.
    call_ids: HashMap<u32, CallId>,
    provider: Option<Arc<str>>,
    model: Option<Arc<str>>,
    text: String,
    reasoning: String,
    calls: Vec<ToolCall>,
    usage: Option<TokenCount>,
    stop: Option<StopReason>,
    /// The call was stopped after the request was sent, so it is billed even if nothing was received yet.
    abandoned: bool,
    /// Text and reasoning records not yet in the log.
    unrecorded: Vec<Event>,
}

impl StreamingAnswer {
    fn new(node: Option<NodeId>, answer_kind: AnswerKind, records_arguments: bool) -> Self {
        Self {
            node,
            answer_kind,
            records_arguments,
            call_ids: HashMap::new(),
            provider: None,
            model: None,
            text: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            usage: None,
            stop: None,
            abandoned: false,
            unrecorded: Vec::new(),
        }
    }

    fn has_pieces(&self) -> bool {
        !(self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty() && self.call_ids.is_empty())
    }

    /// The events to be stored and published next.
    fn take_unrecorded(&mut self) -> Vec<NewEvent> {
        let node = self.node;
        std::mem::take(&mut self.unrecorded).into_iter().map(|event| NewEvent { node, event }).collect()
    }

    /// Applies the next item of the stream; returns the result once the stream has ended.
    fn push_chunk(&mut self, chunk: Option<Vec<StreamItem>>, ids: &dyn IdGenerator) -> Option<Result<(), ModelError>> {
        let Some(chunk) = chunk else {
            return Some(Err(ModelError::Truncated("stream ended without a terminator".into())));
        };
        for event in chunk {
            match event.unwrap_or_else(|_| Err(provider_panicked())) {
                Ok(event) => self.push_event(event, ids),
                Err(error) => return Some(Err(error)),
            }
        }
        if self.text.len() + self.reasoning.len() > MAX_ANSWER_BYTES {
            return Some(Err(ModelError::Rejected(format!("the answer is longer than {MAX_ANSWER_BYTES} bytes"))));
        }
        self.stop.map(|_| Ok(()))
    }

    fn push_event(&mut self, event: ModelEvent, ids: &dyn IdGenerator) {
        match event {
            ModelEvent::ModelSelected { provider, model } => {
                self.provider = Some(provider);
                self.model = Some(model);
            }
            ModelEvent::Text(piece) => self.push_text(&piece),
            ModelEvent::Thought(piece) => {
                self.reasoning.push_str(&piece);
                match self.unrecorded.last_mut() {
                    Some(Event::ThoughtText(pieces)) if !pieces.is_full() => pieces.push(&piece),
                    _ => self.unrecorded.push(Event::ThoughtText(TextChunks::of_single(&piece))),
                }
            }
            ModelEvent::ToolCallChunk { index, name, text } => {
                if self.records_arguments && (self.call_ids.len() < MAX_CALLS || self.call_ids.contains_key(&index)) {
                    self.push_argument(index, name, &text, ids);
                }
            }
            ModelEvent::ToolCall { index, name, input, .. } => {
                if self.calls.len() < MAX_CALLS {
                    // An index that is used twice gets a fresh id: ids are never shared.
                    let id = self.call_ids.remove(&index).unwrap_or_else(|| call_id(ids));
                    self.calls.push(ToolCall { id, name, input: limit_depth(input) });
                }
            }
            ModelEvent::Usage(tokens) => self.usage = Some(tokens),
            ModelEvent::Stop(reason) => self.stop = Some(reason),
        }
    }

    /// Appends the server's own text to the reply.
    fn add_note(&mut self, note: Option<String>) {
        let Some(note) = note else { return };
        let before = if self.text.is_empty() { "" } else { "\n\n" };
        self.push_text(&format!("{before}({note})"));
    }

    fn push_text(&mut self, piece: &str) {
        self.text.push_str(piece);
        match (self.unrecorded.last_mut(), self.answer_kind) {
            (Some(Event::AnswerText(pieces)), AnswerKind::Reply)
            | (Some(Event::DraftText(pieces)), AnswerKind::Draft)
                if !pieces.is_full() =>
            {
                pieces.push(piece);
            }
            (_, AnswerKind::Reply) => self.unrecorded.push(Event::AnswerText(TextChunks::of_single(piece))),
            (_, AnswerKind::Draft) => self.unrecorded.push(Event::DraftText(TextChunks::of_single(piece))),
        }
    }

    fn push_argument(&mut self, index: u32, name: Arc<str>, text: &str, ids: &dyn IdGenerator) {
        let is_first = !self.call_ids.contains_key(&index);
        let id = self.call_ids.entry(index).or_insert_with(|| call_id(ids)).clone();
        match self.unrecorded.last_mut() {
            Some(Event::ToolArguments { call, pieces, .. }) if *call == id && !pieces.is_full() => pieces.push(text),
            _ => self.unrecorded.push(Event::ToolArguments {
                call: id,
                name,
                is_first,
                pieces: TextChunks::of_single(text),
            }),
        }
    }

    fn count_tokens(&self, estimated_input: u64) -> TokenCount {
        let arguments = self.calls.iter().map(|call| match &call.input {
            ToolInput::Json(value) => tokens::estimate(&value.to_string()),
            ToolInput::Malformed(text) => tokens::estimate(text),
        });
        let text_tokens = tokens::estimate(&self.text) + tokens::estimate(&self.reasoning);
        ReceivedAnswer {
            usage: self.usage,
            is_complete: self.stop.is_some(),
            has_content: self.provider.is_some() || !self.text.is_empty() || !self.calls.is_empty(),
            is_abandoned: self.abandoned,
            estimated_input,
            estimated_output: text_tokens + arguments.sum::<u64>(),
        }
        .charged_tokens()
    }
}

fn call_id(ids: &dyn IdGenerator) -> CallId {
    CallId(format!("call_{}", ids.next().simple()).into())
}

fn provider_panicked() -> ModelError {
    tracing::error!("provider panicked");
    ModelError::Unavailable("internal error in the provider".to_owned())
}

fn limit_depth(input: ToolInput) -> ToolInput {
    match input {
        ToolInput::Json(value) if exceeds_depth(&value, MAX_ARGUMENT_DEPTH) => {
            ToolInput::Malformed(value.to_string().into())
        }
        ToolInput::Json(_) | ToolInput::Malformed(_) => input,
    }
}

fn exceeds_depth(value: &Value, depth: usize) -> bool {
    let Some(remaining) = depth.checked_sub(1) else { return value.is_array() || value.is_object() };
    match value {
        Value::Array(items) => items.iter().any(|item| exceeds_depth(item, remaining)),
        Value::Object(fields) => fields.values().any(|field| exceeds_depth(field, remaining)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
