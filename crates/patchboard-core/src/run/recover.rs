//! After a crash: runs that can be resumed go on, the others are closed, counted and told, so that nothing stays open
//! for ever.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::begin::{Begun, RunRequest};
use super::brief::Briefing;
use super::driver::RunDeps;
use super::replay::Replay;
use super::strategy::{self, Brief};
use crate::budget::scopes;
use crate::error::BoardError;
use crate::event::{Entry, Envelope, Event, NodeOutcome, RunOutcome, Topic, UsageNote};
use crate::id::{NodeId, RunId, Seq};
use crate::model::{Message, TokenCount};
use crate::port::{AuditRow, Durability, ModelCallRow, Store, StoreError, UnfinishedRun, UsageRow, Write};
use crate::tokens;

/// Records read at a time.
const RECORDS: usize = 256;

/// What is known of a run that can go on, besides its events.
pub async fn briefing(store: &Arc<dyn Store>, run: RunId) -> Result<Option<Arc<Briefing>>, BoardError> {
    // It is the second record of the runs that have one.
    let records = store.events(&Topic::Run(run), Seq::FIRST, 2).await?;
    Ok(records
        .iter()
        .find_map(|record| if let Event::Briefed(briefing) = &record.event { Some(briefing.clone()) } else { None }))
}

/// Goes on with a run where its process died: recorded inputs are fed to its strategy again, nodes that were cut short
/// are entered again, and calls whose outcome nobody knows are left to their tool's policy. The inner error says why it
/// cannot go on.
pub async fn resume(
    deps: &Arc<RunDeps>,
    store: &Arc<dyn Store>,
    unfinished: &UnfinishedRun,
    briefing: &Briefing,
    request: RunRequest,
) -> Result<Result<Begun, String>, BoardError> {
    let topic = Topic::Run(unfinished.run.run);
    let mut replay = Replay::new(strategy::build(briefing.strategy, brief(briefing, &request)));
    let mut next = Seq::FIRST;
    each_record(store, &topic, Seq::FIRST, |record| {
        replay.take(record);
        next = record.last_seq().next();
    })
    .await?;
    if let Err(obstacle) = replay.finish() {
        return Ok(Err(format!("interrupted: {obstacle}")));
    }
    let settled = settle(deps, store, &topic, &unfinished.open_calls).await?;
    let principal = unfinished.run.principal.clone();
    let mut writes = settled.1;
    writes.push(Write::Audit(AuditRow {
        at: deps.clock.now(),
        principal,
        surface: unfinished.run.surface.clone(),
        action: "run.resumed".into(),
        subject: unfinished.run.session.as_str().into(),
        run: Some(unfinished.run.run),
        detail: "the server stopped during this run; it goes on from its last finished node".into(),
    }));
    Ok(Ok(Begun::resume(deps.clone(), request, briefing, replay, next, (settled.0, writes)).await?))
}

fn brief(briefing: &Briefing, request: &RunRequest) -> Brief {
    Brief {
        history: briefing.history.clone(),
        user: Message::user(briefing.message.clone()),
        reasoning: request.agent.reasoning.clone(),
        adaptive: briefing.adaptive,
        tag: request.run.0.simple().to_string().into(),
    }
}

/// Ends a run that cannot go on.
pub async fn close(
    deps: &Arc<RunDeps>,
    store: &Arc<dyn Store>,
    unfinished: &UnfinishedRun,
    reason: &str,
) -> Result<(), BoardError> {
    let row = &unfinished.run;
    let topic = Topic::Run(row.run);
    let at = deps.clock.now();
    let (mut events, mut writes) = settle(deps, store, &topic, &unfinished.open_calls).await?;
    let left = |node| Entry { node: Some(node), event: Event::NodeLeft(NodeOutcome::Interrupted) };
    events.extend(open_nodes(store, &topic).await?.into_iter().map(left));
    events.push(Event::RunFailed { message: reason.into() }.into());
    events.push(Event::RunEnded { outcome: RunOutcome::Interrupted }.into());
    writes.push(Write::CloseRun { run: row.run, outcome: RunOutcome::Interrupted, at });
    writes.push(Write::Audit(AuditRow {
        at,
        principal: row.principal.clone(),
        surface: row.surface.clone(),
        action: "run.interrupted".into(),
        subject: row.session.as_str().into(),
        run: Some(row.run),
        detail: "the server stopped during this run; its turn is not in the history".into(),
    }));
    let next = store.last_seq(&topic).await?.next();
    deps.log.open(topic, next).append(events, writes, Durability::Boundary).await
}

/// The providers were asked and will bill; their figures died with the process, so we count what arrived.
async fn settle(
    deps: &Arc<RunDeps>,
    store: &Arc<dyn Store>,
    topic: &Topic,
    calls: &[ModelCallRow],
) -> Result<(Vec<Entry>, Vec<Write>), BoardError> {
    let mut events = Vec::with_capacity(calls.len());
    let mut writes = Vec::with_capacity(calls.len());
    for call in calls {
        let tokens = TokenCount { input: call.estimated_input, output: spoken(store, topic, call).await? };
        let note = UsageNote { tokens, provider: call.provider.clone(), model: call.model.clone(), estimated: true };
        events.push(Entry { node: call.node, event: Event::Usage(note) });
        writes.push(Write::SettleModelCall(UsageRow {
            run: call.run,
            number: call.number,
            // Counted on the day it was made.
            at: call.at,
            session: call.session.clone(),
            agent: call.agent.clone(),
            provider: call.provider.clone(),
            model: call.model.clone(),
            tokens,
            cost_nanousd: deps.prices.get().cost_nanousd(&call.model, tokens),
            estimated: true,
            scopes: scopes(&call.session, &call.agent, call.at),
        }));
    }
    Ok((events, writes))
}

/// Tokens of the text that had arrived before the cut.
async fn spoken(store: &Arc<dyn Store>, topic: &Topic, call: &ModelCallRow) -> Result<u64, StoreError> {
    let mut total = 0;
    let read = each_record(store, topic, call.first_seq, |record| {
        if let Event::Text(pieces) | Event::Draft(pieces) | Event::Thought(pieces) | Event::Arguments { pieces, .. } =
            &record.event
            && record.node == call.node
        {
            total += tokens::estimate(pieces.text());
        }
    });
    as_far_as_readable(read.await)?;
    Ok(total)
}

/// Nodes that were entered and not left.
async fn open_nodes(store: &Arc<dyn Store>, topic: &Topic) -> Result<BTreeSet<NodeId>, StoreError> {
    let mut open = BTreeSet::new();
    let read = each_record(store, topic, Seq::FIRST, |record| match (&record.event, record.node) {
        (Event::NodeEntered { .. }, Some(node)) => drop(open.insert(node)),
        (Event::NodeLeft(_), Some(node)) => drop(open.remove(&node)),
        _ => {}
    });
    as_far_as_readable(read.await)?;
    Ok(open)
}

/// A run that is to be closed is closed, even if some of it cannot be read any more.
fn as_far_as_readable(read: Result<(), StoreError>) -> Result<(), StoreError> {
    match read {
        Err(StoreError::Corrupt { .. }) => Ok(()),
        read => read,
    }
}

async fn each_record(
    store: &Arc<dyn Store>,
    topic: &Topic,
    mut from: Seq,
    mut visit: impl FnMut(&Envelope),
) -> Result<(), StoreError> {
    loop {
        let records = store.events(topic, from, RECORDS).await?;
        let Some(last) = records.last() else { return Ok(()) };
        from = last.last_seq().next();
        for record in &records {
            visit(record);
        }
    }
}
