//! A client of the bridge that is the same for the server, a worker and the bare echo: only the address differs.

pub(super) mod echo;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, ensure};
use patchboard_proto::pb;
use patchboard_proto::pb::bridge_service_client::BridgeServiceClient;
use tonic::transport::{Channel, Endpoint};

/// As workers have it, in both directions.
const MAX_MESSAGE: usize = 100 * 1024 * 1024;
/// Larger than what is measured, so that nobody waits for the other's leave to go on.
const WINDOW: u32 = 32 * 1024 * 1024;

/// Where a side of a comparison listens, written as the server writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// What is asked, and what must be answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Call {
    Ping(pb::PingRequest),
    Tool {
        request: pb::ExecuteToolRequest,
        /// The result as JSON.
        answer: &'static str,
    },
}

/// One connection; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Client(BridgeServiceClient<Channel>);

/// A client with the one thing it asks.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    client: Client,
    call: Arc<Call>,
}

impl Client {
    pub(super) async fn connect(address: &Address) -> anyhow::Result<Client> {
        let endpoint = Endpoint::from_shared(address.uri())
            .with_context(|| format!("not an address: {address}"))?
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .tcp_nodelay(true);
        let channel = endpoint.connect().await.with_context(|| format!("cannot connect to {address}"))?;
        let client = BridgeServiceClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Ok(Client(client))
    }

    pub(super) async fn open_session(&mut self, id: &str) -> anyhow::Result<()> {
        let request = pb::InitializeSessionRequest { session_id: id.to_owned(), ..Default::default() };
        let answer = self.0.initialize_session(request).await.context("cannot open a session")?.into_inner();
        ensure!(answer.success, "cannot open a session: {}", answer.error_message);
        Ok(())
    }

    /// Once, with the answer looked at.
    pub(super) async fn call(&mut self, call: &Call) -> anyhow::Result<()> {
        match call {
            Call::Ping(request) => {
                let answer = self.0.ping(request.clone()).await.context("no answer to a ping")?.into_inner();
                ensure!(answer.message.ends_with(&request.message), "not my ping: `{}`", answer.message);
            }
            Call::Tool { request, answer } => {
                let told = self.0.execute_tool(request.clone()).await;
                let told = told.with_context(|| format!("`{}` was not run", request.tool_name))?.into_inner();
                ensure!(told.success, "`{}` failed: {}", request.tool_name, told.error_message);
                let result = told.result.unwrap_or_default().value;
                ensure!(
                    result == answer.as_bytes(),
                    "`{}` answered {} instead of {answer}",
                    request.tool_name,
                    String::from_utf8_lossy(&result)
                );
            }
        }
        Ok(())
    }
}

impl Caller {
    pub(super) fn new(client: Client, call: Arc<Call>) -> Caller {
        Caller { client, call }
    }

    pub(super) async fn once(&mut self) -> anyhow::Result<()> {
        self.client.call(&self.call).await
    }
}

impl Address {
    fn uri(&self) -> String {
        match self {
            Address::Tcp(address) => format!("http://{address}"),
            Address::Unix(path) => format!("unix://{}", path.display()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(out),
            Address::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Address> {
        match text.strip_prefix("unix:") {
            Some(path) => {
                ensure!(path.starts_with('/'), "not a whole path: `{path}`");
                Ok(Address::Unix(path.into()))
            }
            None => Ok(Address::Tcp(text.parse().with_context(|| format!("not an address: `{text}`"))?)),
        }
    }
}

#[cfg(test)]
mod tests;
