//! Lists of runs in memory.

use std::cmp::Reverse;

use super::tables::{StoreTables, StoredRun};
use crate::event::Topic;
use crate::store::{ListedRun, RunFilter, RunModel, UsageRow};
use crate::text;

impl StoreTables {
    /// The matching runs before number `before`, newest first, each with its number.
    pub(super) fn list_runs(&self, filter: &RunFilter, before: u64) -> Vec<(u64, ListedRun)> {
        let is_before = |run: &&StoredRun| run.number < before;
        let listed = self.runs.values().filter(is_before).map(|run| (run.number, self.listed(run)));
        let mut listed: Vec<_> = listed.filter(|(_, run)| matches(run, filter)).collect();
        listed.sort_by_key(|(number, _)| Reverse(*number));
        listed
    }

    /// Adds a settled call to its run.
    pub(super) fn count_usage(&mut self, usage: &UsageRow) {
        let Some(run) = self.runs.get_mut(&usage.run) else { return };
        let total = &mut run.usage;
        total.model_calls += 1;
        total.tokens.input = total.tokens.input.saturating_add(usage.tokens.input);
        total.tokens.output = total.tokens.output.saturating_add(usage.tokens.output);
        total.cost_nanousd = total.cost_nanousd.saturating_add(usage.cost_nanousd);
        run.model = Some(RunModel { provider: usage.provider.clone(), model: usage.model.clone() });
    }

    fn listed(&self, stored: &StoredRun) -> ListedRun {
        let row = &stored.row;
        let open = || {
            let call = self.calls_of(row.run).last()?;
            Some(RunModel { provider: call.provider.clone(), model: call.model.clone() })
        };
        ListedRun {
            run: row.run,
            session: row.session.clone(),
            principal: row.principal.clone(),
            surface: row.surface.clone(),
            client_id: row.client_id.clone(),
            agent: row.agent.clone(),
            strategy: row.strategy,
            model: stored.model.clone().or_else(open),
            title: text::title(&row.input).into(),
            state: row.state,
            started_at: row.started_at,
            ended_at: stored.ended_at,
            usage: stored.usage,
            last_seq: self.last_seq(&Topic::Run(row.run)),
        }
    }
}

fn matches(run: &ListedRun, filter: &RunFilter) -> bool {
    let RunFilter { principals, among, client_id, surface, agent, strategy, session, state, since, until, text } =
        filter;
    principals.as_ref().is_none_or(|principals| principals.contains(&run.principal))
        && among.as_ref().is_none_or(|among| among.contains(&run.run))
        && client_id.as_ref().is_none_or(|id| run.client_id == *id)
        && surface.as_ref().is_none_or(|surface| run.surface == *surface)
        && agent.as_ref().is_none_or(|agent| run.agent == *agent)
        && strategy.is_none_or(|strategy| run.strategy == strategy)
        && session.as_ref().is_none_or(|session| run.session == *session)
        && state.is_none_or(|state| state.matches(run.state))
        && since.is_none_or(|since| run.started_at >= since)
        && until.is_none_or(|until| run.started_at < until)
        && text.as_ref().is_none_or(|text| run.title.to_ascii_lowercase().contains(&text.to_ascii_lowercase()))
}
