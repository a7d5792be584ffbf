use super::*;

#[tokio::test]
async fn clients_are_built_once_and_only_when_needed() {
    let pool = ClientPool::new();
    assert!(pool.clients.loopback.get().is_none());
    let first: *const Client = pool.client(ClientKind::Loopback).await.unwrap();
    let again: *const Client = pool.clone().client(ClientKind::Loopback).await.unwrap();
    assert!(std::ptr::eq(first, again));
    assert!(pool.clients.plain.get().is_none() && pool.clients.tls.get().is_none());
}
