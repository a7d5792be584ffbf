//! Carries one run from its first word to its last: does what the strategy says, records before it tells.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::model_call::{CallEnd, Pending, PreparedCall};
use super::strategy::{self, Brief, Finish, Input, Step, Strategy};
use super::workload::Workload;
use crate::access::Caller;
use crate::agent::{AgentSpec, Origin};
use crate::budget::Ledger;
use crate::budget::price::PriceTable;
use crate::error::{BoardError, ErrorKind};
use crate::event::{Event, RunOutcome, Topic};
use crate::id::{CallId, RunId, Seq, SessionKey};
use crate::log::Log;
use crate::memory::Memory;
use crate::model::Message;
use crate::port::{Clock, Durability, Ids, NewTurn, RunRow, RunState, Write};
use crate::session::Turn;
use crate::tool::desk::Intent;
use crate::tool::{CallContext, ToolDesk, ToolOutput, ToolRegistry};

/// What every run works with.
#[derive(Debug)]
pub struct RunDeps {
    pub log: Arc<Log>,
    pub ledger: Arc<Ledger>,
    pub desk: ToolDesk,
    pub registry: ToolRegistry,
    pub memory: Memory,
    pub prices: PriceTable,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub limits: RunLimits,
}

#[derive(Debug, Clone, Copy)]
pub struct RunLimits {
    /// How long a run goes on when nobody follows it.
    pub orphan_grace: Duration,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { orphan_grace: Duration::from_secs(60) }
    }
}

/// A run that has its turn.
#[derive(Debug)]
pub struct RunRequest {
    pub run: RunId,
    pub caller: Caller,
    pub agent: Arc<AgentSpec>,
    pub origin: Origin,
    pub session: SessionKey,
    pub client_id: Arc<str>,
    pub content: Arc<str>,
    pub turn: Turn,
    pub stop: CancellationToken,
}

/// A run that has begun.
#[derive(Debug)]
pub struct Driver {
    pub(super) deps: Arc<RunDeps>,
    pub(super) agent: Arc<AgentSpec>,
    pub(super) context: CallContext,
    pub(super) system: Arc<str>,
    pub(super) calls: AtomicU32,
    /// Tokens of all settled calls.
    pub(super) used: AtomicU64,
    origin: Origin,
    content: Arc<str>,
    stop: CancellationToken,
    /// Cancelled with `stop`, and when the strategy has finished while calls are still under way.
    work_stop: CancellationToken,
    started: tokio::time::Instant,
    /// Held to the end: the session's next turn begins after this one is on record.
    _turn: Turn,
}

/// A run that is on record, with its first model call reserved: `go` makes it.
#[derive(Debug)]
pub struct Begun {
    driver: Driver,
    strategy: Box<dyn Strategy>,
    first: PreparedCall,
}

/// What one piece of work came to.
enum Progress {
    Model(CallEnd),
    Tool(CallId, ToolOutput),
}

type Work<'a> = Workload<'a, Result<Progress, BoardError>>;

