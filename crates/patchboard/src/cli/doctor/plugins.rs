//! Checks of plugins and channels: refused or waiting plugins, writable files, and verification of webhooks.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use patchboard_config::files::plain_reason;
use patchboard_config::section::{ChannelConfig, WebhookVerification};
use patchboard_config::{Config, LoadedConfig};

use super::DoctorFinding;
use crate::assemble::plugin_limits;
use crate::cli::plugins::report::{self, PluginReport};
use crate::client::{GatewayClient, ServerAddress};
use crate::output::one_line;
use crate::system::SystemClock;

/// One byte more than a plugin may have, so that a longer file is noticed.
const MAX_READ: u64 = 64 * 1024 * 1024 + 1;
/// Examined files of the folder: the server's limit.
const MAX_FILES: usize = 256;
/// Others may write.
const WRITABLE_BY_ALL: u32 = 0o002;

/// What is known of a plugin without a further call.
struct PluginCapabilities {
    has_channel: bool,
}

pub(super) async fn findings(loaded: &LoadedConfig) -> Vec<DoctorFinding> {
    let config = &loaded.config;
    let mut findings = Vec::new();
    let files = plugin_files(config);
    let known = match running_plugins(config).await {
        Some(plugins) => report_running(&plugins, &mut findings),
        None => inspect_files(config, &files, &mut findings).await,
    };
    findings.extend(world_writable(config, &files));
    findings.extend(agent_writable(config));
    findings.extend(config.channels.iter().map(|(name, channel)| channel_finding(name, channel, &known)));
    findings
}

/// The plugins of the server on the data directory, if one runs.
async fn running_plugins(config: &Config) -> Option<Vec<PluginReport>> {
    let address = ServerAddress::of_data_dir(&config.data_dir)?;
    let mut client = GatewayClient::connect(&address).await.ok()?;
    let items = report::fetch_plugins(&mut client).await.ok()?;
    items.iter().map(report::parse).collect::<anyhow::Result<_>>().ok()
}

fn report_running(plugins: &[PluginReport], findings: &mut Vec<DoctorFinding>) -> BTreeMap<String, PluginCapabilities> {
    findings.extend(plugins.iter().map(plugin_finding));
    let at_work = plugins.iter().filter(|plugin| plugin.state == "ready");
    let has_channel = |plugin: &PluginReport| plugin.kinds.iter().any(|kind| kind == "channel");
    at_work.map(|plugin| (plugin.name.clone(), PluginCapabilities { has_channel: has_channel(plugin) })).collect()
}

fn plugin_finding(plugin: &PluginReport) -> DoctorFinding {
    let (name, state) = (one_line(&plugin.name), one_line(&plugin.state));
    if let Some(waiting) = &plugin.waiting_for_approval {
        let changes = one_line(&waiting.changes.join("; "));
        return DoctorFinding::Bad {
            problem: format!("plugin {name}: {state}; a newer version waits for approval: {changes}"),
            hint: format!("`patchboard plugins approve {name}` takes it over"),
        };
    }
    match &plugin.error {
        Some(error) => DoctorFinding::Bad {
            problem: format!("plugin {name}: {state}: {}", one_line(error)),
            hint: "`patchboard plugins check FILE` tells more about a file".to_owned(),
        },
        None => DoctorFinding::Good(format!("plugin {name}: {state}, from {}", one_line(&plugin.source))),
    }
}

/// Names and files from the configuration, then from the folder.
fn plugin_files(config: &Config) -> Vec<(String, PathBuf)> {
    let mut files: Vec<(String, PathBuf)> =
        config.plugins.iter().map(|plugin| (plugin.name.clone(), plugin.path.clone())).collect();
    let entries = config.wasm.folder.as_ref().and_then(|folder| fs::read_dir(folder).ok());
    let mut found: Vec<PathBuf> = entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "wasm"));
    found.sort();
    for path in found.into_iter().take(MAX_FILES) {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        if files.iter().all(|(known, _)| *known != name) {
            files.push((name, path));
        }
    }
    files
}

