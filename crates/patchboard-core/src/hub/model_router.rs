//! Asks a model which apps a message is for: reserved, recorded and settled like every model call.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::agent::AgentSpec;
use crate::app::AppProfile;
use crate::budget::charge::ReceivedAnswer;
use crate::budget::price::PriceTable;
use crate::budget::{Ledger, ReservationRequest};
use crate::conversation::ConversationOrigin;
use crate::error::BoardError;
use crate::event::RunOutcome;
use crate::hub::routing::model_prompt::{MAX_OUTPUT, ModelPicks, RoutingPrompt};
use crate::id::{RunId, Seq, SessionKey};
use crate::keys::KeyRing;
use crate::model::{ModelError, ModelEvent, ModelRequest, StopReason, TokenCount, ToolInput};
use crate::port::{Clock, IdGenerator};
use crate::reloadable::Reloadable;
use crate::run::held::HeldRuns;
use crate::run_spec::StrategyKind;
use crate::store::{ModelCallRow, RunRequests, RunRow, RunState, Store, StoreWrite, UsageRow, WriteBatch};
use crate::tenure::Tenure;
use crate::tokens;

/// Past this the model counts as unavailable, and the message waits.
const MODEL_TIMEOUT: Duration = Duration::from_secs(60);
/// Concurrent model calls; further ones wait for a permit.
pub(crate) const MAX_CONCURRENT_CALLS: usize = 8;

#[derive(Debug)]
pub(crate) struct ModelRouter {
    pub(crate) agent: Arc<Reloadable<AgentSpec>>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) prices: Arc<Reloadable<PriceTable>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) held_runs: HeldRuns,
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdGenerator>,
    pub(crate) call_permits: Semaphore,
    pub(crate) keys: Arc<KeyRing>,
}

/// What was received from the stream, complete or not.
#[derive(Default)]
struct StreamAccumulator {
    provider: Option<Arc<str>>,
    model: Option<Arc<str>>,
    calls: Vec<(Arc<str>, ToolInput)>,
    usage: Option<TokenCount>,
    written: u64,
    stop: Option<StopReason>,
    /// Cancelled or timed out by the server.
    is_abandoned: bool,
}

impl ModelRouter {
    pub(crate) async fn choose_apps(
        &self,
        text: &str,
        apps: &[Arc<AppProfile>],
        refusals: &[(Arc<str>, Arc<str>)],
        key: Option<Arc<str>>,
        stop: &CancellationToken,
    ) -> Result<ModelPicks, BoardError> {
        // One configuration for the whole call, whatever is reloaded meanwhile.
        let agent = self.agent.get();
        agent.provider.check()?;
        let _permit = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(BoardError::cancelled()),
            permit = self.call_permits.acquire() => permit.map_err(|_| BoardError::shutting_down())?,
        };
        let prompt = RoutingPrompt::new(text, apps, refusals);
        let run = RunId(self.ids.next());
        // For budgets every call is a session of its own; in session lists all calls share one session.
        let budget_session = session_of(&agent, &run.to_string());
        let schemas: u64 = prompt.tools.iter().map(tokens::estimate_tool).sum();
        let input = tokens::estimate(&prompt.system) + tokens::estimate_messages(&prompt.messages) + schemas;
        let reservation_request = ReservationRequest {
            session: &budget_session,
            agent: &agent.name,
            agent_limits: agent.budget,
            // The message of a key that was revoked since is still routed.
            key: key.as_ref().and_then(|name| self.keys.get(name)),
            text_tokens: input,
            tool_tokens: 0,
            max_output: agent.max_tokens.min(MAX_OUTPUT),
        };
        let reservation =
            self.ledger.reserve(reservation_request).await.inspect_err(|_| crate::telemetry::budget_refused())?;
        let session = session_of(&agent, "router");
        let at = self.clock.now();
        let opening_writes = vec![
            StoreWrite::OpenRun(RunRow {
                run,
                session: session.clone(),
                principal: "hub".into(),
                client_id: format!("route-{run}").into(),
                surface: "hub".into(),
                agent: agent.name.clone(),
                strategy: StrategyKind::React,
                started_at: at,
                input: "".into(),
                state: RunState::Running,
                requests: RunRequests::default(),
            }),
            StoreWrite::OpenModelCall(ModelCallRow {
                run,
                number: 1,
                session: session.clone(),
                agent: agent.name.clone(),
                provider: agent.provider.name().into(),
                model: agent.model.clone(),
                estimated_input: input,
                reserved: reservation.tokens,
                first_seq: Seq::FIRST,
                node: None,
                key,
                at,
            }),
        ];
        // Its question is not asked again by another process: what is left of the run is only closed.
        let _hold = self.held_runs.hold(run);
        self.store.commit(WriteBatch::boundary(opening_writes)).await?;
        self.tenure.may_act()?;
        let started = tokio::time::Instant::now();
        let mut accumulator = StreamAccumulator::default();
        let request = prompt.request(agent.model.clone(), reservation.max_output);
        let result = read_stream(&agent, request, stop, &mut accumulator).await;
        let estimated = accumulator.stop.is_none() || accumulator.usage.is_none();
        let tokens = accumulator.received(input).charged_tokens();
        let label = if result.is_ok() { "ok" } else { "failed" };
        crate::telemetry::model_call(label, tokens, started.elapsed());
        let model = accumulator.model.clone().unwrap_or_else(|| agent.model.clone());
        let at = self.clock.now();
        let outcome = if result.is_ok() { RunOutcome::Completed } else { RunOutcome::Failed };
        let closing_writes = vec![
            StoreWrite::SettleModelCall(UsageRow {
                run,
                number: 1,
                at,
                session,
                agent: agent.name.clone(),
                provider: accumulator.provider.clone().unwrap_or_else(|| agent.provider.name().into()),
                tokens,
                cost_nanousd: self.prices.get().cost_nanousd(&model, tokens),
                model,
                estimated,
                scopes: reservation.scopes.clone(),
            }),
            StoreWrite::CloseRun { run, outcome, at },
        ];
        let stored = self.store.commit(WriteBatch::boundary(closing_writes)).await;
        reservation.settle(tokens.total());
        stored?;
        result?;
        let calls = accumulator.calls.iter().map(|(name, input)| (&**name, input));
        Ok(prompt.parse_picks(calls))
    }
}