impl Begun {
    /// Recalls, reserves and records. An error here means that nothing happened: no run, no tokens, no turn.
    pub async fn begin(deps: Arc<RunDeps>, request: RunRequest) -> Result<Self, BoardError> {
        let RunRequest { run, caller, agent, origin, session, client_id, content, turn, stop } = request;
        agent.provider.check()?;
        let recalled = deps.memory.recall(&agent, &origin, &session, &content, &stop).await?;
        let offer = deps.registry.offer(agent.tools_for(caller.surface).as_deref());
        let writer = Arc::new(deps.log.open(Topic::Run(run), Seq::FIRST));
        let mut strategy = strategy::build(
            agent.strategy,
            Brief {
                history: recalled.messages,
                user: Message::user(content.clone()),
                max_model_calls: agent.max_model_calls,
            },
        );
        let row = RunRow {
            run,
            session: session.clone(),
            principal: caller.principal.clone(),
            client_id,
            surface: caller.surface.name().into(),
            started_at: deps.clock.now(),
            input: content.clone(),
            state: RunState::Running,
        };
        let surface = caller.surface.name();
        let driver = Driver {
            context: CallContext { caller, run, session: session.clone(), offer, writer },
            system: recalled.system.into(),
            calls: AtomicU32::new(0),
            used: AtomicU64::new(0),
            started: tokio::time::Instant::now(),
            _turn: turn,
            deps,
            agent,
            origin,
            content,
            work_stop: stop.child_token(),
            stop,
        };
        let mut steps = Vec::new();
        strategy.advance(Input::Begin, &mut steps);
        let Some(Step::AskModel { ask, messages, tools }) = steps.pop() else {
            return Err(BoardError::new(ErrorKind::Internal, "the strategy did not begin by asking the model"));
        };
        let first = driver.prepare_call(ask, messages, tools).await?;
        let opening = Event::RunStarted { session, agent: driver.agent.name.clone() };
        let writes = vec![Write::OpenRun(row), driver.open_row(&first, Seq::FIRST.next())];
        driver.context.writer.append(vec![opening], writes, Durability::Boundary).await?;
        crate::telemetry::run_started(surface);
        Ok(Self { driver, strategy, first })
    }

    /// Works until the run has ended, one way or another, and its end is on record.
    #[tracing::instrument(name = "run", skip_all, fields(run.id = %self.driver.context.run, session.key = %self.driver.context.session))]
    pub async fn go(self) {
        let Self { driver, mut strategy, first } = self;
        let ended = {
            let work = driver.work(strategy.as_mut(), first);
            let orphaned = driver.context.writer.orphaned(driver.deps.limits.orphan_grace);
            tokio::pin!(work);
            tokio::select! {
                ended = &mut work => ended,
                () = orphaned => {
                    tracing::debug!("nobody follows the run any more; cancelling it");
                    driver.stop.cancel();
                    work.await
                }
                () = tokio::time::sleep(driver.agent.run_timeout) => {
                    driver.work_stop.cancel();
                    work.await
                }
            }
        };
        let recorded = match ended {
            Ok(ending) => driver.finish(strategy.transcript(), ending).await,
            Err(error) => Err(error),
        };
        if let Err(error) = recorded {
            let cause = error.source.as_ref().map(ToString::to_string).unwrap_or_default();
            tracing::error!(%error, cause, "the run could not be recorded and was dropped; it ends as interrupted at the next start");
            crate::telemetry::run_ended(RunOutcome::Interrupted, driver.started.elapsed());
        }
    }
}

/// How a run ends, with what is still to be recorded.
struct Ending {
    outcome: RunOutcome,
    failure: Option<String>,
    pending: Pending,
}

impl Ending {
    fn failed(message: String, pending: Pending) -> Self {
        Self { outcome: RunOutcome::Failed, failure: Some(message), pending }
    }
}

impl Driver {
    async fn work(&self, strategy: &mut dyn Strategy, first: PreparedCall) -> Result<Ending, BoardError> {
        let mut work: Work<'_> = Workload::new();
        work.push(self.model_work(first));
        let ending = self.work_until_end(strategy, &mut work).await?;
        // Whatever still runs is stopped, and what it cost and did is recorded before the run's end is.
        self.work_stop.cancel();
        while let Some(progress) = work.next().await {
            if let Progress::Model(CallEnd { mut pending, .. }) = progress? {
                work.alongside(self.record(&mut pending)).await?;
            }
        }
        Ok(ending)
    }

