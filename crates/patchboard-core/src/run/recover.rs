//! Recovery after a crash: runs that can be resumed continue; the others are closed, charged and reported, so that no
//! run stays open forever.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::driver::RunDeps;
use super::replay::RunReplay;
use super::start::{RunRequest, StartedRun};
use super::strategy::{self, StrategySpec};
use crate::budget::budget_scopes;
use crate::error::BoardError;
use crate::event::{Envelope, Event, ModelCallUsage, NewEvent, NodeOutcome, RunOutcome, Topic};
use crate::id::{NodeId, RunId, Seq};
use crate::model::{ModelMessage, TokenCount};
use crate::run_spec::{ChatBriefing, RunSpec};
use crate::session::SessionPermit;
use crate::store::{
    AuditRow, AuditSubject, Durability, ModelCallRow, Store, StoreError, StoreWrite, UnfinishedRun, UsageRow,
};
use crate::tokens;

/// Inputs of a run that are taken up; as many as a server may have open.
const MAX_INPUTS: usize = 1024;
/// Records read at a time.
const RECORDS_PER_READ: usize = 256;

/// The recorded spec of a run that can be resumed; `None` if it has none.
pub async fn recorded_spec(store: &Arc<dyn Store>, run: RunId) -> Result<Option<Arc<RunSpec>>, BoardError> {
    // Only resumable runs have a spec, and it is their second record.
    let records = store.events(&Topic::Run(run), Seq::FIRST, 2).await?;
    Ok(records.iter().find_map(
        |record| {
            if let Event::RunBriefed(spec) = &record.event { Some(spec.clone()) } else { None }
        },
    ))
}

/// The briefing of a chat turn that may be continued, with the name of its agent.
pub async fn chat_briefing(
    store: &Arc<dyn Store>,
    run: RunId,
) -> Result<Option<(Arc<str>, Arc<ChatBriefing>)>, BoardError> {
    let records = store.events(&Topic::Run(run), Seq::FIRST, 1).await?;
    Ok(records.first().and_then(|record| {
        if let Event::RunStarted { agent, chat: Some(chat), .. } = &record.event {
            Some((agent.clone(), chat.clone()))
        } else {
            None
        }
    }))
}

/// Resumes a run of a process that died: the recorded inputs are fed to its strategy again, interrupted nodes are
/// entered again, and calls whose outcome is unknown are left to their tool's policy. The inner error says why the run
/// cannot be resumed.
pub async fn resume(
    deps: &Arc<RunDeps>,
    store: &Arc<dyn Store>,
    unfinished: &UnfinishedRun,
    spec: &RunSpec,
    mut request: RunRequest,
    session_permit: SessionPermit,
) -> Result<Result<StartedRun, String>, BoardError> {
    let topic = Topic::Run(unfinished.run.run);
    let strategy = strategy::build(spec.strategy, strategy_spec(spec, &request));
    let mut replay =
        if request.kind.plan().is_some() { RunReplay::new(strategy) } else { RunReplay::of_chat(strategy) };
    let mut next = Seq::FIRST;
    for_each_record(store, &topic, Seq::FIRST, |record| {
        replay.apply_record(record);
        next = record.last_seq().next();
    })
    .await?;
    if let Err(obstacle) = replay.finish() {
        return Ok(Err(format!("interrupted: {obstacle}")));
    }
    request.stored_inputs = store.inputs(Some(unfinished.run.run), MAX_INPUTS).await?;
    request.stored_inputs.extend(replay.provided_inputs(&unfinished.run));
    let settled = settle_open_calls(deps, store, &topic, &unfinished.open_calls).await?;
    let principal = unfinished.run.principal.clone();
    let mut writes = settled.1;
    writes.push(StoreWrite::Audit(AuditRow {
        at: deps.clock.now(),
        principal,
        surface: unfinished.run.surface.clone(),
        action: "run.resumed".into(),
        subject: AuditSubject::Session(unfinished.run.session.clone()),
        run: Some(unfinished.run.run),
        detail: "the server stopped during this run; it goes on from its last finished node".into(),
    }));
    Ok(Ok(StartedRun::resume(deps.clone(), request, session_permit, spec, replay, next, (settled.0, writes)).await?))
}

fn strategy_spec(spec: &RunSpec, request: &RunRequest) -> StrategySpec {
    StrategySpec {
        history: spec.history.clone(),
        user: ModelMessage::user(spec.message.clone()),
        reasoning: request.agent.reasoning.clone(),
        adaptive: spec.adaptive,
        tag: request.run.0.simple().to_string().into(),
    }
}

/// Why a run is closed without being continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClosingReason {
    /// It cannot continue; a sentence for its client.
    Interrupted(String),
    /// Its cancellation was stored while it ran.
    Cancelled,
}

