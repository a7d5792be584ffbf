//! The parts of the port about accounts and the search over turns.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use patchboard_core::id::MemoryOwner;
use patchboard_core::store::{
    AccountContents, AccountRow, AccountStore, AccountTurn, EraseExtent, FactListQuery, FactRecord, FoundTurn,
    PageCursor, ResultPage, RunRow, SessionRow, StoreError, TurnSearch, TurnSearchQuery,
};
use patchboard_core::webhook::DeliveryId;

use super::{SqliteStore, accounts, turn_index};

impl AccountStore for SqliteStore {
    fn accounts(
        &self,
        owners: Option<Vec<Arc<str>>>,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<AccountRow>, StoreError>> {
        self.readers.read("list accounts", move |db| accounts::list(db, owners.as_deref(), limit, cursor.as_ref()))
    }

    fn account_contents(&self, account: &MemoryOwner) -> BoxFuture<'_, Result<AccountContents, StoreError>> {
        let account = account.clone();
        self.readers.read("count what is stored of an account", move |db| accounts::contents(db, &account))
    }

    fn account_facts(&self, query: FactListQuery) -> BoxFuture<'_, Result<ResultPage<FactRecord>, StoreError>> {
        self.readers.read("list facts", move |db| accounts::facts(db, &query))
    }

    fn account_fact(&self, account: &MemoryOwner, fact: u64) -> BoxFuture<'_, Result<Option<FactRecord>, StoreError>> {
        let account = account.clone();
        self.readers.read("read a fact", move |db| accounts::fact(db, &account, fact))
    }

    fn account_sessions(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<SessionRow>, StoreError>> {
        let account = account.clone();
        self.readers
            .read("list the sessions of an account", move |db| accounts::sessions(db, &account, limit, cursor.as_ref()))
    }

    fn account_turns(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<AccountTurn>, StoreError>> {
        let account = account.clone();
        self.readers
            .read("read the turns of an account", move |db| accounts::turns(db, &account, limit, cursor.as_ref()))
    }

    fn account_runs(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<RunRow>, StoreError>> {
        let account = account.clone();
        self.readers.read("read the runs of an account", move |db| accounts::runs(db, &account, limit, cursor.as_ref()))
    }

    fn forget_account(
        &self,
        account: &MemoryOwner,
        deliveries: Vec<DeliveryId>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let account = account.clone();
        self.writer.maintain("forget an account", move |connection| connection.forget_account(&account, &deliveries))
    }

    fn erase_remains(&self, extent: EraseExtent) -> BoxFuture<'_, Result<(), StoreError>> {
        self.writer.maintain("erase deleted data", move |connection| connection.erase_remains(extent))
    }
}

impl TurnSearch for SqliteStore {
    fn index_turns(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.writer.maintain("index turns", super::writer::WriteConnection::index_turns)
    }

    fn search_turns(&self, query: TurnSearchQuery) -> BoxFuture<'_, Result<ResultPage<FoundTurn>, StoreError>> {
        self.readers.read("search turns", move |db| turn_index::search(db, &query))
    }
}
