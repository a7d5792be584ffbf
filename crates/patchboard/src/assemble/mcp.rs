//! The MCP servers of the configuration, and where it is kept which of their tools were approved.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::error::BoxError;
use patchboard_core::port::{Batch, Clock, Durability, Space, Store, Write};
use patchboard_tools::mcp::{Launch, McpHosts, McpReach, McpServerOptions, PinStore, Pins};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::section::McpConfig;
use crate::config::{Loaded, Secrets};
use crate::credentials;

/// Started in the background; they end with `stop`.
pub(super) fn hosts(
    loaded: &Loaded,
    secrets: &Secrets,
    launch: &Launch,
    pins: Arc<StoredPins>,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) -> Arc<McpHosts> {
    let servers = &loaded.config.mcp;
    if servers.values().any(|server| server.url.is_none()) {
        make_credentials_folder(loaded);
    }
    let servers = servers.iter().map(|(name, server)| options(name, server, secrets));
    McpHosts::start(servers.collect(), launch, pins, tracker, stop)
}

/// A program cannot be kept from what does not exist yet, and keys may be stored while it runs.
fn make_credentials_folder(loaded: &Loaded) {
    if let Some(folder) = loaded.folders.credentials_dir()
        && let Err(error) = credentials::private_folder(&folder)
    {
        // Then this user cannot store keys there either.
        tracing::debug!(%error, "the folder for keys cannot be made");
    }
}

fn options(name: &str, server: &McpConfig, secrets: &Secrets) -> McpServerOptions {
    let reach = match (&server.url, server.command.split_first()) {
        (Some(url), _) => McpReach::Http { url: url.clone(), token: secrets.mcp_tokens.get(name).cloned() },
        // The configuration was checked: one of the two is there.
        (None, command) => {
            let (program, arguments) = command.unzip();
            McpReach::Command {
                program: program.cloned().unwrap_or_default(),
                arguments: arguments.unwrap_or_default().to_vec(),
                env: secrets.mcp_env.get(name).cloned().unwrap_or_default(),
            }
        }
    };
    McpServerOptions {
        name: name.into(),
        reach,
        start_timeout: server.start_timeout.into(),
        call_timeout: server.call_timeout.into(),
    }
}

/// In the database, beside everything else the server must not forget.
#[derive(Debug)]
pub(super) struct StoredPins {
    /// What kind of thing offers the tools.
    pub(super) of: &'static str,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
}

impl StoredPins {
    fn key(&self, server: &str) -> String {
        format!("{}/pins/{server}", self.of)
    }
}

impl PinStore for StoredPins {
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<Pins>, BoxError>> {
        Box::pin(async move {
            let kept = self.store.kept(&Space::Server, &self.key(server)).await?;
            kept.map(|bytes| Pins::from_bytes(&bytes)).transpose()
        })
    }

    fn save<'a>(&'a self, server: &'a str, pins: Pins) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let keep = Write::Keep {
                space: Space::Server,
                key: self.key(server).into(),
                value: Some(pins.to_bytes()?),
                at: self.clock.now(),
            };
            self.store.commit(Batch { durability: Durability::Boundary, writes: vec![keep] }).await?;
            Ok(())
        })
    }
}
