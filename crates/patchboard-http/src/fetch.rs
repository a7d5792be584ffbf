//! The core's `HttpFetcher` port: the only HTTP access for tools and plugins, protected against server-side request
//! forgery.
//!
//! The URL is parsed once, by the parser that the client uses. Its host is resolved once per hop; every address returned
//! must be allowed, and the client connects to these addresses only, so DNS rebinding has no effect. A caller's list of
//! granted hosts is checked before the lookup. Each redirect is a new hop with all checks repeated. No proxy from the
//! environment, no cookies, and no connection shared between hops.

mod address;
mod allowlist;
mod hosts;
mod outgoing;
mod redirect;
mod resolve;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::port::{FetchError, FetchRequest, FetchResponse, HttpFetcher};
use patchboard_core::text::clipped;
use reqwest::header::HeaderMap;
use reqwest::{Client, Response};
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;

pub use hosts::{PrivateHost, PrivateHostError};
pub use resolve::{HostResolver, SystemResolver};

use crate::body::{BodyEnd, read_body};
use crate::client::{ClientKind, ClientOptions};
use crate::transport::root_cause;
use address::{BlockedAddress, blocked_address};
use allowlist::{HostAllowlist, RequestHop};
use outgoing::{OutgoingRequest, RequestTarget};
use resolve::{PINNED, PinnedResolver};

/// More redirects count as a loop.
const MAX_REDIRECTS: usize = 5;
/// Concurrent exchanges; further ones wait, and their timeout includes the wait.
const EXCHANGES_AT_ONCE: usize = 64;
/// A caller's larger values are reduced to these.
const MAX_TIMEOUT: Duration = Duration::from_secs(300);
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;
/// Response headers past this size are omitted.
const MAX_ANSWER_HEADER_BYTES: usize = 32 * 1024;
const MAX_CAUSE_BYTES: usize = 200;

/// Fetches from public addresses and from the private hosts that the operator listed.
pub struct GuardedFetch {
    private_hosts: Vec<PrivateHost>,
    resolver: Arc<dyn HostResolver>,
    /// For `http://`: without a trust store, which is slow to load.
    plain: OnceCell<Client>,
    tls: OnceCell<Client>,
    slots: Semaphore,
}

impl GuardedFetch {
    pub fn new(private_hosts: Vec<PrivateHost>) -> Self {
        Self::with_resolver(private_hosts, Arc::new(SystemResolver::default()))
    }

    pub fn with_resolver(private_hosts: Vec<PrivateHost>, resolver: Arc<dyn HostResolver>) -> Self {
        let slots = Semaphore::new(EXCHANGES_AT_ONCE);
        Self { private_hosts, resolver, plain: OnceCell::new(), tls: OnceCell::new(), slots }
    }

    async fn exchange(
        &self,
        mut outgoing: OutgoingRequest,
        granted: HostAllowlist,
        max_bytes: usize,
    ) -> Result<FetchResponse, FetchError> {
        let mut hop = RequestHop::First;
        let Ok(_slot) = self.slots.acquire().await else { return Err(FetchError::Cancelled) };
        for _ in 0..=MAX_REDIRECTS {
            let target = outgoing.target()?;
            granted.admit(&target, hop)?;
            let response = self.send(&outgoing, &target).await?;
            match redirect::redirect_request(&outgoing, response.status(), response.headers())? {
                Some(next) => (outgoing, hop) = (next, RequestHop::Redirect),
                None => return receive(response, &outgoing, max_bytes).await,
            }
        }
        Err(FetchError::Failed(format!("there were more than {MAX_REDIRECTS} redirects")))
    }

    async fn send(&self, outgoing: &OutgoingRequest, target: &RequestTarget) -> Result<Response, FetchError> {
        let addresses: Arc<[SocketAddr]> = self.checked_addresses(target).await?.into();
        let failed = |error: reqwest::Error| {
            let (host, cause) = (&target.label, root_cause(&error));
            FetchError::Failed(match error.is_connect() {
                true => format!("cannot connect to `{host}`: {cause}"),
                false => format!("`{host}` gave no proper answer: {cause}"),
            })
        };
        let client = self.client(target.is_tls).await.map_err(failed)?;
        let mut request =
            client.request(outgoing.method.clone(), outgoing.url.clone()).headers(outgoing.headers.clone());
        if let Some(body) = &outgoing.body {
            request = request.body(body.clone());
        }
        let response = PINNED.scope(addresses.clone(), request.send()).await.map_err(failed)?;
        // A second check, in case the client connects to an address that the resolver did not return.
        let peer = response.remote_addr().map(|peer| peer.ip().to_canonical());
        if !addresses.iter().any(|address| Some(address.ip().to_canonical()) == peer) {
            return Err(FetchError::Refused(format!("`{}` answered from an address not checked", target.label)));
        }
        Ok(response)
    }