/// Closes a run that is not continued.
pub async fn close_unfinished(
    deps: &Arc<RunDeps>,
    store: &Arc<dyn Store>,
    unfinished: &UnfinishedRun,
    reason: &ClosingReason,
) -> Result<(), BoardError> {
    let row = &unfinished.run;
    let topic = Topic::Run(row.run);
    let at = deps.clock.now();
    let (mut events, mut writes) = settle_open_calls(deps, store, &topic, &unfinished.open_calls).await?;
    let (outcome, left) = match reason {
        ClosingReason::Interrupted(_) => (RunOutcome::Interrupted, NodeOutcome::Interrupted),
        ClosingReason::Cancelled => (RunOutcome::Cancelled, NodeOutcome::Failed("cancelled".into())),
    };
    let left_event = |node| NewEvent { node: Some(node), event: Event::NodeLeft(left.clone()) };
    events.extend(open_nodes(store, &topic).await?.into_iter().map(left_event));
    if let ClosingReason::Interrupted(reason) = reason {
        events.push(Event::RunFailed { message: reason.as_str().into() }.into());
        writes.push(StoreWrite::Audit(AuditRow {
            at,
            principal: row.principal.clone(),
            surface: row.surface.clone(),
            action: "run.interrupted".into(),
            subject: AuditSubject::Session(row.session.clone()),
            run: Some(row.run),
            detail: "the server stopped during this run; its turn is not in the history".into(),
        }));
    }
    events.push(Event::RunEnded { outcome }.into());
    writes.push(StoreWrite::CloseRun { run: row.run, outcome, at });
    let next = store.last_seq(&topic).await?.next();
    deps.log.open(topic, next).append(events, writes, Durability::Boundary).await
}

/// The providers received these calls and will bill them; their usage figures were lost with the process, so the tokens
/// received so far are counted.
async fn settle_open_calls(
    deps: &Arc<RunDeps>,
    store: &Arc<dyn Store>,
    topic: &Topic,
    calls: &[ModelCallRow],
) -> Result<(Vec<NewEvent>, Vec<StoreWrite>), BoardError> {
    let mut events = Vec::with_capacity(calls.len());
    let mut writes = Vec::with_capacity(calls.len());
    for call in calls {
        let tokens = TokenCount { input: call.estimated_input, output: received_tokens(store, topic, call).await? };
        let usage =
            ModelCallUsage { tokens, provider: call.provider.clone(), model: call.model.clone(), estimated: true };
        events.push(NewEvent { node: call.node, event: Event::ModelUsage(usage) });
        writes.push(StoreWrite::SettleModelCall(UsageRow {
            run: call.run,
            number: call.number,
            // Charged to the day the call was made.
            at: call.at,
            session: call.session.clone(),
            agent: call.agent.clone(),
            provider: call.provider.clone(),
            model: call.model.clone(),
            tokens,
            cost_nanousd: deps.prices.get().cost_nanousd(&call.model, tokens),
            estimated: true,
            scopes: budget_scopes(&call.session, &call.agent, call.key.as_ref(), call.at),
        }));
    }
    Ok((events, writes))
}

/// Tokens of the text received before the crash.
async fn received_tokens(store: &Arc<dyn Store>, topic: &Topic, call: &ModelCallRow) -> Result<u64, StoreError> {
    let mut total = 0;
    let read = for_each_record(store, topic, call.first_seq, |record| {
        if let Event::AnswerText(pieces)
        | Event::DraftText(pieces)
        | Event::ThoughtText(pieces)
        | Event::ToolArguments { pieces, .. } = &record.event
            && record.node == call.node
        {
            total += tokens::estimate(pieces.text());
        }
    });
    ignore_corrupt(read.await)?;
    Ok(total)
}

/// Nodes that were entered and not left.
async fn open_nodes(store: &Arc<dyn Store>, topic: &Topic) -> Result<BTreeSet<NodeId>, StoreError> {
    let mut open = BTreeSet::new();
    let read = for_each_record(store, topic, Seq::FIRST, |record| match (&record.event, record.node) {
        (Event::NodeEntered { .. }, Some(node)) => drop(open.insert(node)),
        (Event::NodeLeft(_), Some(node)) => drop(open.remove(&node)),
        _ => {}
    });
    ignore_corrupt(read.await)?;
    Ok(open)
}

/// A corrupt record must not keep a run from being closed; what was read before it is used.
fn ignore_corrupt(read: Result<(), StoreError>) -> Result<(), StoreError> {
    match read {
        Err(StoreError::Corrupt { .. }) => Ok(()),
        read => read,
    }
}

async fn for_each_record(
    store: &Arc<dyn Store>,
    topic: &Topic,
    mut from: Seq,
    mut visit: impl FnMut(&Envelope),
) -> Result<(), StoreError> {
    loop {
        let records = store.events(topic, from, RECORDS_PER_READ).await?;
        let Some(last) = records.last() else { return Ok(()) };
        from = last.last_seq().next();
        for record in &records {
            visit(record);
        }
    }
}