fn session_of(agent: &AgentSpec, peer: &str) -> SessionKey {
    let origin = ConversationOrigin {
        channel: "hub".into(),
        account: "local".into(),
        peer: Some(peer.to_owned()),
        guild: None,
        team: None,
    };
    origin.session_key(&agent.name)
}

async fn read_stream(
    agent: &AgentSpec,
    request: ModelRequest,
    cancelled: &CancellationToken,
    accumulator: &mut StreamAccumulator,
) -> Result<(), ModelError> {
    let stop = cancelled.child_token();
    let reading = async {
        let mut events = agent.provider.stream(request, stop.clone()).await?;
        while let Some(event) = events.next().await {
            accumulator.apply(event?);
        }
        match accumulator.stop {
            Some(_) => Ok(()),
            None => Err(ModelError::Truncated("stream ended without a terminator".into())),
        }
    };
    let result = tokio::select! {
        biased;
        result = tokio::time::timeout(MODEL_TIMEOUT, reading) => result.ok(),
        () = cancelled.cancelled() => Some(Err(ModelError::Cancelled)),
    };
    accumulator.is_abandoned = result.is_none() || cancelled.is_cancelled();
    let result = result.unwrap_or_else(|| Err(ModelError::Timeout("the model took too long to choose".into())));
    // Ends the upstream call if it is still running.
    stop.cancel();
    result
}

impl StreamAccumulator {
    fn received(&self, estimated_input: u64) -> ReceivedAnswer {
        ReceivedAnswer {
            usage: self.usage,
            is_complete: self.stop.is_some(),
            has_content: self.provider.is_some() || self.written > 0 || !self.calls.is_empty(),
            is_abandoned: self.is_abandoned,
            estimated_input,
            estimated_output: self.written,
        }
    }

    fn apply(&mut self, event: ModelEvent) {
        match event {
            ModelEvent::ModelSelected { provider, model } => {
                self.provider = Some(provider);
                self.model = Some(model);
            }
            ModelEvent::Text(text) | ModelEvent::Thought(text) => self.written += tokens::estimate(&text),
            ModelEvent::ToolCallChunk { text, .. } => self.written += tokens::estimate(&text),
            ModelEvent::ToolCall { name, input, .. } => self.calls.push((name, input)),
            ModelEvent::Usage(tokens) => self.usage = Some(tokens),
            ModelEvent::Stop(reason) => self.stop = Some(reason),
        }
    }
}

#[cfg(test)]
mod tests;
