//! Files and folders that must exist.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{
    Config,
    files::open_regular,
    files::plain_reason,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
};

/// Certificate files are read no further; whole bundles of authorities are a quarter of it.
const MAX_PEM_BYTES: u64 = 1024 * 1024;

pub(crate) fn validate(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let at = KeyPath::dotted;
    for (name, agent) in &config.agents {
        if let Some(soul) = &agent.soul {
            let path = at("agents").key(name).key("soul");
            // An agent may have deleted it, which must not keep the server from starting.
            problems.extend(missing_file(soul, path).map(|problem| {
                ConfigProblem::warning(problem.code, problem.path, problem.message)
                    .with_hint("the agent speaks without it")
            }));
        }
    }
    if let Some(tls) = &config.bridge.tls {
        let files = [
            ("cert", PemKind::Certificate, Some(&tls.cert)),
            ("key", PemKind::Key, Some(&tls.key)),
            ("client_ca", PemKind::Certificate, tls.client_ca.as_ref()),
        ];
        for (key, wanted, file) in files {
            let path = at("bridge.tls").key(key);
            problems.extend(file.and_then(|file| unusable_pem(file, wanted, path)));
        }
    }
    for (index, plugin) in config.plugins.iter().enumerate() {
        // A broken plugin does not keep the server from starting.
        let path = at("plugins").index(index).key("path");
        problems.extend(missing_file(&plugin.path, path).map(|problem| {
            ConfigProblem::warning(problem.code, problem.path, problem.message)
                .with_hint("the server starts without this plugin")
        }));
    }
    if let Some(weights) = &config.local_model.weights {
        // The local model is one of several that may be chosen.
        problems.extend(missing_file(weights, at("local_model.weights")).map(|problem| {
            ConfigProblem::warning(problem.code, problem.path, problem.message)
                .with_hint("the local model is not used without it")
        }));
    }
    for (index, worker) in config.workers.iter().enumerate() {
        if let Some(folder) = &worker.working_folder {
            let path = at("workers").index(index).key("working_folder");
            problems.extend(missing_folder(folder, path));
        }
    }
    for (name, server) in &config.mcp {
        if let Some(folder) = &server.working_folder {
            problems.extend(missing_folder(folder, at("mcp").key(name).key("working_folder")));
        }
    }
    if config.data_dir.exists() && !config.data_dir.is_dir() {
        problems.push(missing_path_problem("folder", &config.data_dir, at("data_dir")));
    }
    check_working_folders(config, problems);
    check_folders_of_commands(config, problems);
}

fn check_folders_of_commands(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let bash = &config.tools.bash;
    for (key, folders) in [("tools.bash.readable", &bash.readable), ("tools.bash.path", &bash.path)] {
        let path = KeyPath::dotted(key);
        for (index, folder) in folders.iter().enumerate() {
            problems.extend(missing_folder(folder, path.index(index)));
            if *folder == Path::new("/") {
                let message = "commands may read the whole file system";
                problems.push(ConfigProblem::warning(ProblemCode::RiskySetting, path.index(index), message));
            }
        }
    }
    let path = KeyPath::dotted("tools.bash.path");
    for (index, folder) in bash.path.iter().enumerate() {
        if folder.to_string_lossy().contains(':') {
            let message = format!("`{}` holds a `:`, which separates folders in PATH", folder.display());
            problems.push(ConfigProblem::error(ProblemCode::BadPattern, path.index(index), message));
        }
    }
}

fn check_working_folders(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let runs = &config.runs;
    let folder_path = KeyPath::dotted("runs.working_folder");
    problems.extend(missing_folder(&runs.working_folder, folder_path.clone()));
    let roots = KeyPath::dotted("runs.allowed_roots");
    for (index, root) in runs.allowed_roots.iter().enumerate() {
        problems.extend(missing_folder(root, roots.index(index)));
        if *root == Path::new("/") {
            problems.push(
                ConfigProblem::warning(
                    ProblemCode::RiskySetting,
                    roots.index(index),
                    "tools may work in the whole file system",
                )
                .with_hint("set runs.allowed_roots, or start the server in a project's folder"),
            );
        }
    }
    // Compared after resolving symbolic links.
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let folder = real(&runs.working_folder);
    if !runs.allowed_roots.iter().any(|root| folder.starts_with(real(root))) {
        problems.push(
            ConfigProblem::warning(
                ProblemCode::Conflict,
                folder_path,
                format!(
                    "{} is outside runs.allowed_roots, so requests must name another folder",
                    runs.working_folder.display()
                ),
            )
            .with_hint("add it to runs.allowed_roots"),
        );
    }
}

#[derive(Clone, Copy, PartialEq)]
enum PemKind {
    Certificate,
    Key,
}

/// Errors that can be reported before a handshake fails: a file that cannot be read, or a certificate and key that are
/// swapped.
fn unusable_pem(file: &Path, wanted: PemKind, path: KeyPath) -> Option<ConfigProblem> {
    if let Some(problem) = missing_file(file, path.clone()) {
        return Some(problem);
    }
    let shown = file.display();
    let text = match read_pem(file) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("file `{shown}` cannot be read: {}", plain_reason(&error));
            let hint = "make it readable for the user that runs the server";
            return Some(ConfigProblem::error(ProblemCode::BadCertificate, path, message).with_hint(hint));
        }
    };
    let (label, what) = match wanted {
        PemKind::Certificate => ("-----BEGIN CERTIFICATE-----", "a certificate"),
        PemKind::Key => ("PRIVATE KEY-----", "a private key"),
    };
    let complaint = if !text.contains(label) {
        (format!("`{shown}` does not hold {what} in PEM form"), format!("it must have a line with {label}"))
    } else if wanted == PemKind::Key && text.contains("ENCRYPTED") {
        let hint = "the server cannot ask for a passphrase: store the key without one, mode 0600".to_owned();
        (format!("the private key in `{shown}` is encrypted"), hint)
    } else {
        return None;
    };
    Some(ConfigProblem::error(ProblemCode::BadCertificate, path, complaint.0).with_hint(complaint.1))
}

fn read_pem(file: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open_regular(file)?.take(MAX_PEM_BYTES).read_to_end(&mut bytes)?;
    // Text beside the certificates may be in any encoding.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reports a missing file or folder.
pub(super) fn missing_path(place: &Path, path: KeyPath) -> Option<ConfigProblem> {
    (!place.exists()).then(|| missing_path_problem("file or folder", place, path))
}

fn missing_file(file: &Path, path: KeyPath) -> Option<ConfigProblem> {
    (!file.is_file()).then(|| missing_path_problem("file", file, path))
}

fn missing_folder(folder: &Path, path: KeyPath) -> Option<ConfigProblem> {
    (!folder.is_dir()).then(|| missing_path_problem("folder", folder, path))
}

fn missing_path_problem(what: &str, found: &Path, path: KeyPath) -> ConfigProblem {
    let shown = found.display();
    let message =
        if found.exists() { format!("`{shown}` is not a {what}") } else { format!("{what} `{shown}` does not exist") };
    ConfigProblem::error(ProblemCode::MissingFile, path, message)
        .with_hint("relative paths start at the folder of the config file")
}
