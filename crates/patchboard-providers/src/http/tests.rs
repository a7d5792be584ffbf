use std::future::pending;

use super::*;

#[tokio::test(start_paused = true)]
async fn connecting_takes_no_longer_than_the_request_allows() {
    let within = Duration::from_secs(3);
    let began = tokio::time::Instant::now();
    let connecting =
        CONNECT_WITHIN.scope(within, async { with_connect_limit(pending::<Result<(), BoxError>>()).await });
    let error = connecting.await.unwrap_err();
    assert_eq!(error.downcast_ref::<io::Error>().map(io::Error::kind), Some(io::ErrorKind::TimedOut));
    assert_eq!(began.elapsed(), within);
}

#[tokio::test]
async fn clients_are_built_once_and_only_when_needed() {
    let pool = ClientPool::new();
    assert!(pool.clients.loopback.get().is_none());
    let first: *const Client = pool.client(ClientKind::Loopback).await.unwrap();
    let again: *const Client = pool.clone().client(ClientKind::Loopback).await.unwrap();
    assert!(std::ptr::eq(first, again));
    assert!(pool.clients.plain.get().is_none() && pool.clients.tls.get().is_none());
}
