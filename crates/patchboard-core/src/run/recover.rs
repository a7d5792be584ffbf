//! After a crash: what was cut short is closed, counted and told, so that nothing stays open for ever.

use std::sync::Arc;

use super::driver::RunDeps;
use crate::budget::scopes;
use crate::error::BoardError;
use crate::event::{Event, RunOutcome, Topic, UsageNote};
use crate::id::Seq;
use crate::model::TokenCount;
use crate::port::{AuditRow, Durability, ModelCallRow, Store, UnfinishedRun, UsageRow, Write};
use crate::tokens;

/// Records read at a time.
const RECORDS: usize = 256;

/// Ends every run the last process left open. Answers how many there were.
pub async fn close_interrupted(deps: &Arc<RunDeps>, store: &Arc<dyn Store>) -> Result<usize, BoardError> {
    let unfinished = store.unfinished_runs().await?;
    for interrupted in &unfinished {
        close(deps, store, interrupted).await?;
    }
    Ok(unfinished.len())
}

async fn close(deps: &Arc<RunDeps>, store: &Arc<dyn Store>, unfinished: &UnfinishedRun) -> Result<(), BoardError> {
    let row = &unfinished.run;
    let topic = Topic::Run(row.run);
    let at = deps.clock.now();
    let mut events = Vec::new();
    let mut writes = Vec::new();
    if let Some(call) = &unfinished.open_call {
        // The provider was asked and will bill; its figures died with the process, so we count what arrived.
        let tokens = TokenCount { input: call.estimated_input, output: spoken(store, &topic, call).await? };
        events.push(Event::Usage(UsageNote {
            tokens,
            provider: call.provider.clone(),
            model: call.model.clone(),
            estimated: true,
        }));
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
            cost_nanousd: deps.prices.cost_nanousd(&call.model, tokens),
            estimated: true,
            scopes: scopes(&call.session, &call.agent, call.at),
        }));
    }
    events.push(Event::RunFailed { message: "interrupted: the server stopped during this turn".into() });
    events.push(Event::RunEnded { outcome: RunOutcome::Interrupted });
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

/// Tokens of the text that had arrived before the cut.
async fn spoken(store: &Arc<dyn Store>, topic: &Topic, call: &ModelCallRow) -> Result<u64, BoardError> {
    let mut from: Seq = call.first_seq;
    let mut total = 0;
    loop {
        let records = store.events(topic, from, RECORDS).await?;
        let Some(last) = records.last() else { return Ok(total) };
        from = last.last_seq().next();
        for record in &records {
            if let Event::Text(pieces) | Event::Thought(pieces) = &record.event {
                total += tokens::estimate(pieces.text());
            }
        }
    }
}
