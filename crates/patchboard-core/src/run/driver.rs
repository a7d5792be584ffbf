//! Carries one run from its first word to its last: does what the strategy says, records before it tells.

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::begin::{Begun, Start, Stops};
use super::model_call::{CallEnd, Pending, PreparedCall, ToolsNote};
use super::nodes::NodeBook;
use super::strategy::{Finish, Input, NodeKey, Step, Strategy, ToolUse, Voice};
use super::workload::Workload;
use crate::agent::{AgentSpec, Origin};
use crate::budget::Ledger;
use crate::budget::price::PriceTable;
use crate::error::{BoardError, ErrorKind};
use crate::event::{Entry, Event, RunOutcome};
use crate::id::{CallId, NodeId, Seq};
use crate::live::Live;
use crate::log::{Log, TopicWriter};
use crate::memory::Memory;
use crate::model::{Message, ToolCall};
use crate::port::{Clock, Durability, Folders, Ids, NewTurn, Write};
use crate::session::Turn;
use crate::tool::desk::Intent;
use crate::tool::{CallContext, ToolDesk, ToolOutput, ToolRegistry};
use crate::trace;

/// What every run works with.
#[derive(Debug)]
pub struct RunDeps {
    pub log: Arc<Log>,
    pub ledger: Arc<Ledger>,
    pub desk: ToolDesk,
    pub registry: ToolRegistry,
    pub memory: Memory,
    pub folders: Arc<dyn Folders>,
    pub prices: Arc<Live<PriceTable>>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub limits: Live<RunLimits>,
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

/// A run that has begun.
#[derive(Debug)]
pub struct Driver {
    pub(super) deps: Arc<RunDeps>,
    pub(super) agent: Arc<AgentSpec>,
    pub(super) context: CallContext,
    pub(super) writer: Arc<TopicWriter>,
    pub(super) system: Arc<str>,
    /// Does the run tell of its nodes? Such runs are resumed after a crash.
    pub(super) told: bool,
    pub(super) verbose: bool,
    pub(super) calls: AtomicU32,
    pub(super) without_tools: Mutex<ToolsNote>,
    /// The longest answer of one call.
    pub(super) max_output: u32,
    pub(super) origin: Origin,
    pub(super) content: Arc<str>,
    pub(super) stops: Stops,
    /// Cancelled with the run, and when the strategy has finished while calls are still under way.
    pub(super) work_stop: CancellationToken,
    pub(super) started: tokio::time::Instant,
    pub(super) trace: Option<Arc<str>>,
    /// Held to the end: the session's next turn begins after this one is on record.
    pub(super) _turn: Turn,
}

/// What one piece of work came to.
enum Progress {
    Model(CallEnd),
    Tool(CallId, ToolOutput),
}

type Work<'a> = Workload<'a, Result<Progress, BoardError>>;

impl Begun {
    /// Works until the run has ended, one way or another, and its end is on record.
    pub async fn go(self) {
        let driver = &self.driver;
        let session = &driver.context.scope.session;
        let span = trace::run(driver.context.run, session, &driver.agent.name, driver.trace.as_deref());
        self.go_on().instrument(span).await;
    }

