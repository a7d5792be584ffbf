//! The one way out: pooled connections, limits on connecting, and nothing paid for before it is needed.
//! Knows HTTP and TLS, no model API.

mod address;
mod api_client;
mod failure;
mod post;
mod response_stream;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::error::BoxError;
use reqwest::Client;
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

pub(crate) use self::address::ApiRoot;
pub(crate) use self::api_client::{ApiClient, ApiClientOptions, ApiRequest, answering_event};
pub(crate) use self::failure::stream_error;
pub use self::post::{PostAddress, PostResponse};

/// Connections kept open to one host while nobody uses them; further ones are closed after their answer.
const MAX_IDLE_PER_HOST: usize = 256;
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// An HTTP/2 connection that does not answer a ping within this is dead, and so are the streams on it.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(15);

tokio::task_local! {
    /// How long the request being sent may wait for a new connection. The pool is shared, the limit is not.
    static CONNECT_WITHIN: Duration;
}

/// Shared by all providers, cheap to clone, free until the first request.
#[derive(Clone, Default)]
pub struct ClientPool {
    clients: Arc<PooledClients>,
}

#[derive(Default)]
struct PooledClients {
    /// No proxy, no trust store.
    loopback: OnceCell<Client>,
    /// No trust store: plain `http://` to other hosts.
    plain: OnceCell<Client>,
    tls: OnceCell<Client>,
    loopback_tls: OnceCell<Client>,
    drain_tasks: TaskTracker,
}

/// Which client a URL needs. Loading the operating system's trust store costs tens of milliseconds and megabytes,
/// so only `https://` pays for it; a proxy from the environment never sees loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientKind {
    Loopback,
    Plain,
    Tls,
    LoopbackTls,
}

impl ClientPool {
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for the last bytes of answers that are being read to keep their connections. Takes a second at most.
    pub async fn close(&self) {
        self.clients.drain_tasks.close();
        self.clients.drain_tasks.wait().await;
    }

    pub(crate) async fn client(&self, route: ClientKind) -> Result<&Client, reqwest::Error> {
        let cell = match route {
            ClientKind::Loopback => &self.clients.loopback,
            ClientKind::Plain => &self.clients.plain,
            ClientKind::Tls => &self.clients.tls,
            ClientKind::LoopbackTls => &self.clients.loopback_tls,
        };
        cell.get_or_try_init(|| async move {
            match route {
                ClientKind::Loopback | ClientKind::Plain => build_client(route),
                // Reading certificates blocks; if its thread is lost, it is done here.
                ClientKind::Tls | ClientKind::LoopbackTls => {
                    match tokio::task::spawn_blocking(move || build_client(route)).await {
                        Ok(built) => built,
                        Err(_) => build_client(route),
                    }
                }
            }
        })
        .await
    }

    pub(crate) fn drain_tasks(&self) -> &TaskTracker {
        &self.clients.drain_tasks
    }
}

impl fmt::Debug for ClientPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientPool").finish_non_exhaustive()
    }
}

fn build_client(route: ClientKind) -> Result<Client, reqwest::Error> {
    // Fails when one is installed already, which is just as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = Client::builder()
        .user_agent(concat!("patchboard/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEP_ALIVE)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
        .http2_adaptive_window(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .connector_layer(tower::util::MapFutureLayer::new(with_connect_limit));
    match route {
        ClientKind::Loopback => builder.no_proxy().tls_certs_only([]),
        ClientKind::Plain => builder.tls_certs_only([]),
        ClientKind::Tls => builder,
        ClientKind::LoopbackTls => builder.no_proxy(),
    }
    .build()
}

/// Runs when a connection is begun, inside the request that wants it.
fn with_connect_limit<F, T>(connecting: F) -> BoxFuture<'static, Result<T, BoxError>>
where
    F: Future<Output = Result<T, BoxError>> + Send + 'static,
    T: 'static,
{
    let within = CONNECT_WITHIN.try_with(|within| *within).ok();
    Box::pin(async move {
        match within {
            Some(within) => tokio::time::timeout(within, connecting)
                .await
                .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into())),
            None => connecting.await,
        }
    })
}

#[cfg(test)]
mod tests;