/// Checks the files as a starting server would.
async fn inspect_files(
    config: &Config,
    files: &[(String, PathBuf)],
    findings: &mut Vec<DoctorFinding>,
) -> BTreeMap<String, PluginCapabilities> {
    let mut known = BTreeMap::new();
    for (name, path) in files {
        let wanted = config.plugins.iter().find(|plugin| plugin.name == *name).and_then(|plugin| plugin.sha256.clone());
        let shown = one_line(name);
        match inspect_file(config, path, wanted.as_deref()).await {
            Ok(checked) => {
                let tools = match checked.tools.len() {
                    1 => "1 tool".to_owned(),
                    count => format!("{count} tools"),
                };
                let channel = if checked.has_channel { " and a channel" } else { "" };
                findings
                    .push(DoctorFinding::Good(format!("plugin {shown}: {tools}{channel}, from {}", path.display())));
                known.insert(name.clone(), PluginCapabilities { has_channel: checked.has_channel });
            }
            Err((reason, hint)) => {
                let problem = format!("plugin {shown}: {} cannot be used: {}", path.display(), one_line(&reason));
                findings.push(DoctorFinding::Bad { problem, hint });
            }
        }
    }
    known
}

async fn inspect_file(
    config: &Config,
    path: &Path,
    sha256: Option<&str>,
) -> Result<patchboard_wasm::CheckedPlugin, (String, String)> {
    let check = "`patchboard plugins check FILE` tells more about a file".to_owned();
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_READ).read_to_end(&mut bytes));
    read.map_err(|error| (plain_reason(&error), "put the file there, or remove the plugin".to_owned()))?;
    let checked = patchboard_wasm::check(bytes.into(), plugin_limits(config), Arc::new(SystemClock)).await;
    let checked = checked.map_err(|refusal| {
        (refusal.reason().to_owned(), refusal.advice().map_or_else(|| check.clone(), str::to_owned))
    })?;
    match sha256 {
        Some(wanted) if !wanted.eq_ignore_ascii_case(&checked.sha256) => {
            let reason = format!("its SHA-256 is {}, not that of the configuration", checked.sha256);
            Err((reason, "put the right file back, or change `sha256`".to_owned()))
        }
        Some(_) | None => Ok(checked),
    }
}

/// Files and folders that every user of this machine may write to.
fn world_writable(config: &Config, files: &[(String, PathBuf)]) -> Vec<DoctorFinding> {
    let is_open =
        |path: &&PathBuf| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & WRITABLE_BY_ALL != 0);
    let places = config.wasm.folder.iter().chain(files.iter().map(|(_, path)| path));
    let open = places.filter(is_open).map(|place| DoctorFinding::Bad {
        problem: format!("plugins: {} can be changed by every user of this machine", place.display()),
        hint: format!("chmod o-w {}", place.display()),
    });
    open.collect()
}

/// Plugins whose files are in folders where agents' tools may write.
fn agent_writable(config: &Config) -> Option<DoctorFinding> {
    let roots: Vec<PathBuf> = config.runs.allowed_roots.iter().map(|root| resolve_path(root)).collect();
    let is_reachable = |path: &Path| roots.iter().any(|root| resolve_path(path).starts_with(root));
    let reachable = config.plugins.iter().filter(|plugin| plugin.sha256.is_none() && is_reachable(&plugin.path));
    let names: Vec<&str> = reachable.map(|plugin| plugin.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        DoctorFinding::Note(format!(
            "plugins {}: their files lie where agents work; `sha256` in the configuration, or another place, keeps \
             agents from changing them",
            names.join(", ")
        ))
    })
}

/// The real path, even if the file does not exist yet.
fn resolve_path(path: &Path) -> PathBuf {
    let beside = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}

fn channel_finding(name: &str, channel: &ChannelConfig, known: &BTreeMap<String, PluginCapabilities>) -> DoctorFinding {
    let adapter = channel.adapter(name);
    match known.get(adapter) {
        None => DoctorFinding::Bad {
            problem: format!("channel {name}: its adapter `{adapter}` is not there, so webhooks are refused"),
            hint: format!("add [[plugins]] with name = \"{adapter}\", or put {adapter}.wasm into the plugins folder"),
        },
        Some(PluginCapabilities { has_channel: false }) => DoctorFinding::Bad {
            problem: format!("channel {name}: the plugin `{adapter}` is no channel adapter"),
            hint: format!("name another one as `channels.{name}.plugin`"),
        },
        Some(PluginCapabilities { has_channel: true }) => match channel.verify {
            WebhookVerification::None => DoctorFinding::Note(format!(
                "channel {name}: POST /webhook/{name} is not verified; every program on this machine may post"
            )),
            WebhookVerification::Telegram
            | WebhookVerification::Slack
            | WebhookVerification::HmacSha256
            | WebhookVerification::Token => {
                DoctorFinding::Good(format!("channel {name}: POST /webhook/{name}, verified, adapter {adapter}"))
            }
        },
    }
}

#[cfg(test)]
mod tests;
