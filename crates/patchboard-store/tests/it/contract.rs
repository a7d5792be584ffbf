use std::sync::Arc;

use patchboard_core::in_memory::InMemoryStore;
use patchboard_core::store::Store;
use patchboard_store::contract::check_everything;
use patchboard_store::{SqliteOptions, SqliteStore};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let made = std::cell::Cell::new(0);
    check_everything(async || {
        made.set(made.get() + 1);
        let path = folder.path().join(format!("{}.db", made.get()));
        Arc::new(SqliteStore::open(SqliteOptions::new(path)).unwrap()) as Arc<dyn Store>
    })
    .await;
    assert!(made.get() > 20, "every check had a store of its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_in_memory_keeps_the_contract() {
    check_everything(async || Arc::new(InMemoryStore::new()) as Arc<dyn Store>).await;
}
