//! `patchboard doctor`: checks what a server would find if it started now, and gives hints.
//!
//! * `server` – the running server, and whether it matches the configuration.
//! * `access` – which clients need no token, and which users could read keys.
//! * `trust` – guarded files that are not trusted.
//! * `bridge`, `plugins` – what is configured for them.
//! * `python` – whether a local model can run.
//! * `findings` – their output, as text and JSON.

use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

use clap::Args;
use patchboard_config::files::FileLayer;
use patchboard_config::key_path::KeyPath;
use patchboard_config::load::load_with_secrets;
use patchboard_config::problem::{ConfigProblems, ProblemCode};
use patchboard_config::types::ListenAddress;
use patchboard_config::{LoadedConfig, Secrets};
use patchboard_http::ClientPool;
use patchboard_providers::list_models;
use patchboard_store::inspect;
use tokio_util::sync::CancellationToken;

use super::failure::CommandFailure;
use super::{ConfigLocation, block_on};
use crate::assemble::provider_options;
use crate::data_dir::{self, ServerRecord};
use crate::provider_choice::ProviderChoice;

mod access;
mod bridge;
mod findings;
mod plugins;
mod python;
mod server;
mod trust;

use findings::DoctorFinding;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    place: ConfigLocation,
    /// One JSON object instead of lines: `healthy`, and `findings` with level, topic, text and hint.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: DoctorArgs) -> Result<ExitCode, CommandFailure> {
    // Collects all problems: one missing key must not prevent the other checks.
    let (mut loaded, mut secrets, problems) = load_with_secrets(args.place.request()?);
    loaded.warnings = ConfigProblems::new(problems);
    let findings = block_on(async {
        let mut findings = vec![configuration(&loaded)];
        findings.extend(findings::from_config_problems(&loaded.warnings));
        if loaded
            .warnings
            .iter()
            .any(|problem| matches!(problem.code, ProblemCode::FileUnreadable | ProblemCode::Syntax))
        {
            findings.push(DoctorFinding::Note("configuration: the rest is judged without that file".to_owned()));
        }
        findings.extend(server::findings(&loaded).await);
        findings.extend(trust::findings(&loaded)?);
        findings.push(data_directory(&loaded));
        findings.extend(access::data_folder(&loaded));
        findings.push(access::key_files(&loaded));
        findings.extend(access::listeners(&loaded));
        findings.extend(ports(&loaded));
        findings.extend(bridge::protection(&loaded.config));
        findings.extend(bridge::socket(&loaded.config));
        findings.extend(bridge::pools(&loaded));
        findings.extend(plugins::findings(&loaded).await);
        findings.push(provider(&mut loaded, &mut secrets).await);
        findings.push(open_files(&loaded));
        findings.push(python::finding(&loaded));
        findings.extend(confinement().await);
        Ok(findings)
    })?;
    match args.json {
        true => findings::print_json(&findings),
        false => findings::print_lines(&findings),
    }
    Ok(match (loaded.warnings.has_errors(), findings::is_healthy(&findings)) {
        // A server would not start.
        (true, _) => ExitCode::from(2),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

/// The configuration files that were read. Not reported as good if they have errors.
fn configuration(loaded: &LoadedConfig) -> DoctorFinding {
    let files: Vec<String> = loaded.files.iter().map(|file| file.path.display().to_string()).collect();
    let read = match files.is_empty() {
        false => format!("configuration: {}", files.join(", then ")),
        true => "configuration: no file, built-in defaults".to_owned(),
    };
    match loaded.warnings.has_errors() {
        false => DoctorFinding::Good(read),
        true => DoctorFinding::Note(format!("{read}; a server would not start, see below")),
    }
}

fn data_directory(loaded: &LoadedConfig) -> DoctorFinding {
    let folder = &loaded.config.data_dir;
    let origin = loaded.origin_of("data_dir");
    let shown = match origin.file_layer() {
        // Another folder has other data, so the output must show where this one was set.
        Some(FileLayer::Project) => format!("{} (set by {origin})", folder.display()),
        Some(FileLayer::User | FileLayer::Named) | None => folder.display().to_string(),
    };
    if let Some(server) = data_dir::find_server(folder) {
        return DoctorFinding::Good(format!("data directory: {shown}, in use by the server with pid {}", server.pid));
    }
    if !folder.exists() {
        return DoctorFinding::Good(format!("data directory: {shown} will be made"));
    }
    let database = &loaded.config.storage.path;
    if !database.exists() {
        return DoctorFinding::Good(format!("data directory: {shown}, no database yet"));
    }
    match inspect(database) {
        Ok(found) if found.problems.is_empty() => {
            let size = found.size_bytes / 1024;
            DoctorFinding::Good(format!(
                "data directory: {shown}, database of {size} KiB, format {:08x}",
                found.fingerprint
            ))
        }
        Ok(found) => DoctorFinding::Bad {
            problem: format!("database {}: {}", database.display(), found.problems.join("; ")),
            hint: "restore it from a backup".to_owned(),
        },
        Err(error) => DoctorFinding::Bad {
            problem: format!("database {}: {:#}", database.display(), anyhow::Error::from(error)),
            hint: "restore it from a backup, or move it away to start afresh".to_owned(),
        },
    }
}

fn ports(loaded: &LoadedConfig) -> Vec<DoctorFinding> {
    let config = &loaded.config;
    let running = data_dir::find_server(&config.data_dir);
    let at = |address: fn(&ServerRecord) -> Option<SocketAddr>| running.as_ref().and_then(address);
    let surfaces = [
        ("gateway", config.gateway.listen, at(|server| server.gateway)),
        ("runs", config.runs.listen, at(|server| server.runs)),
        ("hub", config.hub.listen, at(|server| server.hub)),
        ("bridge", config.bridge.listen, at(|server| server.bridge)),
    ];
    surfaces.into_iter().map(|(surface, listen, running)| port(surface, listen, running)).collect()
}

fn port(surface: &str, listen: ListenAddress, running: Option<SocketAddr>) -> DoctorFinding {
    let Some(address) = listen.address() else { return DoctorFinding::Note(format!("{surface}: off")) };
    if running == Some(address) {
        return DoctorFinding::Good(format!("{surface}: the running server listens on {address}"));
    }
    match TcpListener::bind(address) {
        Ok(_) => DoctorFinding::Good(format!("{surface}: {address} is free")),
        Err(error) => DoctorFinding::Bad {
            problem: format!("{surface}: cannot listen on {address}: {error}"),
            hint: format!("choose another address with --{surface} or `{surface}.listen`"),
        },
    }
}

async fn provider(loaded: &mut LoadedConfig, secrets: &mut Secrets) -> DoctorFinding {
    let chosen = match ProviderChoice::find(loaded, &CancellationToken::new()).await {
        Ok(chosen) => chosen,
        Err(error) => {
            let hint = error.hint().unwrap_or("`patchboard explain PB0205` says more").to_owned();
            return DoctorFinding::Bad { problem: format!("model: {error}"), hint };
        }
    };
    if let Some(choice) = chosen.as_ref().filter(|choice| choice.installed.is_some()) {
        let model = choice.provider.default_model();
        return DoctorFinding::Good(format!(
            "model: the local model {model} is installed and starts with the first call"
        ));
    }
    let name = match &chosen {
        Some(choice) => {
            choice.add_to(&mut loaded.config, secrets);
            choice.name.clone()
        }
        None => match loaded.config.agents.get("default").and_then(|agent| loaded.config.provider_name(agent)) {
            Some(name) => name.to_owned(),
            None => return DoctorFinding::Note("model: the default agent has no provider of its own".to_owned()),
        },
    };
    let key = KeyPath::dotted("providers").key(&name).key("api_key");
    if loaded.warnings.iter().any(|problem| problem.code == ProblemCode::MissingSecret && problem.path == key) {
        return DoctorFinding::Note(format!("model: provider `{name}` was not asked, as its key is missing"));
    }
    let provider_result = match provider_options(loaded, secrets, &name) {
        Ok(options) => {
            list_models(options, &ClientPool::new(), &CancellationToken::new()).await.map_err(|error| error.to_string())
        }
        Err(error) => Err(format!("{error:#}")),
    };
    match provider_result {
        Ok(models) if name == "offline" => {
            drop(models);
            DoctorFinding::Note("model: only the built-in offline provider; `patchboard onboard` or `serve --local-model` gives a real one".to_owned())
        }
        Ok(models) => {
            DoctorFinding::Good(format!("model: provider `{name}` answers and offers {} models", models.len()))
        }
        Err(error) => DoctorFinding::Bad {
            problem: format!("model: provider `{name}` does not answer: {error}"),
            hint: "check its key and address with `patchboard onboard`".to_owned(),
        },
    }
}

fn open_files(loaded: &LoadedConfig) -> DoctorFinding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let wanted = u64::from(loaded.config.gateway.max_connections);
    if limit < wanted {
        return DoctorFinding::Note(format!(
            "open files: at most {limit}, fewer than the {wanted} connections configured"
        ));
    }
    DoctorFinding::Good("open files: enough for the configured connections".to_owned())
}

/// The layers of the jail that this machine enforces, determined by starting a command in one.
#[cfg(target_os = "linux")]
async fn confinement() -> Vec<DoctorFinding> {
    let tried = match patchboard_tools::sandbox::Spawner::new("/proc/self/exe") {
        Ok(spawner) => spawner.probe_confinement().await,
        Err(error) => Err(error),
    };
    match tried {
        Ok(confinement) => {
            let layers = confinement.layers().into_iter();
            layers.map(|layer| layer_finding(layer.is_enforced, format!("sandbox: {}", layer.description))).collect()
        }
        Err(error) => vec![DoctorFinding::Bad {
            problem: format!("sandbox: {:#}", anyhow::Error::from(error)),
            hint:
                "commands, workers and MCP servers cannot be started; set `\"bash\" = \"deny\"` in `[tools.approval]`"
                    .to_owned(),
        }],
    }
}

#[cfg(target_os = "linux")]
fn layer_finding(is_enforced: bool, text: String) -> DoctorFinding {
    if is_enforced { DoctorFinding::Good(text) } else { DoctorFinding::Note(text) }
}

#[cfg(not(target_os = "linux"))]
async fn confinement() -> Vec<DoctorFinding> {
    vec![DoctorFinding::Note("sandbox: commands of agents run on Linux only".to_owned())]
}
