//! Builds all HTTP clients.
//!
//! All of them send the same user agent, follow no redirect (it could leak a token to another host, or lead to an
//! unchecked address), send no `Referer`, store no cookies and decompress nothing, so that limits count bytes on the
//! wire. Differences are in [`ClientOptions`].

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::error::BoxError;
use patchboard_core::loopback;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, Url};

/// Idle connections kept per host; further ones are closed after their response.
const MAX_IDLE_PER_HOST: usize = 256;
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// An HTTP/2 connection that does not answer a ping in this time is closed with all its streams.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(15);

tokio::task_local! {
    /// Connect timeout of the current request: the pool is shared, the limit is per request.
    static CONNECT_WITHIN: Duration;
}

/// The client that a URL needs. Loading the operating system's trust store costs tens of milliseconds and megabytes, so
/// only `https://` loads it. Requests to loopback never use a proxy from the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientKind {
    Loopback,
    Plain,
    Tls,
    LoopbackTls,
}

#[derive(Clone)]
pub struct ClientOptions {
    kind: ClientKind,
    connect_timeout: Option<Duration>,
    timeout: Option<Duration>,
    reuse: ConnectionReuse,
    /// Replaces the system's resolver. Such a client uses no proxy, which would resolve the name again.
    resolver: Option<Arc<dyn Resolve>>,
}

/// What happens to a connection after its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionReuse {
    /// It is closed.
    Never,
    /// The library's defaults.
    Default,
    /// Kept open and probed, for many concurrent streams to a few hosts.
    LongLived,
}

impl ClientKind {
    pub fn for_url(url: &Url) -> Self {
        let is_loopback = url.host_str().is_some_and(loopback::is_loopback_host);
        match (url.scheme() == "https", is_loopback) {
            (false, true) => Self::Loopback,
            (false, false) => Self::Plain,
            (true, false) => Self::Tls,
            (true, true) => Self::LoopbackTls,
        }
    }

    fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::LoopbackTls)
    }

    fn is_loopback(self) -> bool {
        matches!(self, Self::Loopback | Self::LoopbackTls)
    }
}

impl ClientOptions {
    /// Without timeouts, reusing connections by the library's defaults.
    pub fn new(kind: ClientKind) -> Self {
        let resolver = kind.is_loopback().then(|| -> Arc<dyn Resolve> { Arc::new(LoopbackResolver) });
        Self { kind, connect_timeout: None, timeout: None, reuse: ConnectionReuse::Default, resolver }
    }

    /// For requests whose addresses were checked: `resolver` returns those. Connections are not reused, because the
    /// check holds for one request.
    pub(crate) fn checked(kind: ClientKind, resolver: Arc<dyn Resolve>) -> Self {
        Self { reuse: ConnectionReuse::Never, resolver: Some(resolver), ..Self::new(kind) }
    }

    pub fn connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: Some(timeout), ..self }
    }

    /// From the start of a request to the end of its response body.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    pub fn reuse(self, reuse: ConnectionReuse) -> Self {
        Self { reuse, ..self }
    }

    pub async fn build(self) -> Result<Client, reqwest::Error> {
        if !self.kind.is_tls() {
            return self.builder().build();
        }
        // Loading the trust store blocks. If the blocking task fails, it is loaded on this thread.
        let options = self.clone();
        match tokio::task::spawn_blocking(move || options.builder().build()).await {
            Ok(built) => built,
            Err(_) => self.builder().build(),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that builds clients")]
    fn builder(self) -> ClientBuilder {
        // Fails if a provider is already installed, which serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut builder = Client::builder()
            .user_agent(concat!("patchboard/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .tcp_nodelay(true)
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate();
        if !self.kind.is_tls() {
            builder = builder.tls_certs_only([]);
        }
        if let Some(resolver) = self.resolver {
            builder = builder.dns_resolver(resolver).no_proxy();
        }
        if let Some(timeout) = self.connect_timeout {
            builder = builder.connect_timeout(timeout);
        }
        if let Some(timeout) = self.timeout {
            builder = builder.timeout(timeout);
        }
        match self.reuse {
            ConnectionReuse::Never => builder.pool_max_idle_per_host(0),
            ConnectionReuse::Default => builder,
            ConnectionReuse::LongLived => with_long_lived_connections(builder),
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions").field("kind", &self.kind).field("reuse", &self.reuse).finish_non_exhaustive()
    }
}

/// Resolves loopback names without a name server, which could return another machine.
#[derive(Debug)]
struct LoopbackResolver;

impl Resolve for LoopbackResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let addresses = loopback::addresses(name.as_str());
        Box::pin(async move {
            if addresses.is_empty() {
                return Err(io::Error::from(io::ErrorKind::NotFound).into());
            }
            // Port 0: the client replaces it with the URL's.
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// Sends a request of a long-lived client; a new connection may take at most `connect_within`.
pub async fn send_within(request: RequestBuilder, connect_within: Duration) -> Result<Response, reqwest::Error> {
    CONNECT_WITHIN.scope(connect_within, request.send()).await
}

fn with_long_lived_connections(builder: ClientBuilder) -> ClientBuilder {
    builder
        .tcp_keepalive(KEEP_ALIVE)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
        .http2_adaptive_window(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .connector_layer(tower::util::MapFutureLayer::new(with_connect_limit))
}

/// Runs in the task of the request that opens the connection.
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
