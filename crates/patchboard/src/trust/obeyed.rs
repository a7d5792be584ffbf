//! Everything that a configuration makes the server execute or obey.

use std::collections::BTreeMap;
use std::iter;
use std::path::{Path, PathBuf};

use super::TrustStore;
use super::guard::{ObeyedFiles, ProgramName};
use super::program::{ObeyedProgram, Surroundings};
use crate::config::env::HOME;
use crate::config::files::{ConfigFile, FileLayer};
use crate::config::{Config, Loaded};
use crate::data_dir;

/// `cwd` is where MCP servers are started.
pub(crate) fn obeyed(loaded: &Loaded, cwd: &Path) -> ObeyedFiles {
    let config = &loaded.config;
    let workers = config.workers.iter().map(|worker| {
        let folder = worker.working_folder.as_deref().unwrap_or(&config.runs.working_folder);
        let program = program(&worker.command, folder, &worker.env, loaded);
        (ProgramName::WorkerPool(worker.name.clone()), program)
    });
    let servers = config.mcp.iter().filter(|(_, server)| server.url.is_none());
    let servers = servers.map(|(name, server)| {
        (ProgramName::McpServer(name.clone()), program(&server.command, cwd, &server.env, loaded))
    });
    ObeyedFiles {
        configs: content_files(loaded).into_iter().map(|file| (file.path, file.layer)).collect(),
        programs: workers.chain(servers).collect(),
        files: config.plugins.iter().map(|plugin| plugin.path.clone()).collect(),
        secrets: config.secret_files(),
        data_dir: config.data_dir.clone(),
        own: own_data(loaded),
    }
}

/// What the server writes itself. It lies in no print of a folder, and is closed to everything the server runs.
fn own_data(loaded: &Loaded) -> Vec<PathBuf> {
    let config = &loaded.config;
    let mut own: Vec<PathBuf> = trust_store(loaded).data_dirs().map(Path::to_owned).collect();
    own.push(config.data_dir.clone());
    own.extend(data_dir::secret_files(&config.data_dir, &config.storage.path));
    own
}

/// Files whose trusted content is kept: configuration, wherever this or the next start looks for it, and certificates.
pub(crate) fn content_files(loaded: &Loaded) -> Vec<ConfigFile> {
    config_files(loaded).into_iter().chain(certificate_files(&loaded.config)).collect()
}

/// They are the user's by being named in a configuration that counts.
fn certificate_files(config: &Config) -> impl Iterator<Item = ConfigFile> + '_ {
    let tls = config.bridge.tls.iter();
    tls.flat_map(|tls| iter::once(&tls.cert).chain(&tls.client_ca)).map(|path| certificate_file(path))
}

pub(crate) fn certificate_file(path: &Path) -> ConfigFile {
    ConfigFile { layer: FileLayer::User, path: path.to_owned(), shown: path.to_owned() }
}

/// The store that vouches for this configuration.
pub(crate) fn trust_store(loaded: &Loaded) -> TrustStore {
    let data_dir = &loaded.config.data_dir;
    let is_of_a_file = loaded.origin_of("data_dir").file_layer().is_some();
    let named = (!is_of_a_file).then(|| data_dir.clone());
    TrustStore::find(named, &loaded.env, &loaded.folders)
}

fn config_files(loaded: &Loaded) -> Vec<ConfigFile> {
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
    let places = loaded.configuration_files().into_iter();
    places.map(|path| ConfigFile { layer: layer(&path), shown: path.clone(), path }).collect()
}

fn program(command: &[String], folder: &Path, env: &BTreeMap<String, String>, loaded: &Loaded) -> ObeyedProgram {
    let variable = |name: &str| env.get(name).map(String::as_str).or_else(|| loaded.env.get(name)).map(str::to_owned);
    let home = variable(HOME).map(PathBuf::from);
    let search_path = variable("PATH");
    ObeyedProgram::of(
        command,
        &Surroundings {
            working_folder: folder,
            search_path: search_path.as_deref(),
            home: home.as_deref(),
            variable: &variable,
        },
    )
}
