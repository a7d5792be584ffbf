//! Builds the outgoing request from a caller's `FetchRequest`. Pure.

use std::net::IpAddr;

use patchboard_core::port::{FetchError, FetchRequest};
use patchboard_core::text::clipped;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

const MAX_URL_BYTES: usize = 8 * 1024;
const MAX_SENT_BYTES: usize = 4 * 1024 * 1024;
const MAX_HEADERS: usize = 64;
const MAX_HEADER_BYTES: usize = 16 * 1024;
const MAX_SHOWN_BYTES: usize = 200;

/// Connection headers, and headers that the client sets itself. A second value would allow request smuggling: hosts on
/// the way could disagree about where the request ends or which host it is for.
const RESERVED_HEADERS: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

#[derive(Debug, Clone)]
pub(super) struct OutgoingRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
}

/// The target of a URL, before name resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestTarget {
    pub(super) host: String,
    pub(super) port: u16,
    /// The host if it is an address literal. The parser has normalised all spellings.
    pub(super) literal: Option<IpAddr>,
    pub(super) is_tls: bool,
    /// Host and port for messages, clipped.
    pub(super) label: String,
}

impl OutgoingRequest {
    pub(super) fn new(request: FetchRequest) -> Result<Self, FetchError> {
        let method = METHODS.into_iter().find(|method| method.as_str() == request.method);
        let method =
            method.ok_or_else(|| bad_request(format!("method `{}` is not supported", shown(&request.method))))?;
        if request.body.as_ref().is_some_and(|body| body.len() > MAX_SENT_BYTES) {
            return Err(bad_request(format!("the body is larger than {MAX_SENT_BYTES} bytes")));
        }
        let url = read_url(&request.url, None).map_err(bad_request)?;
        let mut headers = read_headers(&request.headers)?;
        // Responses are not decompressed.
        headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        Ok(Self { method, url, headers, body: request.body })
    }

    pub(super) fn target(&self) -> Result<RequestTarget, FetchError> {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default();
        let (false, Some(port)) = (host.is_empty(), port) else {
            return Err(bad_request("the URL names no host".to_owned()));
        };
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let label = match self.url.port() {
            Some(port) => format!("{}:{port}", shown(host)),
            None => shown(host),
        };
        Ok(RequestTarget { host: host.to_owned(), port, literal, is_tls: self.url.scheme() == "https", label })
    }
}

/// Parses a URL, relative to `base` if there is one, and makes all checks that need no lookup.
pub(super) fn read_url(text: &str, base: Option<&Url>) -> Result<Url, String> {
    if text.len() > MAX_URL_BYTES {
        return Err(format!("the URL is longer than {MAX_URL_BYTES} bytes"));
    }
    let parsed = Url::options().base_url(base).parse(text.trim());
    let mut url = parsed.map_err(|error| format!("the URL cannot be read: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("only `http` and `https` URLs can be fetched, not `{}`", shown(url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL holds a user name or password; credentials belong in a header".to_owned());
    }
    url.set_fragment(None);
    Ok(url)
}

fn read_headers(headers: &[(String, String)]) -> Result<HeaderMap, FetchError> {
    let size: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > MAX_HEADERS || size > MAX_HEADER_BYTES {
        return Err(bad_request(format!(
            "there are more than {MAX_HEADERS} headers or {MAX_HEADER_BYTES} bytes of them"
        )));
    }
    let mut read = HeaderMap::new();
    for (name, value) in headers {
        let refuse = |why: &str| bad_request(format!("header `{}` {why}", shown(name)));
        let header = HeaderName::try_from(name.as_str()).map_err(|_| refuse("has no proper name"))?;
        if RESERVED_HEADERS.contains(&header.as_str()) || header.as_str().starts_with("proxy-") {
            return Err(refuse("is not for callers to set"));
        }
        let value = HeaderValue::try_from(value.as_str()).map_err(|_| refuse("has a value that cannot be sent"))?;
        read.append(header, value);
    }
    Ok(read)
}

fn bad_request(message: String) -> FetchError {
    FetchError::BadRequest(message)
}

fn shown(text: &str) -> String {
    clipped(&text.escape_debug(), MAX_SHOWN_BYTES)
}

#[cfg(test)]
mod tests;
