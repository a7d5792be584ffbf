//! Collects the paths that a configuration makes the server execute or read.

use std::collections::BTreeMap;
use std::iter;
use std::path::{Path, PathBuf};

use patchboard_config::env::HOME;
use patchboard_config::files::{ConfigFile, FileLayer};
use patchboard_config::program::{GuardedProgram, ProgramContext, resolved_command};
use patchboard_config::section::{McpConfig, WorkerConfig};
use patchboard_config::{Config, LoadedConfig};
use patchboard_tools::guard::{FileSealing, WriteReach};

use super::TrustStore;
use super::guard::{GuardedFiles, ProgramName};
use super::reach::{FileReach, file_reach};
use crate::data_dir;

/// Variables of the server that are passed to every MCP server.
const MCP_SERVER_VARIABLES: &[&str] = &["PATH", HOME];
/// Variables of the server that are passed to every worker.
const WORKER_VARIABLES: &[&str] = &["PATH", HOME, "PYTHONPATH"];

/// `cwd` is the working directory of this process: relative paths in commands of MCP servers start there.
pub(crate) fn guarded_files(loaded: &LoadedConfig, cwd: &Path) -> GuardedFiles {
    let config = &loaded.config;
    let workers = config.workers.iter().map(|worker| {
        let program = with_program_context(loaded, ProgramSettings::of_worker(worker, config), |around| {
            GuardedProgram::of(&worker.command, around)
        });
        (ProgramName::WorkerPool(worker.name.clone()), program)
    });
    let servers = config.mcp.iter().filter(|(_, server)| server.url.is_none());
    let servers = servers.map(|(name, server)| {
        let program = with_program_context(loaded, ProgramSettings::of_server(server, cwd), |around| {
            GuardedProgram::of(&server.command, around)
        });
        (ProgramName::McpServer(name.clone()), program)
    });
    GuardedFiles {
        configs: content_files(loaded).into_iter().map(|file| (file.path, file.layer)).collect(),
        programs: workers.chain(servers).collect(),
        files: config.plugins.iter().map(|plugin| &plugin.path).chain(&config.local_model.weights).cloned().collect(),
        read_only: std::env::current_exe().into_iter().collect(),
        secrets: config.secret_files(),
        data_dir: config.data_dir.clone(),
        server_data: server_data(loaded),
    }
}

/// Paths the server writes itself. They are in no folder fingerprint and are inaccessible to every process of the
/// server.
fn server_data(loaded: &LoadedConfig) -> Vec<PathBuf> {
    let config = &loaded.config;
    let mut own: Vec<PathBuf> = trust_store(loaded).data_dirs().map(Path::to_owned).collect();
    own.push(config.data_dir.clone());
    own.extend(data_dir::secret_files(&config.data_dir, &config.storage.path));
    own
}

/// A worker's command line as it is started.
pub(crate) fn worker_command(worker: &WorkerConfig, loaded: &LoadedConfig) -> Vec<String> {
    with_program_context(loaded, ProgramSettings::of_worker(worker, &loaded.config), |around| {
        resolved_command(&worker.command, around)
    })
}

/// An MCP server's command line as it is started.
pub(crate) fn mcp_command(server: &McpConfig, loaded: &LoadedConfig, cwd: &Path) -> Vec<String> {
    with_program_context(loaded, ProgramSettings::of_server(server, cwd), |around| {
        resolved_command(&server.command, around)
    })
}

/// Folders that agents' commands and tools may write to.
pub(crate) fn agent_folders(config: &Config) -> Vec<PathBuf> {
    let of_workers = config.workers.iter().flat_map(|worker| &worker.writable);
    let folders = iter::once(&config.runs.working_folder).chain(&config.runs.allowed_roots).chain(of_workers);
    folders.cloned().collect()
}

/// Files whose trusted content is stored: configuration files at every path that this or the next start searches,
/// certificates and souls.
pub(crate) fn content_files(loaded: &LoadedConfig) -> Vec<ConfigFile> {
    let souls = soul_files(&loaded.config).map(|path| content_file(&path));
    config_files(loaded).into_iter().chain(certificate_files(&loaded.config)).chain(souls).collect()
}

