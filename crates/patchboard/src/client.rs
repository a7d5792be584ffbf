//! The client of a running server, as the operator: its gateway here, its runs surface in `runs`, its hub in `hub`.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use futures_util::{SinkExt, StreamExt};
use patchboard_tools::mcp::RelayTarget;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Uri};
use tokio_tungstenite::tungstenite::protocol::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::data_dir;

pub(crate) mod error;
pub(crate) mod hub;
pub(crate) mod runs;

use error::{ConnectError, disconnect_reason, host_and_port};

/// How long a server may take for the handshake.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a server's surface, with the token for it.
#[derive(Debug, Clone)]
pub(crate) struct ServerAddress {
    url: String,
    /// The surface expected at this address.
    surface: &'static str,
    token: Option<SecretString>,
}

impl ServerAddress {
    /// The server of a data directory, if one runs.
    pub(crate) fn of_data_dir(data_dir: &Path) -> Option<Self> {
        let gateway = data_dir::find_server(data_dir)?.gateway?;
        Some(Self { url: format!("ws://{gateway}/ws"), surface: GATEWAY, token: data_dir::operator_token(data_dir) })
    }

    /// The same for the runs surface; `Err` if the server runs without one.
    pub(crate) fn of_runs(data_dir: &Path) -> Result<Option<Self>, RunsSurfaceOff> {
        let Some(server) = data_dir::find_server(data_dir) else { return Ok(None) };
        let runs = server.runs.ok_or(RunsSurfaceOff)?;
        Ok(Some(Self { url: format!("ws://{runs}/"), surface: RUNS, token: data_dir::operator_token(data_dir) }))
    }

    /// The address of a gateway: `ws://host:port/ws` or a short form of it.
    pub(crate) fn of_url(url: &str, token: Option<SecretString>) -> anyhow::Result<Self> {
        Self::parse_url(url, GATEWAY, "/ws", token)
    }

    /// The address of a runs surface: `ws://host:port/` or a short form of it.
    pub(crate) fn of_runs_url(url: &str, token: Option<SecretString>) -> anyhow::Result<Self> {
        Self::parse_url(url, RUNS, "/", token)
    }

    /// The MCP endpoint on the gateway's listener.
    pub(crate) fn mcp_relay_target(self) -> RelayTarget {
        let url = self.url.replacen("ws", "http", 1);
        let url = url.strip_suffix("/ws").map(|base| format!("{base}/mcp")).unwrap_or(url);
        RelayTarget { url, token: self.token }
    }

    fn parse_url(named: &str, surface: &'static str, path: &str, token: Option<SecretString>) -> anyhow::Result<Self> {
        let url = match named.split_once("://") {
            Some(("ws" | "http", authority)) => format!("ws://{authority}"),
            Some(("wss" | "https", _)) => return Err(ConnectError::NoTls(named.to_owned()).into()),
            Some(_) => return Err(ConnectError::BadAddress(named.to_owned()).into()),
            None => format!("ws://{named}"),
        };
        let uri = url.parse::<Uri>().ok().filter(|uri| uri.host().is_some_and(|host| !host.is_empty()));
        let Some(uri) = uri else { return Err(ConnectError::BadAddress(named.to_owned()).into()) };
        let url = url.trim_end_matches('/');
        let url = if matches!(uri.path(), "" | "/") { format!("{url}{path}") } else { url.to_owned() };
        Ok(Self { url, surface, token })
    }
}

const GATEWAY: &str = "gateway";
const RUNS: &str = "runs surface";

/// The server does not listen for runs.
#[derive(Debug)]
pub(crate) struct RunsSurfaceOff;

