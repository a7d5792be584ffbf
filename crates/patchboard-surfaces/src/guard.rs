//! Checks `Host` and `Origin` of every request before anything else, loopback included: any web page can send requests
//! to 127.0.0.1, so the address alone proves nothing.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use patchboard_core::loopback::is_loopback_host;

use crate::listen::Peer;
use crate::telemetry;

/// Hosts and origins accepted besides loopback.
#[derive(Debug, Clone, Default)]
pub struct OriginGuard {
    pub surface: &'static str,
    /// Host names without a port, lowercase.
    pub allowed_hosts: Vec<String>,
    /// Whole origins such as `https://chat.example.com`, or schemes of desktop apps such as `app://obsidian.md`.
    pub allowed_origins: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GuardRejection {
    Host,
    Origin,
}

impl OriginGuard {
    pub(crate) fn check(&self, authority: Option<&str>, headers: &HeaderMap) -> Result<(), GuardRejection> {
        // No legitimate client sends two; parsers that pick different ones could be exploited against each other.
        if headers.get_all(header::HOST).iter().count() > 1 {
            return Err(GuardRejection::Host);
        }
        let host = headers.get(header::HOST).map(|value| value.to_str().unwrap_or_default());
        // An absolute request target has an authority as well, and proxies route by it.
        if host.zip(authority).is_some_and(|(host, authority)| !host.eq_ignore_ascii_case(authority)) {
            return Err(GuardRejection::Host);
        }
        if !host.or(authority).and_then(host_name).is_some_and(|name| self.host_is_allowed(&name)) {
            return Err(GuardRejection::Host);
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if origin.to_str().is_ok_and(|origin| self.origin_is_allowed(origin)) => Ok(()),
            (Some(_), _) => Err(GuardRejection::Origin),
        }
    }

    fn host_is_allowed(&self, name: &str) -> bool {
        is_loopback_host(name) || self.allowed_hosts.iter().any(|allowed| allowed == name)
    }

    fn origin_is_allowed(&self, origin: &str) -> bool {
        if self.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        rest.and_then(host_name).is_some_and(|name| is_loopback_host(&name))
    }
}

/// Axum middleware that answers 403 before any upgrade.
pub async fn check(State(guard): State<Arc<OriginGuard>>, request: Request, next: Next) -> Response {
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let (reason, text) = match guard.check(authority, request.headers()) {
        Ok(()) => return next.run(request).await,
        Err(GuardRejection::Host) => {
            ("host", "this Host is not served here; add it to allowed_hosts if it should be\n")
        }
        Err(GuardRejection::Origin) => {
            ("origin", "this Origin may not talk to this server; add it to allowed_origins if it should\n")
        }
    };
    telemetry::refused(guard.surface, reason);
    tracing::debug!(surface = guard.surface, reason, "request refused");
    (StatusCode::FORBIDDEN, text).into_response()
}

/// Without a token, the routes added so far serve only processes of the configured local users.
pub(crate) fn require_local_user_or_token<S: Clone + Send + Sync + 'static>(
    routes: Router<S>,
    needs_token: bool,
) -> Router<S> {
    if needs_token { routes } else { routes.layer(middleware::from_fn(require_local_user)) }
}

async fn require_local_user(request: Request, next: Next) -> Response {
    match request.extensions().get::<Peer>().and_then(|peer| peer.user_rejection) {
        None => next.run(request).await,
        Some(stranger) => (StatusCode::FORBIDDEN, format!("{}\n", stranger.text())).into_response(),
    }
}

/// Sets headers against framing, MIME sniffing and referrer leaks.
pub(crate) async fn security_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
        ),
    );
    response
}

/// The name in `name`, `name:port`, `[v6]` or `[v6]:port`, lowercase; `None` for anything else.
fn host_name(authority: &str) -> Option<String> {
    let (name, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (name, after) = rest.split_once(']')?;
            (name, after.strip_prefix(':').or_else(|| after.is_empty().then_some("")))
        }
        None => match authority.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (authority, Some("")),
        },
    };
    let port_is_fine = port?.bytes().all(|byte| byte.is_ascii_digit());
    (port_is_fine && !name.is_empty()).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