    /// Fails unless all addresses are allowed: otherwise the owner of the name could choose which one is used.
    async fn checked_addresses(&self, target: &RequestTarget) -> Result<Vec<SocketAddr>, FetchError> {
        let addresses = match target.literal {
            Some(literal) => vec![literal],
            None => self.resolver.resolve(&target.host).await.map_err(|error| {
                FetchError::Failed(format!(
                    "`{}` cannot be resolved: {}",
                    target.label,
                    clipped(&error, MAX_CAUSE_BYTES)
                ))
            })?,
        };
        if addresses.is_empty() {
            return Err(FetchError::Failed(format!("`{}` has no address", target.label)));
        }
        let is_named = self.private_hosts.iter().any(|private| private.matches(&target.host, target.port));
        for address in &addresses {
            if let Some(reason) = blocked_address(*address)
                && !(is_named && can_be_allowed(reason, target.literal))
            {
                return Err(blocked_error(target, reason));
            }
        }
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, target.port)).collect())
    }

    async fn client(&self, is_tls: bool) -> Result<&Client, reqwest::Error> {
        let (cell, kind) = if is_tls { (&self.tls, ClientKind::Tls) } else { (&self.plain, ClientKind::Plain) };
        cell.get_or_try_init(|| ClientOptions::checked(kind, Arc::new(PinnedResolver)).build()).await
    }
}

impl HttpFetcher for GuardedFetch {
    fn fetch(
        &self,
        request: FetchRequest,
        stop: CancellationToken,
    ) -> BoxFuture<'_, Result<FetchResponse, FetchError>> {
        Box::pin(async move {
            let timeout = request.timeout.min(MAX_TIMEOUT);
            let max_bytes = request.max_bytes.min(MAX_BODY_BYTES);
            let granted = HostAllowlist::new(request.only_hosts.as_deref());
            let outgoing = OutgoingRequest::new(request)?;
            tokio::select! {
                biased;
                () = stop.cancelled() => Err(FetchError::Cancelled),
                done = tokio::time::timeout(timeout, self.exchange(outgoing, granted, max_bytes)) => {
                    done.unwrap_or_else(|_| Err(FetchError::Timeout(format!("there was no whole answer in {timeout:?}"))))
                }
            }
        })
    }
}

impl fmt::Debug for GuardedFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedFetch")
            .field("private_hosts", &self.private_hosts)
            .field("resolver", &self.resolver)
            .finish_non_exhaustive()
    }
}

/// Whether a host listed in the configuration may resolve to this kind of address. A listed name that resolves to the
/// metadata service was not intended by the operator; a literal address was.
fn can_be_allowed(reason: BlockedAddress, literal: Option<IpAddr>) -> bool {
    match reason {
        BlockedAddress::Loopback | BlockedAddress::Private | BlockedAddress::CarrierGrade => true,
        BlockedAddress::LinkLocal
        | BlockedAddress::Metadata
        | BlockedAddress::Documentation
        | BlockedAddress::Reserved => literal.is_some(),
        BlockedAddress::Multicast | BlockedAddress::Unspecified => false,
    }
}

fn blocked_error(target: &RequestTarget, reason: BlockedAddress) -> FetchError {
    let hint = match can_be_allowed(reason, target.literal) {
        true => "; the operator can allow the host in `tools.fetch_private_hosts`",
        false => "",
    };
    FetchError::Refused(format!("`{}` is at {reason}, which may not be fetched from{hint}", target.label))
}

/// Reads the body until its end or the limit.
async fn receive(
    mut response: Response,
    outgoing: &OutgoingRequest,
    max_bytes: usize,
) -> Result<FetchResponse, FetchError> {
    let (status, headers) = (response.status().as_u16(), bounded_headers(response.headers()));
    let mut body = Vec::new();
    match read_body(&mut response, max_bytes, &mut body).await {
        Ok(end) => {
            let is_truncated = end == BodyEnd::Cut;
            Ok(FetchResponse { status, url: outgoing.url.to_string(), headers, body, is_truncated })
        }
        Err(error) => {
            let (read, cause) = (body.len(), root_cause(&error));
            Err(FetchError::Failed(format!("the answer broke off after {read} bytes: {cause}")))
        }
    }
}

fn bounded_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut room = MAX_ANSWER_HEADER_BYTES;
    let mut told = Vec::new();
    for (name, value) in headers {
        let Some(left) = room.checked_sub(name.as_str().len() + value.len()) else { break };
        room = left;
        told.push((name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    }
    told
}

#[cfg(test)]
mod tests;
