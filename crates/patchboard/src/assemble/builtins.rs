//! The server's built-in tools: file tools, `bash`, and web access.

use std::sync::Arc;

use anyhow::Context;
#[cfg(target_os = "linux")]
use patchboard_config::section::BashConfig;
use patchboard_config::section::{self, ToolsConfig};
use patchboard_config::{Config, Secrets};
use patchboard_core::port::{HttpFetcher, ToolHost};
use patchboard_http::{GuardedFetch, PrivateHost};
#[cfg(target_os = "linux")]
use patchboard_tools::builtin::{BashOptions, bash};
use patchboard_tools::builtin::{SearchEndpoint, SearchKind, SearchOptions, codesearch, web_fetcher, websearch};
use patchboard_tools::guard::WriteGuard;
use patchboard_tools::mcp::LaunchMode;
#[cfg(target_os = "linux")]
use patchboard_tools::sandbox::TcpAccess;
use patchboard_tools::{BuiltinOptions, BuiltinTools, Workspaces};
use tokio_util::task::TaskTracker;

/// The only HTTP client for the web, shared by tools and plugins.
pub(super) fn fetch(config: &Config) -> anyhow::Result<Arc<dyn HttpFetcher>> {
    Ok(Arc::new(GuardedFetch::new(private_hosts(&config.tools)?)))
}

pub(super) fn builtins(
    config: &Config,
    secrets: &Secrets,
    fetch: Arc<dyn HttpFetcher>,
    workspaces: &Workspaces,
    launch: &LaunchMode,
    guard: Arc<dyn WriteGuard>,
    tracker: &TaskTracker,
) -> anyhow::Result<Arc<dyn ToolHost>> {
    let tools = &config.tools;
    let mut builtins = BuiltinTools::new(BuiltinOptions { workspaces: workspaces.clone(), tasks: tracker.clone() })
        .guarded_by(guard, workspaces.clone())
        .with(web_fetcher(fetch));
    if let Some(endpoint) = search_endpoint(tools, secrets)? {
        builtins = builtins.with(websearch(endpoint.clone())).with(codesearch(endpoint));
    }
    match launch {
        // Commands of models run in a jail or not at all.
        LaunchMode::Plain => {}
        #[cfg(target_os = "linux")]
        LaunchMode::Jailed(jail) => {
            let options = BashOptions::new(workspaces.clone(), tracker.clone(), jail.spawner.clone());
            let mut options = apply_bash_config(options, tools, &jail.closed_ports, &jail.worker_ports);
            options.closed_sockets.extend(config.bridge.unix_socket.clone());
            builtins = builtins.with(bash(options));
        }
    }
    Ok(Arc::new(builtins))
}

#[cfg(target_os = "linux")]
fn apply_bash_config(
    mut options: BashOptions,
    tools: &ToolsConfig,
    own_ports: &[u16],
    worker_ports: &[u16],
) -> BashOptions {
    let BashConfig { readable, path, connect, connect_any, listen, unix_sockets } = &tools.bash;
    options.timeout = tools.bash_timeout.into();
    options.readable.extend(readable.iter().chain(path).cloned());
    let inherited = options.environment.remove("PATH");
    let folders = path.iter().map(|folder| folder.display().to_string()).chain(inherited);
    options.environment.insert("PATH".to_owned(), folders.collect::<Vec<_>>().join(":"));
    // Commands must not connect to this server, where they could start runs or answer approvals, nor to its workers,
    // which would bypass the tool policy.
    let closed = [own_ports, worker_ports].concat();
    options.network.connect = if *connect_any {
        TcpAccess::AllBut(closed.clone())
    } else {
        TcpAccess::Ports(connect.iter().copied().filter(|port| !closed.contains(port)).collect())
    };
    if *listen {
        // A process listening on a worker's port would be taken for the worker, and one on the server's port at another
        // local address for the server.
        options.network.listen = if closed.is_empty() { TcpAccess::Open } else { TcpAccess::AllBut(closed) };
    }
    options.network.unix_sockets = *unix_sockets;
    options
}

fn private_hosts(tools: &ToolsConfig) -> anyhow::Result<Vec<PrivateHost>> {
    let hosts = tools.fetch_private_hosts.iter().map(|host| host.parse());
    hosts.collect::<Result<_, _>>().context("`tools.fetch_private_hosts` cannot be used")
}

fn search_endpoint(tools: &ToolsConfig, secrets: &Secrets) -> anyhow::Result<Option<SearchEndpoint>> {
    let Some(search) = &tools.search else { return Ok(None) };
    let options = SearchOptions {
        kind: match search.kind {
            section::SearchKind::Exa => SearchKind::Exa,
            section::SearchKind::Searxng => SearchKind::SearXng,
        },
        url: search.url.clone(),
        api_key: secrets.search_key.clone(),
    };
    Ok(Some(SearchEndpoint::new(options).context("`tools.search` cannot be used")?))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
