//! MCP servers as tool hosts, one each, and the relay that connects MCP clients on standard input and output to a
//! running server.
//!
//! * `host` – a server as a `ToolHost`; `supervisor` – the task that starts, monitors and restarts it.
//! * `connection` – one connection, over `process` (a program, jailed where the kernel supports jails) or `http`;
//!   `notifications` – messages the server sends on its own.
//! * `tool_list`, `pin` – the tools it offers, and their approved definitions; `output` – its results as text.
//! * `relay` – newline-delimited JSON-RPC on one side, an MCP endpoint over HTTP on the other.
//!
//! A server is third-party code: everything it sends is bounded, and its tools are pinned when first seen.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::port::ToolHost;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod connection;
mod host;
mod http;
mod notifications;
mod output;
mod pin;
mod process;
mod relay;
mod supervisor;
mod tool_list;

pub(crate) use pin::tool_changes;
pub use pin::{MemoryPins, PinStore, ToolChange, ToolPin, ToolPins};
pub use relay::{RelayTarget, relay};
pub(crate) use tool_list::ListedTool;

#[cfg(target_os = "linux")]
pub use crate::launch::JailConfig;
pub use crate::launch::LaunchMode;

use host::McpHost;

/// One MCP server of the configuration.
#[derive(Debug, Clone)]
pub struct McpServerOptions {
    /// Also the prefix of its tools: `name.tool`.
    pub name: Arc<str>,
    pub transport: McpTransport,
    /// From the start until its tools are listed.
    pub start_timeout: Duration,
    /// Timeout of one tool call.
    pub call_timeout: Duration,
}

/// How the server is reached.
#[derive(Clone)]
pub enum McpTransport {
    /// A program that uses its standard input and output.
    Command {
        program: String,
        arguments: Vec<String>,
        /// In addition to `PATH`, `HOME` and the locale.
        env: BTreeMap<String, SecretString>,
        /// Its working folder; `None` for the folder of this process.
        working_folder: Option<PathBuf>,
        /// An existing folder that only this program uses, accessible even if everything around it is protected.
        private: Option<PathBuf>,
    },
    /// A streamable HTTP endpoint.
    Http { url: String, token: Option<SecretString> },
    /// A server inside the test.
    #[cfg(test)]
    InProcess(Arc<dyn Fn() -> tokio::io::DuplexStream + Send + Sync>),
}

impl fmt::Debug for McpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { program, .. } => f.debug_tuple("Command").field(program).finish(),
            Self::Http { url, .. } => f.debug_tuple("Http").field(url).finish(),
            #[cfg(test)]
            Self::InProcess(_) => f.write_str("InProcess"),
        }
    }
}

/// All configured servers.
#[derive(Debug)]
pub struct McpHosts {
    hosts: Vec<Arc<McpHost>>,
}

/// Tools of one server that wait for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingTools {
    pub server: Arc<str>,
    pub tools: Vec<PendingTool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingTool {
    /// The name under which agents would call it.
    pub name: Arc<str>,
    pub change: ToolChange,
}

/// Why a server's tools could not be approved.
#[derive(Debug, thiserror::Error)]
pub enum ApproveError {
    #[error("no MCP server is named `{0}`")]
    Unknown(String),
    #[error("the MCP server `{0}` has not said yet what it offers: {1}")]
    NotListed(Arc<str>, Arc<str>),
    #[error("what was approved cannot be stored")]
    Store(#[source] patchboard_core::error::BoxError),
}

impl McpHosts {
    /// Starts every server in the background and returns at once; tools appear as servers become ready. All end when
    /// `stop` is cancelled; their supervisors run on `tasks`.
    pub fn start(
        servers: Vec<McpServerOptions>,
        launch: &LaunchMode,
        pins: Arc<dyn PinStore>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let start_one = |options| {
            let host = Arc::new(McpHost::new(options, launch.clone(), pins.clone(), tasks.clone()));
            tasks.spawn(supervisor::supervise(host.clone(), stop.clone()));
            host
        };
        Arc::new(Self { hosts: servers.into_iter().map(start_one).collect() })
    }

    pub fn tool_hosts(&self) -> Vec<Arc<dyn ToolHost>> {
        let mut hosts: Vec<Arc<dyn ToolHost>> = Vec::with_capacity(self.hosts.len());
        for host in &self.hosts {
            hosts.push(host.clone());
        }
        hosts
    }

    /// Tools that are offered but not approved, by server; servers without such tools are left out.
    pub fn pending(&self) -> Vec<PendingTools> {
        let pending = self.hosts.iter().map(|host| PendingTools { server: host.name().clone(), tools: host.pending() });
        pending.filter(|server| !server.tools.is_empty()).collect()
    }

    /// Approves what the server offers now, whatever was approved before. Returns the tools that were pending.
    pub async fn approve(&self, server: &str) -> Result<Vec<Arc<str>>, ApproveError> {
        match self.hosts.iter().find(|host| &**host.name() == server) {
            Some(host) => host.approve().await,
            None => Err(ApproveError::Unknown(server.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests;