    async fn go_on(self) {
        let Self { driver, mut strategy, mut nodes, start } = self;
        let ended = {
            let work = driver.work(strategy.as_mut(), &mut nodes, start);
            let abandoned = driver.abandoned();
            tokio::pin!(work);
            tokio::select! {
                ended = &mut work => ended,
                () = abandoned => {
                    tracing::debug!("nobody follows the run any more; cancelling it");
                    driver.stops.cancel.cancel();
                    work.await
                }
                () = tokio::time::sleep(driver.agent.run_timeout) => {
                    driver.work_stop.cancel();
                    work.await
                }
                () = driver.stops.suspend.cancelled() => {
                    if !driver.work_stop.is_cancelled() {
                        // Dropped where it stands: the next process finds on record what this one would have gone on
                        // with.
                        driver.writer.suspend();
                        driver.told_of(RunOutcome::Interrupted);
                        return;
                    }
                    // It was stopped before: it only has its end to record, and must not go on at the next start.
                    work.await
                }
            }
        };
        let recorded = match ended {
            Ok(ending) => driver.finish(&strategy.transcript(), &mut nodes, ending).await,
            Err(error) => Err(error),
        };
        if let Err(error) = recorded {
            let cause = error.source.as_ref().map(ToString::to_string).unwrap_or_default();
            tracing::error!(%error, cause, "the run could not be recorded and was dropped; the next start deals with it");
            driver.told_of(RunOutcome::Interrupted);
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

/// A question of a strategy that has not been asked yet.
struct Question {
    node: NodeKey,
    messages: Vec<Message>,
    tools: ToolUse,
    voice: Voice,
}

/// The work of one run: what is under way, and what waits for it.
struct Progressing<'a, 'n> {
    driver: &'a Driver,
    nodes: &'n mut NodeBook,
    work: Work<'a>,
    /// Model calls under way.
    asking: usize,
    /// Questions the budget has no room for until another call of this run is settled.
    waiting: VecDeque<Question>,
    /// Calls of the last process that may have taken effect.
    unsure: HashSet<CallId>,
    /// Calls that stand in an answer on record; a strategy may make others up from what the model wrote.
    announced: HashSet<CallId>,
}

impl Driver {
    /// Nobody has followed the run for its grace, and nobody asked for it to go on all the same.
    async fn abandoned(&self) {
        self.writer.orphaned(self.deps.limits.get().orphan_grace).await;
        if self.stops.kept.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    async fn work(
        &self,
        strategy: &mut dyn Strategy,
        nodes: &mut NodeBook,
        start: Start,
    ) -> Result<Ending, BoardError> {
        let mut progressing = Progressing {
            driver: self,
            nodes,
            work: Workload::new(),
            asking: 0,
            waiting: VecDeque::new(),
            unsure: HashSet::new(),
            announced: HashSet::new(),
        };
        let ending = progressing.until_end(strategy, start).await?;
        // Whatever still runs is stopped, and what it cost and did is recorded before the run's end is.
        self.work_stop.cancel();
        let mut work = progressing.work;
        while let Some(progress) = work.next().await {
            if let Progress::Model(CallEnd { mut pending, .. }) = progress? {
                work.alongside(self.record(&mut pending)).await?;
            }
        }
        Ok(ending)
    }

    fn model_work(&self, call: PreparedCall) -> BoxFuture<'_, Result<Progress, BoardError>> {
        Box::pin(async move { Ok(Progress::Model(self.make_call(call, &self.work_stop).await?)) })
    }

    fn tool_work(&self, node: Option<NodeId>, intent: Intent) -> BoxFuture<'_, Result<Progress, BoardError>> {
        Box::pin(async move {
            let context = CallContext { node, ..self.context.clone() };
            let output = self.deps.desk.call(&context, &intent, &self.work_stop).await?;
            Ok(Progress::Tool(intent.call_id().clone(), output))
        })
    }

    /// Commits what is pending, then settles the budget it used: tokens are spent whether or not the store says so.
    async fn record(&self, pending: &mut Pending) -> Result<(), BoardError> {
        let Pending { events, writes, settlement } = std::mem::take(pending);
        let recorded = if events.is_empty() && writes.is_empty() {
            Ok(())
        } else {
            self.writer.append(events, writes, Durability::Boundary).await
        };
        if let Some((reservation, used)) = settlement {
            reservation.settle(used);
        }
        recorded
    }

    /// The last commit: the turn, its facts and `RunEnded` together, so that whoever hears `done` finds the turn stored.
    async fn finish(&self, transcript: &[Message], nodes: &mut NodeBook, ending: Ending) -> Result<(), BoardError> {
        let Ending { outcome, failure, mut pending } = ending;
        let at = self.deps.clock.now();
        let run = self.context.run;
        let reason = match outcome {
            RunOutcome::Cancelled => "cancelled",
            RunOutcome::Completed | RunOutcome::Failed | RunOutcome::Interrupted => "the run ended",
        };
        pending.events.extend(nodes.leave_all(failure.as_deref().unwrap_or(reason)));
        if let Some(message) = failure {
            tracing::debug!(failure = %message, "run failed");
            pending.events.push(Event::RunFailed { message: message.into() }.into());
        }
        if outcome == RunOutcome::Completed {
            let session = self.context.scope.session.clone();
            let facts = match self.context.nesting.depth() {
                0 => self.deps.memory.learn(&self.origin, &session, &self.content, &self.stops.cancel).await,
                // Another agent's words, not the user's.
                _ => Vec::new(),
            };
            pending.writes.push(Write::Turn(NewTurn { session, run, at, messages: transcript.to_vec() }));
            pending.writes.extend(facts.into_iter().map(Write::Fact));
        }
        pending.events.push(Event::RunEnded { outcome }.into());
        pending.writes.push(Write::CloseRun { run, outcome, at });
        self.stops.over.store(true, Ordering::Relaxed);
        self.record(&mut pending).await?;
        self.told_of(outcome);
        Ok(())
    }

    fn told_of(&self, outcome: RunOutcome) {
        crate::telemetry::run_ended(outcome, self.started.elapsed());
        trace::run_ended(outcome);
    }
}

impl Progressing<'_, '_> {
    async fn until_end(&mut self, strategy: &mut dyn Strategy, start: Start) -> Result<Ending, BoardError> {
        match start {
            Start::Fresh(first) => self.ask(*first),
            Start::Resumed { steps, unsure, announced } => {
                self.unsure = unsure;
                self.announced = announced;
                if let Some(ending) = self.perform(steps, Pending::default()).await? {
                    return Ok(ending);
                }
            }
        }
        while let Some(progress) = self.work.next().await {
            let (input, pending) = match progress? {
                Progress::Model(CallEnd { node, result, pending }) => {
                    self.asking -= 1;
                    let input = match result {
                        Ok(completion) => {
                            self.announced.extend(completion.calls.iter().map(|call| call.id.clone()));
                            Input::ModelAnswered { node, completion }
                        }
                        Err(error) => Input::ModelFailed { node, error: format!("provider error: {error}") },
                    };
                    (input, pending)
                }
                Progress::Tool(call, output) => (Input::ToolFinished { call, output }, Pending::default()),
            };
            let driver = self.driver;
            if driver.stops.cancel.is_cancelled() {
                return Ok(Ending { outcome: RunOutcome::Cancelled, failure: None, pending });
            }
            if driver.work_stop.is_cancelled() {
                let seconds = driver.agent.run_timeout.as_secs();
                return Ok(Ending::failed(format!("stopped after {seconds} s, the longest a run may take"), pending));
            }
            let mut steps = Vec::new();
            let advanced = std::panic::catch_unwind(AssertUnwindSafe(|| strategy.advance(input, &mut steps)));
            if advanced.is_err() {
                tracing::error!("the strategy panicked");
                return Ok(Ending::failed("the strategy failed inside".to_owned(), pending));
            }
            if let Some(ending) = self.perform(steps, pending).await? {
                return Ok(ending);
            }
        }
        Ok(Ending::failed("the run stopped without an answer".to_owned(), Pending::default()))
    }

    /// Does what the strategy says. What the model said, the calls it wants and what it cost go on record in one commit
    /// before any of it is acted on.
    async fn perform(&mut self, steps: Vec<Step>, mut pending: Pending) -> Result<Option<Ending>, BoardError> {
        let mut intents: Vec<(Option<NodeId>, Intent)> = Vec::new();
        for step in steps {
            match step {
                Step::Enter { node, name } => {
                    if self.driver.verbose {
                        tracing::info!(node = name, "node entered");
                    }
                    pending.events.extend(self.nodes.enter(node, name));
                }
                Step::Leave { node, failed } => {
                    if self.driver.verbose {
                        tracing::info!(node = node.0, failed, "node left");
                    }
                    pending.events.extend(self.nodes.leave(node, failed));
                }
                Step::Tell { node, finding } => pending.events.extend(self.nodes.tell(node, finding)),
                Step::CallTool { node, call } => {
                    let node = self.nodes.node(node);
                    intents.push((node, self.intend(node, call, &mut pending)));
                }
                Step::AskModel { node, messages, tools, voice } => {
                    self.waiting.push_back(Question { node, messages, tools, voice });
                }
                Step::Finish(Finish::Completed) => {
                    return Ok(Some(Ending { outcome: RunOutcome::Completed, failure: None, pending }));
                }
                Step::Finish(Finish::Failed(message)) => return Ok(Some(Ending::failed(message, pending))),
            }
        }
        // Settled first: what this call gave back may be what the next one needs.
        if pending.settlement.is_some() && !self.waiting.is_empty() {
            self.record(&mut pending).await?;
        }
        if let Some(refused) = self.ask_waiting(&mut pending).await? {
            return Ok(Some(Ending::failed(refused, pending)));
        }
        self.record(&mut pending).await?;
        for (node, intent) in intents {
            self.work.push(self.driver.tool_work(node, intent));
        }
        Ok(None)
    }

    /// A call of the last process is intended already; whether it took effect is for the desk to deal with.
    fn intend(&mut self, node: Option<NodeId>, call: ToolCall, pending: &mut Pending) -> Intent {
        if self.unsure.remove(&call.id) {
            return Intent::unsure(call);
        }
        let is_announced = self.driver.told && self.announced.remove(&call.id);
        let (event, intent) = ToolDesk::intend(call, is_announced);
        if self.driver.told {
            pending.events.push(Entry { node, event });
        } else {
            pending.add_before_usage(event.into());
        }
        intent
    }

    /// Asks as many waiting questions as the budget has room for. While calls of this run are under way the others
    /// wait for what they give back; otherwise a refusal is final.
    async fn ask_waiting(&mut self, pending: &mut Pending) -> Result<Option<String>, BoardError> {
        while let Some(question) = self.waiting.pop_front() {
            let Question { node, messages, tools, voice } = question;
            let entry = self.nodes.node(node);
            let asked = if self.asking > 0 { Some(messages.clone()) } else { None };
            let preparing = self.driver.prepare_call(node, entry, messages, tools, voice);
            let call = match (self.work.alongside(preparing).await, asked) {
                (Ok(call), _) => call,
                (Err(refused), Some(messages)) if refused.kind == ErrorKind::Exhausted => {
                    self.waiting.push_front(Question { node, messages, tools, voice });
                    return Ok(None);
                }
                (Err(refused), _) => return Ok(Some(refused.message)),
            };
            let next = self.work.alongside(self.driver.writer.next_seq()).await;
            // What is pending takes its numbers first; the call's words come after.
            let before: u64 = pending.events.iter().map(|entry| entry.event.width()).sum();
            let first_seq = Seq(next.0 + before);
            pending.writes.push(self.driver.open_row(&call, first_seq));
            self.record(pending).await?;
            self.ask(call);
        }
        Ok(None)
    }

    fn ask(&mut self, call: PreparedCall) {
        self.asking += 1;
        self.work.push(self.driver.model_work(call));
    }

    async fn record(&mut self, pending: &mut Pending) -> Result<(), BoardError> {
        self.work.alongside(self.driver.record(pending)).await
    }
}
