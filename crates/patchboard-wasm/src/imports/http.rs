//! HTTP requests through the server's guarded fetcher, which checks the granted hosts on every redirect with the parser
//! that connects; limits and secrets are applied here.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use patchboard_core::plugin::HostGrant;
use patchboard_core::port::{FetchError, FetchRequest, FetchResponse};
use patchboard_core::tool::IDEMPOTENCY_KEY;
use patchboard_core::webhook::ChannelRequest;
use tokio_util::sync::CancellationToken;

use super::CallAborted;
use crate::rights::PluginRights;
use crate::secrets::{self, FilledUrl, SecretRedactor};
use crate::state::CallState;
use crate::text::quote_untrusted;
use crate::world::patchboard::plugin::http::{Host, HttpError, Request, Response};

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
const MAX_URL_BYTES: usize = 8 * 1024;
const MAX_HEADERS: usize = 64;
const MAX_HEADER_BYTES: usize = 16 * 1024;
const MAX_SENT_BYTES: usize = 4 * 1024 * 1024;
const MAX_RECEIVED_BYTES: usize = 4 * 1024 * 1024;
/// Requests per call of a plugin.
const MAX_REQUESTS: u32 = 100;

impl Host for CallState {
    async fn send(&mut self, request: Request) -> wasmtime::Result<Result<Response, HttpError>> {
        self.begin_host_call().await?;
        if self.host_calls.requests >= MAX_REQUESTS {
            let reason = format!("a call sends at most {MAX_REQUESTS} requests");
            return Ok(Err(HttpError::Failed(self.log_refusal("more requests", reason))));
        }
        self.host_calls.requests += 1;
        let mut headers = request.headers;
        if let Some(functions) = self.functions.as_ref().filter(|_| is_writing(&request.method)) {
            add_idempotency_key(&mut headers, || format!("{}-{}", functions.call_id(), self.host_calls.requests));
        }
        let request = ChannelRequest {
            method: request.method,
            url: request.url,
            headers,
            body: request.body,
            timeout: request.timeout_ms.map(|wait| Duration::from_millis(wait.into())),
        };
        let rights = Arc::clone(&self.rights);
        Ok(match send(&rights, request, self.deadline, self.stop.clone()).await {
            Ok(FetchResponse { status, headers, body, is_truncated: is_cut, url: _ }) => {
                Ok(Response { status, headers, body, is_cut })
            }
            Err(FetchError::BadRequest(reason)) => Err(HttpError::Invalid(reason)),
            Err(FetchError::Refused(reason)) => {
                let reason = format!("plugin `{}`: {reason}", rights.plugin);
                Err(HttpError::Denied(self.log_refusal(&reason, reason.clone())))
            }
            Err(FetchError::Timeout(reason)) => Err(HttpError::Timeout(reason)),
            Err(FetchError::Failed(reason)) => Err(HttpError::Failed(reason)),
            Err(FetchError::Cancelled) => return Err(CallAborted::Cancelled.into()),
        })
    }
}

fn is_writing(method: &str) -> bool {
    !["GET", "HEAD", "OPTIONS"].iter().any(|reading| method.eq_ignore_ascii_case(reading))
}

/// Lets the other service recognise a request that is sent again after a crash. A plugin's own key counts.
fn add_idempotency_key(headers: &mut Vec<(String, String)>, key: impl FnOnce() -> String) {
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY)) {
        headers.push((IDEMPOTENCY_KEY.to_owned(), key()));
    }
}

