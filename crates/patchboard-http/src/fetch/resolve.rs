//! Name resolution: once per hop, before the check, and never again by the client.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

/// Concurrent lookups. A lookup cannot be cancelled, so without a limit unresponsive name servers could occupy all
/// blocking threads.
const LOOKUPS_AT_ONCE: usize = 16;

pub trait HostResolver: Send + Sync + fmt::Debug {
    /// All addresses of a name.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver.
#[derive(Debug)]
pub struct SystemResolver {
    slots: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { slots: Arc::new(Semaphore::new(LOOKUPS_AT_ONCE)) }
    }
}

impl HostResolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let slot = self.slots.clone().acquire_owned().await.map_err(io::Error::other)?;
            let host = host.to_owned();
            let lookup = tokio::task::spawn_blocking(move || {
                // Held until the lookup ends, even if the caller has been dropped.
                let _slot = slot;
                (host.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}

tokio::task_local! {
    /// The addresses that the current request may connect to.
    pub(super) static PINNED: Arc<[SocketAddr]>;
}

/// Resolves every name to the checked addresses. Fails outside of a checked request.
#[derive(Debug)]
pub(super) struct PinnedResolver;

impl Resolve for PinnedResolver {
    fn resolve(&self, _name: Name) -> Resolving {
        let pinned = PINNED.try_with(Arc::clone);
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = pinned?.to_vec();
            let addresses: Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}
