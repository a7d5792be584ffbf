//! Warns about scripts of workers and MCP servers in folders where agents write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::program::{GuardedProgram, ProgramContext};
use crate::{
    Config,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
};

/// Everything in a script's folder counts as its code. If agents work in that folder, everything they write changes the
/// code. `cwd` is the base of paths in commands of MCP servers without a working folder.
pub(crate) fn validate(config: &Config, cwd: &Path) -> Vec<ConfigProblem> {
    let workers = config.workers.iter().enumerate().map(|(index, worker)| {
        let folder = worker.working_folder.as_deref().unwrap_or(cwd);
        (KeyPath::dotted("workers").index(index), &worker.command, folder, &worker.env)
    });
    let servers = config.mcp.iter().filter(|(_, server)| server.url.is_none());
    let servers = servers.map(|(name, server)| {
        let folder = server.working_folder.as_deref().unwrap_or(cwd);
        (KeyPath::dotted("mcp").key(name), &server.command, folder, &server.env)
    });
    let agents = resolve_links(&config.runs.working_folder);
    let found = workers.chain(servers).filter_map(|(path, command, folder, env)| {
        let scripts = scripts(command, folder, env);
        let around = scripts.iter().filter_map(|script| script.parent()).find(|folder| agents.starts_with(resolve_links(folder)))?;
        let message = format!(
            "the script's folder {} contains the folder in which agents work, so whatever they write there is a change of its code",
            around.display()
        );
        let hint = "move the script to a folder of its own, outside the folder in which agents work";
        Some(ConfigProblem::warning(ProblemCode::RiskySetting, path.key("command"), message).with_hint(hint))
    });
    found.collect()
}

/// Files named by a command whose folder counts as code too.
fn scripts(command: &[String], base: &Path, env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let variable = |name: &str| env.get(name).cloned();
    // Only files named by arguments matter here, not the folder in which the program runs.
    let around = ProgramContext {
        base,
        working_folder: None,
        search_path: None,
        home: None,
        variable: &variable,
        is_agent_writable: &|_| false,
    };
    let GuardedProgram { files, folders, .. } = GuardedProgram::of(command, &around);
    let is_beside = |file: &PathBuf| file.parent().is_some_and(|folder| folders.iter().any(|one| one == folder));
    files.into_iter().filter(is_beside).collect()
}

fn resolve_links(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