/// Sends a plugin's request under its grants and with its secrets; secrets are removed from the response.
pub(crate) async fn send(
    rights: &PluginRights,
    request: ChannelRequest,
    deadline: Instant,
    stop: CancellationToken,
) -> Result<FetchResponse, FetchError> {
    let remaining = deadline.saturating_duration_since(Instant::now());
    let timeout = request.timeout.map_or(remaining, |requested| requested.min(remaining));
    if timeout.is_zero() {
        return Err(FetchError::Timeout("there is no time left for the request".to_owned()));
    }
    let requested_url = request.url.clone();
    let PreparedFetch { fetch, carries_secret } = prepare(rights, request, timeout)?;
    let response = rights.services.fetch.fetch(fetch, stop).await;
    let redactor = SecretRedactor::new(&rights.secrets);
    match response {
        Ok(response) => Ok(FetchResponse {
            status: response.status,
            url: if carries_secret { requested_url } else { redactor.text(response.url) },
            headers: response.headers.into_iter().map(|(name, value)| (name, redactor.text(value))).collect(),
            body: redactor.bytes(response.body),
            is_truncated: response.is_truncated,
        }),
        Err(FetchError::BadRequest(reason)) => Err(FetchError::BadRequest(redactor.text(reason))),
        Err(FetchError::Refused(reason)) if carries_secret && reason.contains("redirect") => {
            let reason = redactor.text(reason);
            Err(FetchError::Refused(format!("{reason} (a request with a secret stays with the host it is for)")))
        }
        Err(FetchError::Refused(reason)) => Err(FetchError::Refused(redactor.text(reason))),
        Err(FetchError::Timeout(reason)) => Err(FetchError::Timeout(redactor.text(reason))),
        Err(FetchError::Failed(reason)) => Err(FetchError::Failed(redactor.text(reason))),
        Err(FetchError::Cancelled) => Err(FetchError::Cancelled),
    }
}

struct PreparedFetch {
    fetch: FetchRequest,
    carries_secret: bool,
}

fn prepare(rights: &PluginRights, request: ChannelRequest, timeout: Duration) -> Result<PreparedFetch, FetchError> {
    let ChannelRequest { method, url, headers, body, timeout: _ } = request;
    check_limits(&method, &url, &headers, body.as_deref()).map_err(FetchError::BadRequest)?;
    let is_in_url = secrets::has_placeholder(&url);
    let carries_secret = is_in_url || headers.iter().any(|(_, value)| secrets::has_placeholder(value));
    let (url, only_hosts) = match carries_secret {
        true => restrict_to_host(rights, &url)?,
        false => (url, Arc::clone(&rights.hosts)),
    };
    let fill = |(name, value): (String, String)| match secrets::fill_header(&value, &rights.secrets) {
        Ok(Cow::Borrowed(_)) => Ok((name, value)),
        Ok(Cow::Owned(filled)) => Ok((name, filled)),
        Err(reason) => Err(FetchError::BadRequest(reason)),
    };
    // The response is searched for secrets, so it must be complete and uncompressed.
    let blocks_redaction =
        |name: &str| ["accept-encoding", "range"].iter().any(|header| name.eq_ignore_ascii_case(header));
    let forwarded = headers.into_iter().filter(|(name, _)| !(carries_secret && blocks_redaction(name)));
    let headers = forwarded.map(fill).collect::<Result<_, _>>()?;
    let only_hosts = Some(only_hosts);
    let fetch = FetchRequest { method, url, headers, body, timeout, max_bytes: MAX_RECEIVED_BYTES, only_hosts };
    Ok(PreparedFetch { fetch, carries_secret })
}

/// A request with a secret may only go to the host it was written for, granted or not: the target of a redirect is
/// chosen by a third party.
fn restrict_to_host(rights: &PluginRights, url: &str) -> Result<(String, Arc<[HostGrant]>), FetchError> {
    let FilledUrl { url, host } = secrets::fill_url(url, &rights.secrets).map_err(FetchError::BadRequest)?;
    match rights.hosts.iter().any(|granted| granted.covers(&host.host, host.port.unwrap_or_default())) {
        true => Ok((url, [host].into())),
        false => Err(FetchError::Refused(format!("`{host}` is not granted: it needs the grant `http:{host}`"))),
    }
}

fn check_limits(method: &str, url: &str, headers: &[(String, String)], body: Option<&[u8]>) -> Result<(), String> {
    if !METHODS.contains(&method) {
        return Err(format!("method `{}` is none of {}", quote_untrusted(method), METHODS.join(", ")));
    }
    if url.len() > MAX_URL_BYTES {
        return Err(format!("the URL is longer than {MAX_URL_BYTES} bytes"));
    }
    let size: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > MAX_HEADERS || size > MAX_HEADER_BYTES {
        return Err(format!("there are more than {MAX_HEADERS} headers or {MAX_HEADER_BYTES} bytes of them"));
    }
    if headers.iter().any(|(name, _)| secrets::has_placeholder(name)) {
        return Err("a secret stands in the name of a header".to_owned());
    }
    match body {
        Some(body) if body.len() > MAX_SENT_BYTES => Err(format!("the body is larger than {MAX_SENT_BYTES} bytes")),
        Some(_) | None => Ok(()),
    }
}
