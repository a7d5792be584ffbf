//! Settings that can be replaced at run time, and the report on the whole server.

use std::sync::Arc;

use crate::agent::{AgentSpec, AgentTable};
use crate::approval::policy::ApprovalPolicy;
use crate::budget::BudgetLimits;
use crate::budget::price::PriceTable;
use crate::caller::Caller;
use crate::error::{BoardError, ErrorKind};
use crate::port::ServerControl;
use crate::reply::{AgentModel, ReloadReport, ServerReport};
use crate::store::{AuditRow, StoreWrite, WriteBatch};

use super::{Board, BoardLimits};

/// Applied together. Work in progress keeps what it started with: a model call its provider and key, a run its agent,
/// an approval its expiry. A tool call is judged by the policy in force when it is made.
#[derive(Debug)]
pub struct BoardSettings {
    pub agents: AgentTable,
    pub approval_policy: ApprovalPolicy,
    pub limits: BoardLimits,
    pub budgets: BudgetLimits,
    pub prices: PriceTable,
}

impl Board {
    pub fn apply_settings(&self, settings: BoardSettings) {
        let BoardSettings { agents, approval_policy, limits, budgets, prices } = settings;
        let inner = &self.0;
        // The strictest part first, so that no new agent ever runs under old rules.
        inner.run_deps.tool_executor.policy.set(approval_policy);
        inner.run_deps.tool_executor.limits.set(limits.tool);
        inner.run_deps.limits.set(limits.run);
        inner.run_deps.prices.set(prices);
        inner.ledger.set_limits(budgets);
        inner.inputs.set_expiries(limits.inputs);
        inner.queues.set_max_waiting(limits.session_queue);
        inner.run_permits.resize(limits.concurrent_runs);
        inner.nested_run_permits.resize(limits.concurrent_runs);
        if let Some((name, routing)) = &inner.routing_agent
            && let Ok((agent, _)) = agents.select_for_run(name)
        {
            routing.set(agent.clone());
        }
        inner.agent_tools.replace(&agents);
        inner.agents.set(agents);
    }

    /// Sets the server that this board belongs to, once. A board without one cannot be reloaded.
    pub fn set_server_control(&self, control: Arc<dyn ServerControl>) {
        // A second call is ignored: a board belongs to one server.
        let _first = self.0.control.set(control);
    }

    pub(super) async fn reload_settings(&self, caller: &Caller) -> Result<ReloadReport, BoardError> {
        let Some(control) = self.0.control.get() else {
            let message = "this server reads its configuration only when it starts";
            return Err(BoardError::new(ErrorKind::Conflict, message));
        };
        let report = control.reload().await?;
        let outcome = if report.problems.is_empty() { report.changed.join(" ") } else { "refused".to_owned() };
        let audit = AuditRow {
            at: self.0.clock.now(),
            principal: caller.principal.text(),
            surface: caller.surface.name().into(),
            action: "server.reload".into(),
            subject: "configuration".into(),
            run: None,
            detail: outcome.into(),
        };
        self.0.store.commit(WriteBatch::boundary(vec![StoreWrite::Audit(audit)])).await?;
        Ok(report)
    }

    pub(super) async fn describe_server(&self, caller: &Caller) -> Result<ServerReport, BoardError> {
        let inner = &self.0;
        let model_of = |agent: &Arc<AgentSpec>| AgentModel {
            agent: agent.name.clone(),
            provider: agent.provider.name().into(),
            model: agent.model.clone(),
        };
        let apps = inner.hub.apps();
        Ok(ServerReport {
            node: self.describe_node().await?,
            is_draining: self.is_draining(),
            agents: inner.agents.get().all().iter().map(model_of).collect(),
            approvals: inner.inputs.open_count() as u64,
            budget: inner.ledger.report(None, &[], &self.keys_seen_by(caller)).await?,
            pools: inner.bridge.workers(),
            connected_apps: apps.iter().filter(|app| app.is_connected).count() as u64,
            known_apps: apps.len() as u64,
        })
    }

    /// Number of active chat turns and agent runs.
    pub fn active_runs(&self) -> usize {
        self.live_runs().len()
    }
}
