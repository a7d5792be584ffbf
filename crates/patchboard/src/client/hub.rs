//! The client of the hub's HTTP API. HTTP is written by hand: the hub is on this machine, and every connection carries
//! one request and one response.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use patchboard_core::loopback;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::http::Uri;

use super::error::io_reason;
use crate::data_dir;

mod http_response;

/// How long the hub may take beyond the requested wait.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// The hub's maximum wait in one request.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// A page of the longest messages is far smaller; a longer response is not the hub's.
const MAX_RESPONSE: u64 = 64 * 1024 * 1024;
const PAGE_SIZE: usize = 100;

#[derive(Debug)]
pub(crate) struct HubClient {
    /// `host:port`
    authority: String,
    token: Option<SecretString>,
}

/// What the hub deletes about an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForgetScope {
    /// What was learned from its responses.
    Learned,
    /// That, and its approval and token.
    Everything,
}

/// The server does not listen for apps.
#[derive(Debug)]
pub(crate) struct HubOff;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HubError {
    #[error("no hub answers at {authority}: {why}")]
    Unreachable { authority: String, why: String },
    /// The hub rejected the request.
    #[error("{message}")]
    Refused { status: u16, message: String },
    #[error("the answer of the hub cannot be read: {0}")]
    Unreadable(String),
}

impl HubClient {
    /// The hub of the server on a data directory, if one runs.
    pub(crate) fn of_data_dir(data_dir: &Path) -> Result<Option<Self>, HubOff> {
        let Some(server) = data_dir::find_server(data_dir) else { return Ok(None) };
        let hub = server.hub.ok_or(HubOff)?;
        Ok(Some(Self { authority: hub.to_string(), token: data_dir::operator_token(data_dir) }))
    }

    /// The hub at an address: `http://127.0.0.1:9473`, `ws://…` or `host:port`.
    pub(crate) fn of_url(url: &str, token: Option<SecretString>) -> anyhow::Result<Self> {
        let authority = LocalUrl::read(url, &["http", "ws"]).map_err(|why| anyhow::anyhow!("`{url}` {why}"))?.authority;
        let is_header = |token: &SecretString| token.expose_secret().bytes().all(|byte| byte.is_ascii_graphic());
        if !token.as_ref().is_none_or(is_header) {
            anyhow::bail!("the token has characters that no token has");
        }
        Ok(Self { authority, token })
    }

    pub(crate) async fn submit(&self, message: &Value) -> Result<Value, HubError> {
        self.post("/v1/messages", message).await
    }

    pub(crate) async fn message(&self, id: &str) -> Result<Value, HubError> {
        self.get(&format!("/v1/messages/{}", percent_encode(id)), Duration::ZERO).await
    }

    /// The message once its version exceeds `version`, or its current state after `wait`.
    pub(crate) async fn message_after(&self, id: &str, version: u64, wait: Duration) -> Result<Value, HubError> {
        let wait = wait.min(LONGEST_WAIT);
        let path = format!("/v1/messages/{}?newer_than={version}&wait={}", percent_encode(id), whole_seconds(wait));
        self.get(&path, wait).await
    }

    /// The message once every app that received it has responded or timed out, or its current state after `wait`.
    pub(crate) async fn message_settled(&self, id: &str, wait: Duration) -> Result<Value, HubError> {
        let wait = wait.min(LONGEST_WAIT);
        let path = format!("/v1/messages/{}?wait={}", percent_encode(id), whole_seconds(wait));
        self.get(&path, wait).await
    }

    /// Lists messages, newest first.
    pub(crate) async fn messages(&self, state: Option<&str>, limit: usize) -> Result<Vec<Value>, HubError> {
        let mut items: Vec<Value> = Vec::new();
        let mut cursor: Option<String> = None;
        while items.len() < limit {
            let mut path = format!("/v1/messages?limit={}", (limit - items.len()).min(PAGE_SIZE));
            if let Some(state) = state {
                path.push_str(&format!("&state={}", percent_encode(state)));
            }
            if let Some(cursor) = &cursor {
                path.push_str(&format!("&cursor={}", percent_encode(cursor)));
            }
            let mut page = self.get(&path, Duration::ZERO).await?;
            let more = take_items(&mut page);
            let is_empty = more.is_empty();
            items.extend(more);
            cursor = page.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() || is_empty {
                break;
            }
        }
        items.truncate(limit);
        Ok(items)
    }

    pub(crate) async fn resend(&self, id: &str) -> Result<Value, HubError> {
        self.post(&format!("/v1/messages/{}/resend", percent_encode(id)), &json!({})).await
    }

    pub(crate) async fn route(&self, id: &str, client: &str) -> Result<Value, HubError> {
        self.post(&format!("/v1/messages/{}/route", percent_encode(id)), &json!({ "client": client })).await
    }

    pub(crate) async fn cancel(&self, id: &str) -> Result<Value, HubError> {
        self.post(&format!("/v1/messages/{}/cancel", percent_encode(id)), &json!({})).await
    }

    /// How a text would be routed now.
    pub(crate) async fn explain(&self, text: &str) -> Result<Value, HubError> {
        self.post("/v1/route", &json!({ "text": text })).await
    }

