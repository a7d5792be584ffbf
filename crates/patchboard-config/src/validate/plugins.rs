//! Plugins: names, grants, settings and limits of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use patchboard_core::plugin::PluginGrant;

use super::extensions::{check_names, looks_like_secret};
use crate::{
    Config,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
    section::plugins::parse_sha256,
    types::{ByteSize, TimeSpan},
};

/// Each plugin has its code in memory and a line in every list.
const MAX_PLUGINS: usize = 64;
/// All grants are searched for every request of a plugin.
pub(crate) const MAX_GRANTS: usize = 256;
/// Settings are read again by every call that requests one.
pub(crate) const MAX_SETTINGS: usize = 256;
pub(crate) const MAX_SETTING_BYTES: usize = 16 * 1024;
/// Prefixes of other kinds of tools.
const RESERVED_PREFIXES: [(&str, &str); 2] = [("agent", "agents"), ("app", "apps on the hub")];

pub(crate) fn validate(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let plugins = KeyPath::dotted("plugins");
    check_names("plugins", config.plugins.iter().map(|plugin| plugin.name.as_str()), problems);
    if config.plugins.len() > MAX_PLUGINS {
        let message = format!("has {} plugins; {MAX_PLUGINS} are the most", config.plugins.len());
        problems.push(ConfigProblem::error(ProblemCode::OutOfRange, plugins.clone(), message));
    }
    for (index, plugin) in config.plugins.iter().enumerate() {
        let path = plugins.index(index);
        check_prefix(config, &plugin.name, path.key("name"), problems);
        check_grants(&plugin.grants, &path.key("grants"), problems);
        check_settings(&plugin.settings, &path.key("settings"), problems);
        check_keys(plugin.secrets.keys(), &path.key("secrets"), problems);
        if plugin.sha256.as_deref().is_some_and(|text| parse_sha256(text).is_none()) {
            problems.push(
                ConfigProblem::error(ProblemCode::WrongType, path.key("sha256"), "is not a SHA-256 of 64 hex digits")
                    .with_hint("`patchboard plugins check FILE` prints it"),
            );
        }
    }
    check_folder(config, problems);
    check_limits(config, problems);
}

/// The plugin's name prefixes tools whose own names are taken.
fn check_prefix(config: &Config, name: &str, path: KeyPath, problems: &mut Vec<ConfigProblem>) {
    let reserved = RESERVED_PREFIXES.iter().find(|(prefix, _)| *prefix == name).map(|(_, whose)| *whose);
    let servers = config.mcp.contains_key(name).then_some("the MCP server of that name");
    let pools = config.workers.iter().any(|worker| worker.name == name).then_some("the pool of workers of that name");
    if let Some(whose) = reserved.or(servers).or(pools) {
        let message = format!("`{name}.` is what tools of {whose} begin with");
        problems.push(
            ConfigProblem::error(ProblemCode::UnusableName, path, message)
                .with_hint("choose another name for the plugin"),
        );
    }
}

fn check_grants(grants: &[String], path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    let mut seen = BTreeSet::new();
    for (position, text) in grants.iter().enumerate() {
        match text.parse::<PluginGrant>() {
            Ok(grant) if !seen.insert(grant.clone()) => problems.push(
                ConfigProblem::warning(ProblemCode::Conflict, path.index(position), "is granted already")
                    .with_hint("remove one of them"),
            ),
            Ok(_) => {}
            Err(_) => problems.push(
                ConfigProblem::error(ProblemCode::BadPattern, path.index(position), format!("`{text}` is not a grant"))
                    .with_hint("write http:HOST, http:HOST:PORT, store:NAME or host-function:NAME"),
            ),
        }
    }
    too_many(grants.len(), MAX_GRANTS, path, problems);
}

fn check_settings(settings: &BTreeMap<String, String>, path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    check_keys(settings.keys(), path, problems);
    for (key, value) in settings {
        if value.len() > MAX_SETTING_BYTES {
            let message = format!("is longer than {} KiB", MAX_SETTING_BYTES / 1024);
            problems.push(ConfigProblem::error(ProblemCode::OutOfRange, path.key(key), message));
        }
        // Not an error: the plugin chooses the names of its settings.
        if looks_like_secret(key) {
            problems.push(
                ConfigProblem::warning(
                    ProblemCode::LiteralSecret,
                    path.key(key),
                    "reads like a secret, and the plugin can read it",
                )
                .with_hint("put secrets under `secrets`, and write {{secret:NAME}} where the plugin sends them"),
            );
        }
    }
}

fn check_keys<'a>(keys: impl ExactSizeIterator<Item = &'a String>, path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    too_many(keys.len(), MAX_SETTINGS, path, problems);
    for key in keys.filter(|key| !is_setting_key(key)) {
        let message = "a key has 1 to 64 letters, digits, `-` and `_`";
        problems.push(ConfigProblem::error(ProblemCode::UnusableName, path.key(key), message));
    }
}

/// Whether `text` is valid as a key of settings and secrets.
pub(crate) fn is_setting_key(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(fits)
}

fn too_many(count: usize, most: usize, path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    if count > most {
        let message = format!("has {count} entries; {most} are the most");
        problems.push(ConfigProblem::error(ProblemCode::OutOfRange, path.clone(), message));
    }
}

/// Every process that can write to this folder can load code into the server.
fn check_folder(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let Some(folder) = &config.wasm.folder else { return };
    let path = KeyPath::dotted("wasm.folder");
    if folder.exists() && !folder.is_dir() {
        let message = format!("`{}` is not a folder", folder.display());
        problems.push(ConfigProblem::error(ProblemCode::MissingFile, path, message));
    } else if resolve_links(&config.runs.working_folder).starts_with(resolve_links(folder)) {
        let message = "tools work inside of it, where plugins are loaded from";
        problems.push(
            ConfigProblem::error(ProblemCode::Conflict, path, message)
                .with_hint("name a folder of its own for plugins"),
        );
    }
}

/// Resolves symbolic links; a path that does not exist is returned as it is.
fn resolve_links(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn check_limits(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let (limits, path) = (&config.limits, KeyPath::dotted("limits"));
    let sizes = [
        // The upper bound is the address space of WebAssembly.
        ("plugin_memory", limits.plugin_memory, ByteSize::from_mib(1), ByteSize::from_mib(4096)),
        // The server holds another copy in memory.
        ("plugin_output", limits.plugin_output, ByteSize::from_kib(1), ByteSize::from_mib(64)),
    ];
    for (key, size, least, most) in sizes {
        if size < least || size > most {
            let message = format!("must be {least} to {most}, but is {size}");
            problems.push(ConfigProblem::error(ProblemCode::OutOfRange, path.key(key), message));
        }
    }
    let longest = TimeSpan::from_secs(3600);
    if limits.plugin_time > longest {
        let message = format!("must be at most {longest}, but is {}", limits.plugin_time);
        problems.push(ConfigProblem::error(ProblemCode::OutOfRange, path.key("plugin_time"), message));
    }
}
