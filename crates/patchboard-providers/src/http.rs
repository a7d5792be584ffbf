//! The one way out: pooled connections, limits on connecting, and nothing paid for before it is needed.
//! Knows HTTP and TLS, no model API.

mod address;
mod answer;
mod caller;
mod failure;
mod post;

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
pub(crate) use self::caller::{Caller, CallerOptions, Outgoing, answering};
pub(crate) use self::failure::reported;
pub use self::post::{PostAddress, Posted};

/// Connections kept open to one host while nobody uses them; further ones are closed after their answer.
const MAX_IDLE_PER_HOST: usize = 256;
const IDLE_CONNECTION: Duration = Duration::from_secs(90);
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// An HTTP/2 connection that does not answer a ping within this is dead, and so are the streams on it.
const KEEP_ALIVE_ANSWER: Duration = Duration::from_secs(15);

tokio::task_local! {
    /// How long the request being sent may wait for a new connection. The pool is shared, the limit is not.
    static CONNECT_WITHIN: Duration;
}

/// Shared by all providers, cheap to clone, free until the first request.
#[derive(Clone, Default)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// No proxy, no trust store.
    loopback: OnceCell<Client>,
    /// No trust store: plain `http://` to other hosts.
    plain: OnceCell<Client>,
    tls: OnceCell<Client>,
    loopback_tls: OnceCell<Client>,
    endings: TaskTracker,
}

/// Which client a URL needs. Loading the operating system's trust store costs tens of milliseconds and megabytes,
/// so only `https://` pays for it; a proxy from the environment never sees loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Loopback,
    Plain,
    Tls,
    LoopbackTls,
}

impl Pool {
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for the last bytes of answers that are being read to keep their connections. Takes a second at most.
    pub async fn close(&self) {
        self.shared.endings.close();
        self.shared.endings.wait().await;
    }

    pub(crate) async fn client(&self, route: Route) -> Result<&Client, reqwest::Error> {
        let cell = match route {
            Route::Loopback => &self.shared.loopback,
            Route::Plain => &self.shared.plain,
            Route::Tls => &self.shared.tls,
            Route::LoopbackTls => &self.shared.loopback_tls,
        };
        cell.get_or_try_init(|| async move {
            match route {
                Route::Loopback | Route::Plain => build_client(route),
                // Reading certificates blocks; if its thread is lost, it is done here.
                Route::Tls | Route::LoopbackTls => match tokio::task::spawn_blocking(move || build_client(route)).await
                {
                    Ok(built) => built,
                    Err(_) => build_client(route),
                },
            }
        })
        .await
    }

    pub(crate) fn endings(&self) -> &TaskTracker {
        &self.shared.endings
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

fn build_client(route: Route) -> Result<Client, reqwest::Error> {
    // Fails when one is installed already, which is just as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = Client::builder()
        .user_agent(concat!("patchboard/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEP_ALIVE)
        .pool_idle_timeout(IDLE_CONNECTION)
        .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
        .http2_adaptive_window(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_timeout(KEEP_ALIVE_ANSWER)
        .connector_layer(tower::util::MapFutureLayer::new(limit_connecting));
    match route {
        Route::Loopback => builder.no_proxy().tls_certs_only([]),
        Route::Plain => builder.tls_certs_only([]),
        Route::Tls => builder,
        Route::LoopbackTls => builder.no_proxy(),
    }
    .build()
}

/// Runs when a connection is begun, inside the request that wants it.
fn limit_connecting<F, T>(connecting: F) -> BoxFuture<'static, Result<T, BoxError>>
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
