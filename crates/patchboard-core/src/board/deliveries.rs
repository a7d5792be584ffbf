//! Lists channels and their deliveries.

use tokio_util::sync::CancellationToken;

use super::{Board, BoardCommand, CommandFuture};
use crate::caller::Caller;
use crate::command::{ListChannels, ListDeliveries};
use crate::store::{DeliveryQuery, ResultPage};

impl BoardCommand for ListChannels {
    fn execute(self, board: &Board, _caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        Box::pin(std::future::ready(Ok(board.0.channels.reports())))
    }
}

impl BoardCommand for ListDeliveries {
    fn execute(self, board: &Board, _caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        let board = board.clone();
        let Self { channel, state, page } = self;
        let query = DeliveryQuery { channel, state, limit: page.limit, cursor: page.cursor };
        Box::pin(async move {
            let rows = board.0.store.deliveries(query).await?;
            Ok(ResultPage { items: rows.items.iter().map(crate::channel::report).collect(), next: rows.next })
        })
    }
}