    /// The same if no model could be asked.
    pub(crate) async fn explain_locally(&self, text: &str) -> Result<Value, HubError> {
        self.post("/v1/route", &json!({ "text": text, "local_only": true })).await
    }

    pub(crate) async fn clients(&self) -> Result<Vec<Value>, HubError> {
        Ok(take_items(&mut self.get("/v1/clients", Duration::ZERO).await?))
    }

    pub(crate) async fn approve(&self, name: &str) -> Result<Value, HubError> {
        self.post(&format!("/v1/clients/{}/approve", percent_encode(name)), &json!({})).await
    }

    pub(crate) async fn pair(&self, name: &str) -> Result<Value, HubError> {
        self.post(&format!("/v1/clients/{}/pair", percent_encode(name)), &json!({})).await
    }

    pub(crate) async fn forget(&self, name: &str, what: ForgetScope) -> Result<Value, HubError> {
        let body = match what {
            ForgetScope::Learned => json!({ "unpair": false }),
            ForgetScope::Everything => json!({ "unpair": true }),
        };
        self.post(&format!("/v1/clients/{}/forget", percent_encode(name)), &body).await
    }

    async fn get(&self, path: &str, wait: Duration) -> Result<Value, HubError> {
        self.request(&self.head("GET", path, None), None, RESPONSE_TIMEOUT + wait).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, HubError> {
        let body = body.to_string();
        self.request(&self.head("POST", path, Some(body.len())), Some(&body), RESPONSE_TIMEOUT).await
    }

    async fn request(&self, head: &str, body: Option<&str>, timeout: Duration) -> Result<Value, HubError> {
        let result = tokio::time::timeout(timeout, self.exchange(head, body)).await;
        let bytes = result
            .map_err(|_| self.unreachable("no answer in time"))?
            .map_err(|error| self.unreachable(&io_reason(&error)))?;
        if bytes.len() as u64 > MAX_RESPONSE {
            return Err(HubError::Unreadable("it is too long".to_owned()));
        }
        http_response::parse_response(&bytes)
    }

    async fn exchange(&self, head: &str, body: Option<&str>) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(&*socket_addresses(&self.authority)).await?;
        stream.set_nodelay(true)?;
        let request = format!("{head}{}", body.unwrap_or_default());
        // A hub may reject a request before reading all of it; its response is still worth reading.
        let sent = stream.write_all(request.as_bytes()).await;
        let mut bytes = Vec::new();
        let got = stream.take(MAX_RESPONSE + 1).read_to_end(&mut bytes).await;
        match (sent, got) {
            (_, Ok(_)) if !bytes.is_empty() => Ok(bytes),
            (Err(error), _) | (Ok(()), Err(error)) => Err(error),
            (Ok(()), Ok(_)) => Err(std::io::Error::other("the connection was closed without an answer")),
        }
    }

    fn head(&self, method: &str, path: &str, length: Option<usize>) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.authority);
        head.push_str("Accept: application/json\r\n");
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {}\r\n", token.expose_secret()));
        }
        if let Some(length) = length {
            head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"));
        }
        head.push_str("\r\n");
        head
    }

    fn unreachable(&self, why: &str) -> HubError {
        HubError::Unreachable { authority: self.authority.clone(), why: why.to_owned() }
    }
}

/// An address on this machine. Hubs listen nowhere else, and a token must not leave the machine unencrypted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LocalUrl {
    /// `host:port`
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl LocalUrl {
    /// Parses an address. The scheme may be omitted; the default port is the hub's.
    pub(crate) fn read(url: &str, schemes: &[&str]) -> Result<Self, &'static str> {
        let bare = if url.contains("://") { url.to_owned() } else { format!("ws://{url}") };
        let uri: Uri = bare.parse().map_err(|_| "is not an address")?;
        if url.contains("://") && !uri.scheme_str().is_some_and(|scheme| schemes.contains(&scheme)) {
            return Err("is not the address of a hub, which begins with ws://");
        }
        let authority = uri.authority().ok_or("is not an address")?;
        let host = authority.host();
        if !loopback::is_loopback_host(host) {
            return Err("is not on this machine, and hubs are");
        }
        let port = match authority.as_str() == host {
            true => 9473,
            false => authority.port_u16().ok_or("has a port that is no number")?,
        };
        let path = if uri.path().is_empty() { "/" } else { uri.path() };
        Ok(Self { authority: format!("{host}:{port}"), path: path.to_owned() })
    }
}

/// Where `host:port` of this machine is. No resolver is asked: a token must not follow a name to another machine.
pub(crate) fn socket_addresses(authority: &str) -> Vec<SocketAddr> {
    if let Ok(address) = authority.parse() {
        return vec![address];
    }
    let Some((host, port)) = authority.rsplit_once(':') else { return Vec::new() };
    let Ok(port) = port.parse() else { return Vec::new() };
    loopback::addresses(host).into_iter().map(|address| SocketAddr::new(address, port)).collect()
}

/// Rounded up: a wait of zero would not wait at all.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

fn take_items(page: &mut Value) -> Vec<Value> {
    match page.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// Encodes a path segment or query value.
fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests;