/// A soul sets an agent's identity in all its runs.
fn soul_files(config: &Config) -> impl Iterator<Item = PathBuf> + '_ {
    config.agents.values().filter_map(|agent| agent.soul.clone())
}

/// Certificates count as the user's because an accepted configuration names them.
fn certificate_files(config: &Config) -> impl Iterator<Item = ConfigFile> + '_ {
    let tls = config.bridge.tls.iter();
    tls.flat_map(|tls| iter::once(&tls.cert).chain(&tls.client_ca)).map(|path| content_file(path))
}

/// A file that counts as the user's because a configuration names it.
pub(crate) fn content_file(path: &Path) -> ConfigFile {
    ConfigFile { layer: FileLayer::User, path: path.to_owned(), shown: path.to_owned() }
}

/// The trust store for this configuration.
pub(crate) fn trust_store(loaded: &LoadedConfig) -> TrustStore {
    let data_dir = &loaded.config.data_dir;
    let is_of_a_file = loaded.origin_of("data_dir").file_layer().is_some();
    let named = (!is_of_a_file).then(|| data_dir.clone());
    TrustStore::find(named, &loaded.env, &loaded.folders)
}

fn config_files(loaded: &LoadedConfig) -> Vec<ConfigFile> {
    let named = loaded.files.iter().find(|file| file.layer == FileLayer::Named).map(|file| file.path.clone());
    let folder_of_user = loaded.folders.config_dir.as_deref();
    let layer = |path: &PathBuf| {
        if named.as_ref() == Some(path) {
            FileLayer::Named
        } else if path.parent() == folder_of_user {
            FileLayer::User
        } else {
            FileLayer::Project
        }
    };
    let places = loaded.config_search_paths().into_iter();
    places.map(|path| ConfigFile { layer: layer(&path), shown: path.clone(), path }).collect()
}

/// The parts of a program's table that determine how its command is resolved.
struct ProgramSettings<'a> {
    base: &'a Path,
    working_folder: Option<&'a Path>,
    env: &'a BTreeMap<String, String>,
    passed_on: &'static [&'static str],
}

impl<'a> ProgramSettings<'a> {
    fn of_worker(worker: &'a WorkerConfig, config: &'a Config) -> Self {
        let folder = worker.working_folder.as_deref().unwrap_or(&config.runs.working_folder);
        Self { base: folder, working_folder: Some(folder), env: &worker.env, passed_on: WORKER_VARIABLES }
    }

    /// An MCP server without `working_folder` runs in a private folder.
    fn of_server(server: &'a McpConfig, cwd: &'a Path) -> Self {
        let working_folder = server.working_folder.as_deref();
        Self { base: working_folder.unwrap_or(cwd), working_folder, env: &server.env, passed_on: MCP_SERVER_VARIABLES }
    }
}

fn with_program_context<T>(
    loaded: &LoadedConfig,
    table: ProgramSettings<'_>,
    look: impl FnOnce(&ProgramContext<'_>) -> T,
) -> T {
    let variable = |name: &str| {
        let own = table.env.get(name).and_then(|value| match value.strip_prefix("env:") {
            Some(name) => loaded.env.get(name),
            None => Some(value.as_str()),
        });
        let passed_on = || table.passed_on.contains(&name).then(|| loaded.env.get(name)).flatten();
        own.or_else(passed_on).map(str::to_owned)
    };
    let home = variable(HOME).map(PathBuf::from);
    let search_path = variable("PATH");
    let real = |folder: PathBuf| folder.canonicalize().unwrap_or(folder);
    let roots = agent_folders(&loaded.config).into_iter().map(real).collect();
    let reach = WriteReach { roots, sealed_by: FileSealing::Nothing };
    look(&ProgramContext {
        base: table.base,
        working_folder: table.working_folder,
        search_path: search_path.as_deref(),
        home: home.as_deref(),
        variable: &variable,
        is_agent_writable: &|path| file_reach(path, &reach) != FileReach::Outside,
    })
}
