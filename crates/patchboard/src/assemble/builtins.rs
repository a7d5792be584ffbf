//! The built-in tools of a server: those for files, `bash`, and the ways to the web.

use std::sync::Arc;

use anyhow::Context;
use patchboard_core::port::ToolHost;
use patchboard_tools::builtin::{SearchEndpoint, SearchKind, SearchOptions, codesearch, web_fetcher, websearch};
use patchboard_tools::{BuiltinOptions, Builtins, GuardedFetch, PrivateHost, Workspaces};
use tokio_util::task::TaskTracker;

use crate::config::section::{self, ToolsConfig};
use crate::config::{Config, Secrets};

pub(super) fn builtins(
    config: &Config,
    secrets: &Secrets,
    workspaces: &Workspaces,
    tracker: &TaskTracker,
) -> anyhow::Result<Arc<dyn ToolHost>> {
    let tools = &config.tools;
    let fetch = Arc::new(GuardedFetch::new(private_hosts(tools)?));
    let mut builtins = Builtins::new(BuiltinOptions { workspaces: workspaces.clone(), tasks: tracker.clone() })
        .with(web_fetcher(fetch));
    if let Some(endpoint) = search_endpoint(tools, secrets)? {
        builtins = builtins.with(websearch(endpoint.clone())).with(codesearch(endpoint));
    }
    #[cfg(target_os = "linux")]
    {
        builtins = builtins.with(bash(tools, workspaces, tracker)?);
    }
    Ok(Arc::new(builtins))
}

/// Commands are started by this very program, whatever has become of its file.
#[cfg(target_os = "linux")]
fn bash(
    tools: &ToolsConfig,
    workspaces: &Workspaces,
    tracker: &TaskTracker,
) -> anyhow::Result<patchboard_tools::Builtin> {
    use patchboard_tools::builtin::{BashOptions, bash};
    use patchboard_tools::sandbox::Spawner;
    let spawner = Spawner::new("/proc/self/exe").context("cannot prepare to start commands")?;
    Ok(bash(BashOptions {
        timeout: tools.bash_timeout.into(),
        ..BashOptions::new(workspaces.clone(), tracker.clone(), spawner)
    }))
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
