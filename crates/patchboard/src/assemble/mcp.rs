//! The configured MCP servers, and the storage of their tools' approvals.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use futures_util::future::BoxFuture;
use patchboard_config::section::McpConfig;
use patchboard_config::{LoadedConfig, Secrets};
use patchboard_core::error::BoxError;
use patchboard_core::port::Clock;
use patchboard_core::store::{KvNamespace, Store, StoreWrite, WriteBatch};
use patchboard_tools::mcp::{LaunchMode, McpHosts, McpServerOptions, McpTransport, PinStore, ToolPins};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::folders::{ProgramKind, program_folder};
use crate::trust::guarded_files::mcp_command;

/// Starts them in the background; they end with `stop`.
pub(super) fn hosts(
    loaded: &LoadedConfig,
    secrets: &Secrets,
    launch: &LaunchMode,
    pins: Arc<StoredPins>,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) -> anyhow::Result<Arc<McpHosts>> {
    let here = std::env::current_dir().context("cannot find out in which folder this program was started")?;
    let servers = loaded.config.mcp.iter().map(|(name, server)| server_options(name, server, loaded, secrets, &here));
    Ok(McpHosts::start(servers.collect::<anyhow::Result<_>>()?, launch, pins, tracker, stop))
}

fn server_options(
    name: &str,
    server: &McpConfig,
    loaded: &LoadedConfig,
    secrets: &Secrets,
    here: &Path,
) -> anyhow::Result<McpServerOptions> {
    let command = mcp_command(server, loaded, here);
    let transport = match (&server.url, command.split_first()) {
        (Some(url), _) => McpTransport::Http { url: url.clone(), token: secrets.mcp_tokens.get(name).cloned() },
        // Validation guarantees that either URL or command is set.
        (None, command) => {
            let (program, arguments) = command.unzip();
            let private = program_folder(&loaded.config.data_dir, ProgramKind::McpServer, name)
                .with_context(|| format!("cannot make a folder for the MCP server `{name}`"))?;
            McpTransport::Command {
                program: program.cloned().unwrap_or_default(),
                arguments: arguments.unwrap_or_default().to_vec(),
                env: secrets.mcp_env.get(name).cloned().unwrap_or_default(),
                working_folder: Some(server.working_folder.clone().unwrap_or_else(|| private.clone())),
                private: Some(private),
            }
        }
    };
    Ok(McpServerOptions {
        name: name.into(),
        transport,
        start_timeout: server.start_timeout.into(),
        call_timeout: server.call_timeout.into(),
    })
}

/// Keeps tool pins in the server's database.
#[derive(Debug)]
pub(super) struct StoredPins {
    /// `mcp` or `workers`: the kind of tool host.
    pub(super) namespace: &'static str,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
}

impl StoredPins {
    fn key(&self, server: &str) -> String {
        format!("{}/pins/{server}", self.namespace)
    }
}

impl PinStore for StoredPins {
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<ToolPins>, BoxError>> {
        Box::pin(async move {
            let stored = self.store.kv_get(&KvNamespace::Server, &self.key(server)).await?;
            stored.map(|bytes| ToolPins::from_bytes(&bytes)).transpose()
        })
    }

    fn save<'a>(&'a self, server: &'a str, pins: ToolPins) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let write =
                StoreWrite::put(KvNamespace::Server, self.key(server).into(), Some(pins.to_bytes()?), self.clock.now());
            self.store.commit(WriteBatch::boundary(vec![write])).await?;
            Ok(())
        })
    }
}
