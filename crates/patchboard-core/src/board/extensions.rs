//! Tools in full, the servers and workers behind them, and what waits for approval.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::handlers::paginate;
use super::{Board, BoardCommand, CommandFuture};
use crate::caller::{Caller, Surface};
use crate::command::{DescribeTools, ListMcpServers, ListToolChanges, ReadWorkerLines, RestartWorkers};
use crate::error::{BoardError, ErrorKind};
use crate::extensions::{McpServerReport, ToolDecision, ToolReport, WorkerLine};
use crate::store::{AuditRow, ResultPage, StoreWrite, WriteBatch};

/// Those that call tools, in the order of reports.
const SURFACES: [Surface; 7] =
    [Surface::Gateway, Surface::Runs, Surface::Webhook, Surface::Hub, Surface::Bridge, Surface::Mcp, Surface::Cli];

impl BoardCommand for DescribeTools {
    fn execute(self, board: &Board, _caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        Box::pin(std::future::ready(board.tool_reports(&self)))
    }
}

impl BoardCommand for ListToolChanges {
    fn execute(self, board: &Board, _caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        Box::pin(std::future::ready(Ok(board.0.run_deps.registry.pending_changes())))
    }
}

impl BoardCommand for ListMcpServers {
    fn execute(self, board: &Board, _caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        let now = board.0.clock.now();
        let reports = board.0.run_deps.registry.mcp_servers().into_iter();
        let reports = reports.map(|state| {
            let since = now.checked_sub(state.stage_age).unwrap_or(now);
            McpServerReport { state, since }
        });
        Box::pin(std::future::ready(Ok(reports.collect())))
    }
}

impl BoardCommand for RestartWorkers {
    fn execute(self, board: &Board, caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        let (board, caller) = (board.clone(), caller.clone());
        Box::pin(async move { board.restart_workers(&caller, self).await })
    }
}

impl BoardCommand for ReadWorkerLines {
    fn execute(self, board: &Board, _caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        Box::pin(std::future::ready(board.worker_lines(&self)))
    }
}

impl Board {
    fn tool_reports(&self, request: &DescribeTools) -> Result<ResultPage<ToolReport>, BoardError> {
        let deps = &self.0.run_deps;
        let tool_set = deps.registry.tool_set(None, None);
        let (policy, limits) = (deps.tool_executor.policy.get(), deps.tool_executor.limits.get());
        let wanted = tool_set.specs.iter().filter(|spec| request.name.as_ref().is_none_or(|name| spec.name == *name));
        let reports = wanted.filter_map(|spec| {
            let (_, host) = tool_set.find(&spec.name)?;
            let decision = |surface| {
                let (mode, rule) = policy.explain(spec, surface);
                ToolDecision { surface, mode, rule: rule.map(|rule| rule.to_string().into()) }
            };
            Some(ToolReport {
                spec: spec.clone(),
                host: host.host_name(spec).into(),
                timeout: spec.timeout.unwrap_or(limits.timeout),
                decisions: SURFACES.into_iter().map(decision).collect(),
                counts: deps.tool_executor.statistics.tool_counts(&spec.name),
            })
        });
        Ok(paginate(reports.collect(), &request.page)?)
    }

    async fn restart_workers(&self, caller: &Caller, request: RestartWorkers) -> Result<Vec<Arc<str>>, BoardError> {
        let RestartWorkers { pool, worker } = request;
        let replaced = self.0.bridge.restart_workers(&pool, worker.as_deref()).ok_or_else(|| {
            BoardError::not_found(format!("no pool of workers is called `{pool}`; `patchboard workers` lists them"))
        })?;
        if replaced.is_empty() {
            let message = match &worker {
                Some(worker) => format!("no worker `{worker}` of the pool `{pool}` is running"),
                None => {
                    format!("no worker of the pool `{pool}` is running; those that failed are started again anyway")
                }
            };
            return Err(BoardError::new(ErrorKind::Conflict, message));
        }
        let audit = AuditRow {
            at: self.0.clock.now(),
            principal: caller.principal.text(),
            surface: caller.surface.name().into(),
            action: "workers.restart".into(),
            subject: pool.into(),
            run: None,
            detail: replaced.join(" ").into(),
        };
        self.0.store.commit(WriteBatch::boundary(vec![StoreWrite::Audit(audit)])).await?;
        Ok(replaced)
    }

    fn worker_lines(&self, request: &ReadWorkerLines) -> Result<Vec<WorkerLine>, BoardError> {
        let unknown = || {
            let worker = &request.worker;
            BoardError::not_found(format!("no worker is called `{worker}`; `patchboard workers` lists them"))
        };
        self.0.bridge.worker_lines(&request.worker, request.after).ok_or_else(unknown)
    }
}
