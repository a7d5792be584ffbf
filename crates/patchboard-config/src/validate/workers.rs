//! Worker pools, and the rights of bridge clients.

use std::path::Path;

use patchboard_core::tool::Glob;

use super::extensions::{check_command, check_names, check_variables};
use super::files::missing_path;
use crate::{
    Config,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
    section::WorkerConfig,
};

/// Each pool has tasks of its own.
const MAX_POOLS: usize = 64;
/// The pool's name is part of worker ids, which occur in file names and labels.
const MAX_NAME: usize = 32;
/// Prefixes of other kinds of tools.
const RESERVED_PREFIXES: [(&str, &str); 2] = [("agent", "agents"), ("app", "apps on the hub")];

pub(crate) fn validate(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let pools = KeyPath::dotted("workers");
    check_names("workers", config.workers.iter().map(|worker| worker.name.as_str()), problems);
    if config.workers.len() > MAX_POOLS {
        let message = format!("has {} pools; {MAX_POOLS} are the most", config.workers.len());
        problems.push(
            ConfigProblem::error(ProblemCode::OutOfRange, pools.clone(), message)
                .with_hint("give a pool a larger `count`"),
        );
    }
    for (index, worker) in config.workers.iter().enumerate() {
        let path = pools.index(index);
        check_name(config, &worker.name, path.key("name"), problems);
        check_command(&worker.command, &path, problems);
        check_variables(&worker.env, &path, problems);
        check_writable(config, worker, &path, problems);
        check_memory(worker, &path, problems);
    }
    check_exposed_tools(config, problems);
}

fn check_name(config: &Config, name: &str, path: KeyPath, problems: &mut Vec<ConfigProblem>) {
    // Up to twice this length it is a valid name that no other check has reported.
    if (MAX_NAME + 1..=2 * MAX_NAME).contains(&name.len()) {
        let message = format!("has {} characters; the name of a pool has at most {MAX_NAME}", name.len());
        problems.push(ConfigProblem::error(ProblemCode::UnusableName, path.clone(), message));
    }
    let reserved = RESERVED_PREFIXES.iter().find(|(prefix, _)| *prefix == name).map(|(_, whose)| *whose);
    let servers = config.mcp.contains_key(name).then_some("the MCP server of that name");
    if let Some(whose) = reserved.or(servers) {
        let message = format!("`{name}.` is what tools of {whose} begin with");
        problems.push(
            ConfigProblem::error(ProblemCode::UnusableName, path, message)
                .with_hint("choose another name for the pool"),
        );
    }
}

fn check_writable(config: &Config, worker: &WorkerConfig, path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    for (index, place) in worker.writable.iter().enumerate() {
        let at = path.key("writable").index(index);
        if place.starts_with(&config.data_dir) {
            let message = format!("`{}` is in the data folder, which is closed to workers", place.display());
            problems.push(
                ConfigProblem::error(ProblemCode::Conflict, at, message).with_hint("name a place outside of data_dir"),
            );
        } else if place == Path::new("/") {
            let message = "workers may change the whole file system";
            problems.push(ConfigProblem::warning(ProblemCode::RiskySetting, at, message));
        } else {
            problems.extend(missing_path(place, at));
        }
    }
}

fn check_memory(worker: &WorkerConfig, path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    let (Some(soft), Some(hard)) = (worker.max_memory, worker.memory_limit) else { return };
    if soft >= hard {
        let message = format!("a worker that may have {hard} runs out of memory before it is replaced at {soft}");
        problems.push(
            ConfigProblem::warning(ProblemCode::Conflict, path.key("max_memory"), message)
                .with_hint("make it less than memory_limit"),
        );
    }
}

fn check_exposed_tools(config: &Config, problems: &mut Vec<ConfigProblem>) {
    for (index, pattern) in config.bridge.expose.iter().enumerate() {
        if Glob::new(pattern.as_str()).matches("bash") {
            let message = format!("`{pattern}` lets every program on the bridge run commands");
            problems.push(
                ConfigProblem::warning(
                    ProblemCode::RiskySetting,
                    KeyPath::dotted("bridge.expose").index(index),
                    message,
                )
                .with_hint("name the tools that are needed"),
            );
        }
    }
}
