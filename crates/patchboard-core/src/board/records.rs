//! Reading what the server recorded about its own work.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Board, BoardCommand, CommandFuture};
use crate::caller::Caller;
use crate::command::{ListFaults, ReadAudit, ReadFigures};
use crate::error::{BoardError, ErrorKind};
use crate::figures::FigureReport;
use crate::port::ServerMonitor;
use crate::store::AuditQuery;

/// Minutes for which flows are counted where no time is given.
const DEFAULT_FLOW_MINUTES: i64 = 60;

impl BoardCommand for ReadAudit {
    fn execute(self, board: &Board, _caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        let board = board.clone();
        let query = AuditQuery { filter: self.filter, limit: self.page.limit, cursor: self.page.cursor };
        Box::pin(async move { Ok(board.0.store.read_audit(query).await?) })
    }
}

impl BoardCommand for ReadFigures {
    fn execute(self, board: &Board, _caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        Box::pin(std::future::ready(board.figures(&self)))
    }
}

impl BoardCommand for ListFaults {
    fn execute(self, board: &Board, _caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        Box::pin(std::future::ready(board.monitor().map(|monitor| monitor.faults())))
    }
}

impl Board {
    /// Sets the process's own measurements, once. A board without them has none to report.
    pub fn set_server_monitor(&self, monitor: Arc<dyn ServerMonitor>) {
        // A second call is ignored: a board belongs to one server.
        let _first = self.0.monitor.set(monitor);
    }

    fn monitor(&self) -> Result<&Arc<dyn ServerMonitor>, BoardError> {
        let missing = || BoardError::new(ErrorKind::Unavailable, "this server keeps no figures");
        self.0.monitor.get().ok_or_else(missing)
    }

    fn figures(&self, request: &ReadFigures) -> Result<FigureReport, BoardError> {
        let measured = self.monitor()?.figures(&request.series, request.since);
        let mut report = measured.map_err(|unknown| {
            BoardError::invalid(format!("no figure is called `{unknown}`; without names all of them are answered"))
        })?;
        let now = self.0.clock.now();
        let minutes = request.since.map_or(DEFAULT_FLOW_MINUTES, |since| {
            now.as_second().saturating_sub(since.as_second()).saturating_add(59) / 60
        });
        let minutes = usize::try_from(minutes.max(1)).unwrap_or(0);
        report.flows = self.0.run_deps.tool_executor.statistics.flows(minutes, now);
        Ok(report)
    }
}
