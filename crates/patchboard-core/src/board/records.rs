//! Reading what the server recorded about its own work.

use super::{Board, BoardCommand, CommandFuture};
use crate::caller::Caller;
use crate::command::ReadAudit;
use crate::store::AuditQuery;
use tokio_util::sync::CancellationToken;

impl BoardCommand for ReadAudit {
    fn execute(self, board: &Board, _caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        let board = board.clone();
        let query = AuditQuery { filter: self.filter, limit: self.page.limit, cursor: self.page.cursor };
        Box::pin(async move { Ok(board.0.store.read_audit(query).await?) })
    }
}