    async fn work_until_end<'a>(
        &'a self,
        strategy: &mut dyn Strategy,
        work: &mut Work<'a>,
    ) -> Result<Ending, BoardError> {
        let mut steps = Vec::new();
        while let Some(progress) = work.next().await {
            let (input, mut pending) = match progress? {
                Progress::Model(CallEnd { ask, result: Ok(completion), pending }) => {
                    (Input::ModelAnswered { ask, completion }, pending)
                }
                Progress::Model(CallEnd { ask, result: Err(error), pending }) => {
                    (Input::ModelFailed { ask, error }, pending)
                }
                Progress::Tool(call, output) => (Input::ToolFinished { call, output }, Pending::default()),
            };
            if self.stop.is_cancelled() {
                return Ok(Ending { outcome: RunOutcome::Cancelled, failure: None, pending });
            }
            if self.work_stop.is_cancelled() {
                let seconds = self.agent.run_timeout.as_secs();
                return Ok(Ending::failed(format!("stopped after {seconds} s, the longest a run may take"), pending));
            }
            strategy.advance(input, &mut steps);
            let mut intents = Vec::new();
            for step in steps.drain(..) {
                match step {
                    Step::Finish(Finish::Completed) => {
                        return Ok(Ending { outcome: RunOutcome::Completed, failure: None, pending });
                    }
                    Step::Finish(Finish::Failed(message)) => return Ok(Ending::failed(message, pending)),
                    Step::CallTool(call) => {
                        let (event, intent) = ToolDesk::intend(call);
                        pending.add_before_usage(event);
                        intents.push(intent);
                    }
                    Step::AskModel { ask, messages, tools } => {
                        let call = match work.alongside(self.prepare_call(ask, messages, tools)).await {
                            Ok(call) => call,
                            Err(refused) => return Ok(Ending::failed(refused.message, pending)),
                        };
                        let first_seq = work.alongside(self.context.writer.next_seq()).await;
                        pending.writes.push(self.open_row(&call, first_seq));
                        work.alongside(self.record(&mut pending)).await?;
                        work.push(self.model_work(call));
                    }
                }
            }
            // What the model said, the calls it wants and what it cost, on record in one commit before any tool runs.
            work.alongside(self.record(&mut pending)).await?;
            for intent in intents {
                work.push(self.tool_work(intent));
            }
        }
        Ok(Ending::failed("the run stopped without an answer".to_owned(), Pending::default()))
    }

    fn model_work(&self, call: PreparedCall) -> BoxFuture<'_, Result<Progress, BoardError>> {
        Box::pin(async move { Ok(Progress::Model(self.make_call(call, &self.work_stop).await?)) })
    }

    fn tool_work(&self, intent: Intent) -> BoxFuture<'_, Result<Progress, BoardError>> {
        Box::pin(async move {
            let output = self.deps.desk.call(&self.context, &intent, &self.work_stop).await?;
            Ok(Progress::Tool(intent.call_id().clone(), output))
        })
    }

    /// Commits what is pending, then settles the budget it used: tokens are spent whether or not the store says so.
    async fn record(&self, pending: &mut Pending) -> Result<(), BoardError> {
        let Pending { events, writes, settlement } = std::mem::take(pending);
        let recorded = if events.is_empty() && writes.is_empty() {
            Ok(())
        } else {
            self.context.writer.append(events, writes, Durability::Boundary).await
        };
        if let Some((reservation, used)) = settlement {
            reservation.settle(used);
        }
        recorded
    }

    /// The last commit: the turn, its facts and `RunEnded` together, so that whoever hears `done` finds the turn stored.
    async fn finish(&self, transcript: &[Message], ending: Ending) -> Result<(), BoardError> {
        let Ending { outcome, failure, mut pending } = ending;
        let at = self.deps.clock.now();
        let run = self.context.run;
        if let Some(message) = failure {
            tracing::debug!(failure = %message, "run failed");
            pending.events.push(Event::RunFailed { message: message.into() });
        }
        if outcome == RunOutcome::Completed {
            let session = self.context.session.clone();
            let facts = self.deps.memory.learn(&self.origin, &session, &self.content, &self.stop).await;
            pending.writes.push(Write::Turn(NewTurn { session, run, at, messages: transcript.to_vec() }));
            pending.writes.extend(facts.into_iter().map(Write::Fact));
        }
        pending.events.push(Event::RunEnded { outcome });
        pending.writes.push(Write::CloseRun { run, outcome, at });
        self.record(&mut pending).await?;
        crate::telemetry::run_ended(outcome, self.started.elapsed());
        Ok(())
    }
}