/// A WebSocket connection to a server.
#[derive(Debug)]
struct ServerSocket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl ServerSocket {
    async fn open(address: &ServerAddress) -> anyhow::Result<Self> {
        let url = &address.url;
        let mut request = url.as_str().into_client_request().map_err(|_| ConnectError::BadAddress(url.clone()))?;
        if let Some(token) = &address.token {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()));
            let mut value = value.map_err(|_| ConnectError::TokenRejected { authority: host_and_port(url) })?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        match tokio::time::timeout(HELLO_TIMEOUT, connect_async(request)).await {
            Ok(Ok((socket, _))) => Ok(Self(socket)),
            Ok(Err(error)) => {
                Err(ConnectError::from_handshake(error, url, address.surface, address.token.is_some()).into())
            }
            Err(_) => {
                Err(ConnectError::Unreachable { authority: host_and_port(url), why: "it took too long".to_owned() }
                    .into())
            }
        }
    }

    async fn send(&mut self, text: String) -> anyhow::Result<()> {
        let sent = self.0.send(Message::text(text)).await;
        sent.map_err(|error| anyhow::anyhow!("the connection to the server broke: {}", disconnect_reason(&error)))
    }

    async fn next(&mut self) -> anyhow::Result<Utf8Bytes> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(Message::Close(Some(why)))) if !why.reason.is_empty() => {
                    bail!("the server closed the connection: {}", why.reason)
                }
                Some(Ok(Message::Close(_))) | None => bail!("the server closed the connection"),
                Some(Ok(_)) => {}
                Some(Err(error)) => bail!("the connection to the server broke: {}", disconnect_reason(&error)),
            }
        }
    }
}

/// One connection to a gateway. Requests are sent one after the other.
#[derive(Debug)]
pub(crate) struct GatewayClient {
    socket: ServerSocket,
    request_count: u64,
}

impl GatewayClient {
    pub(crate) async fn connect(address: &ServerAddress) -> anyhow::Result<Self> {
        let mut client = Self { socket: ServerSocket::open(address).await?, request_count: 0 };
        if address.token.is_none() {
            // A server that requires a token replies with an error to any other request; without a request it would
            // stay silent for a while.
            client.send("ping", json!({})).await?;
        }
        let authority = host_and_port(&address.url);
        let wrong_server = || ConnectError::WrongServer { authority: authority.clone(), surface: address.surface };
        let hello = tokio::time::timeout(HELLO_TIMEOUT, client.next_frame())
            .await
            .map_err(|_| wrong_server())?
            .map_err(|_| wrong_server())?;
        if hello.get("ok") == Some(&Value::Bool(true)) {
            return Ok(client);
        }
        Err(match (hello.get("error").and_then(Value::as_str), &address.token) {
            (Some("auth_failed"), Some(_)) => ConnectError::TokenRejected { authority },
            (Some("auth_failed"), None) => ConnectError::TokenMissing { authority },
            _ => wrong_server(),
        }
        .into())
    }

    /// Sends a request and returns its id; the response is read with `next_frame`.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> anyhow::Result<String> {
        self.request_count += 1;
        let id = format!("cli-{}", self.request_count);
        let frame = json!({ "id": id, "method": method, "params": params });
        self.socket.send(frame.to_string()).await?;
        Ok(id)
    }

    /// The next frame of any request.
    pub(crate) async fn next_frame(&mut self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.socket.next().await?)?)
    }

    /// Sends one request and waits for its result.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        let id = self.send(method, params).await?;
        loop {
            let mut frame = self.next_frame().await?;
            if frame.get("id").and_then(Value::as_str) != Some(&id) {
                continue;
            }
            if let Some(error) = frame.get("error") {
                bail!("{}", refusal_text(method, error.as_str().unwrap_or("the server refused")));
            }
            return Ok(frame.get_mut("result").map(Value::take).unwrap_or_default());
        }
    }

    /// Reads all pages of a list, up to `most` items.
    pub(crate) async fn list(&mut self, method: &str, params: Value, limit: usize) -> anyhow::Result<Vec<Value>> {
        let mut items: Vec<Value> = Vec::new();
        let mut params = params;
        loop {
            let mut page = self.call(method, params.clone()).await?;
            if let Some(Value::Array(more)) = page.get_mut("items").map(Value::take) {
                items.extend(more);
            }
            let next = page.get("next_cursor").cloned().unwrap_or_default();
            if next.is_null() || items.len() >= limit {
                items.truncate(limit);
                return Ok(items);
            }
            if let Some(fields) = params.as_object_mut() {
                fields.insert("cursor".to_owned(), next);
            }
        }
    }
}

/// An error message without the protocol's method names, which mean nothing to the user.
fn refusal_text(method: &str, refusal: &str) -> String {
    if refusal.starts_with("unknown method") {
        return "the server does not know this command: it is of another version (`patchboard doctor` compares)"
            .to_owned();
    }
    refusal.strip_prefix(&format!("invalid {method} params: ")).unwrap_or(refusal).to_owned()
}

#[cfg(test)]
mod tests;
