//! Files and folders that must be there.

use std::path::{Path, PathBuf};

use crate::config::{
    Config,
    key_path::KeyPath,
    problem::{Code, Problem},
};

pub(crate) fn validate(config: &Config, problems: &mut Vec<Problem>) {
    let at = KeyPath::dotted;
    for (name, agent) in &config.agents {
        if let Some(soul) = &agent.soul {
            let path = at("agents").key(name).key("soul");
            problems.extend(missing_file(soul, path));
        }
    }
    if let Some(tls) = &config.bridge.tls {
        let files = [("cert", Some(&tls.cert)), ("key", Some(&tls.key)), ("client_ca", tls.client_ca.as_ref())];
        for (key, file) in files {
            let path = at("bridge.tls").key(key);
            problems.extend(file.and_then(|file| missing_file(file, path)));
        }
    }
    for (index, plugin) in config.plugins.iter().enumerate() {
        // One broken plugin does not keep the server from starting.
        let path = at("plugins").index(index).key("path");
        problems.extend(missing_file(&plugin.path, path).map(|problem| {
            Problem::warning(problem.code, problem.path, problem.message).hint("the server starts without this plugin")
        }));
    }
    for (index, worker) in config.workers.iter().enumerate() {
        if let Some(folder) = &worker.working_folder {
            let path = at("workers").index(index).key("working_folder");
            problems.extend(missing_folder(folder, path));
        }
    }
    if config.data_dir.exists() && !config.data_dir.is_dir() {
        problems.push(not_a("folder", &config.data_dir, at("data_dir")));
    }
    check_working_folders(config, problems);
    check_folders_of_commands(config, problems);
}

fn check_folders_of_commands(config: &Config, problems: &mut Vec<Problem>) {
    let bash = &config.tools.bash;
    for (key, folders) in [("tools.bash.readable", &bash.readable), ("tools.bash.path", &bash.path)] {
        let path = KeyPath::dotted(key);
        for (index, folder) in folders.iter().enumerate() {
            problems.extend(missing_folder(folder, path.index(index)));
            if *folder == Path::new("/") {
                let message = "commands may read the whole file system";
                problems.push(Problem::warning(Code::RiskySetting, path.index(index), message));
            }
        }
    }
    let path = KeyPath::dotted("tools.bash.path");
    for (index, folder) in bash.path.iter().enumerate() {
        if folder.to_string_lossy().contains(':') {
            let message = format!("`{}` holds a `:`, which separates folders in PATH", folder.display());
            problems.push(Problem::error(Code::BadPattern, path.index(index), message));
        }
    }
}

fn check_working_folders(config: &Config, problems: &mut Vec<Problem>) {
    let runs = &config.runs;
    let folder_path = KeyPath::dotted("runs.working_folder");
    problems.extend(missing_folder(&runs.working_folder, folder_path.clone()));
    let roots = KeyPath::dotted("runs.allowed_roots");
    for (index, root) in runs.allowed_roots.iter().enumerate() {
        problems.extend(missing_folder(root, roots.index(index)));
        if *root == Path::new("/") {
            problems.push(
                Problem::warning(Code::RiskySetting, roots.index(index), "tools may work in the whole file system")
                    .hint("set runs.allowed_roots, or start the server in a project's folder"),
            );
        }
    }
    // Compared as the file system sees them, so that a link is no obstacle.
    let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let folder = real(&runs.working_folder);
    if !runs.allowed_roots.iter().any(|root| folder.starts_with(real(root))) {
        problems.push(
            Problem::warning(
                Code::Conflict,
                folder_path,
                format!(
                    "{} is outside runs.allowed_roots, so requests must name another folder",
                    runs.working_folder.display()
                ),
            )
            .hint("add it to runs.allowed_roots"),
        );
    }
}

fn missing_file(file: &Path, path: KeyPath) -> Option<Problem> {
    (!file.is_file()).then(|| not_a("file", file, path))
}

fn missing_folder(folder: &Path, path: KeyPath) -> Option<Problem> {
    (!folder.is_dir()).then(|| not_a("folder", folder, path))
}

fn not_a(what: &str, found: &Path, path: KeyPath) -> Problem {
    let shown = found.display();
    let message =
        if found.exists() { format!("`{shown}` is not a {what}") } else { format!("{what} `{shown}` does not exist") };
    Problem::error(Code::MissingFile, path, message).hint("relative paths start at the folder of the config file")
}
