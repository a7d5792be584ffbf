//! The parts of the port about accounts and the search over turns, without faults.

use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::FaultyStore;
use crate::id::MemoryOwner;
use crate::store::{
    AccountContents, AccountRow, AccountStore, AccountTurn, EraseExtent, FactListQuery, FactRecord, FoundTurn,
    PageCursor, ResultPage, RunRow, SessionRow, StoreError, TurnSearch, TurnSearchQuery,
};
use crate::webhook::DeliveryId;

impl AccountStore for FaultyStore {
    fn accounts(
        &self,
        owners: Option<Vec<Arc<str>>>,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<AccountRow>, StoreError>> {
        self.inner.accounts(owners, limit, cursor)
    }

    fn account_contents(&self, account: &MemoryOwner) -> BoxFuture<'_, Result<AccountContents, StoreError>> {
        self.inner.account_contents(account)
    }

    fn account_facts(&self, query: FactListQuery) -> BoxFuture<'_, Result<ResultPage<FactRecord>, StoreError>> {
        self.inner.account_facts(query)
    }

    fn account_fact(&self, account: &MemoryOwner, fact: u64) -> BoxFuture<'_, Result<Option<FactRecord>, StoreError>> {
        self.inner.account_fact(account, fact)
    }

    fn account_sessions(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<SessionRow>, StoreError>> {
        self.inner.account_sessions(account, limit, cursor)
    }

    fn account_turns(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<AccountTurn>, StoreError>> {
        self.inner.account_turns(account, limit, cursor)
    }

    fn account_runs(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<RunRow>, StoreError>> {
        self.inner.account_runs(account, limit, cursor)
    }

    fn forget_account(
        &self,
        account: &MemoryOwner,
        deliveries: Vec<DeliveryId>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.forget_account(account, deliveries)
    }

    fn erase_remains(&self, extent: EraseExtent) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.erase_remains(extent)
    }
}

impl TurnSearch for FaultyStore {
    fn index_turns(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.index_turns()
    }

    fn search_turns(&self, query: TurnSearchQuery) -> BoxFuture<'_, Result<ResultPage<FoundTurn>, StoreError>> {
        self.inner.search_turns(query)
    }
}
