//! Rules across sections. Every rule is a plain function over the typed configuration; the loader adds the origin of
//! values.

mod agents;
mod channels;
mod extensions;
mod files;
mod hub;
mod keys;
mod listeners;
pub(crate) mod plugins;
mod providers;
pub(crate) mod scripts;
mod workers;

use super::{
    Config,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
    url,
};
use patchboard_core::text::nearest;

/// Returns all violated rules.
pub(crate) fn validate(config: &Config) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    listeners::validate(config, &mut problems);
    providers::validate(config, &mut problems);
    agents::validate(config, &mut problems);
    hub::validate(config, &mut problems);
    extensions::validate(config, &mut problems);
    plugins::validate(config, &mut problems);
    channels::validate(config, &mut problems);
    workers::validate(config, &mut problems);
    keys::validate(config, &mut problems);
    files::validate(config, &mut problems);
    problems
}

/// Names of agents, providers, plugins, workers and MCP servers are parts of tool names, URLs and file names, so they
/// share one narrow alphabet.
fn invalid_name_reason(name: &str) -> Option<&'static str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > 64 {
        Some("a name has 1 to 64 characters")
    } else if !name.bytes().all(fits) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        Some("a name has letters, digits, `-` and `_`, and starts with a letter or digit")
    } else {
        None
    }
}

fn check_name(name: &str, path: KeyPath, problems: &mut Vec<ConfigProblem>) {
    if let Some(complaint) = invalid_name_reason(name) {
        problems.push(ConfigProblem::error(ProblemCode::UnusableName, path, complaint));
    }
}

/// Warns if a key would be sent unencrypted to another machine.
fn warn_unencrypted_key(address: &str, path: KeyPath, problems: &mut Vec<ConfigProblem>) {
    if address.starts_with("http://") && !url::is_loopback(address) {
        problems.push(
            ConfigProblem::warning(
                ProblemCode::RiskySetting,
                path,
                "the API key travels unencrypted to another machine",
            )
            .with_hint("use https://"),
        );
    }
}

/// A reference to a name that is not configured.
fn unknown_reference<'a>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
    path: KeyPath,
) -> ConfigProblem {
    let hint = match nearest(name, known.clone()) {
        Some(meant) => format!("did you mean \"{meant}\"?"),
        None => {
            let known: Vec<&str> = known.into_iter().collect();
            if known.is_empty() {
                format!("add a section [{what}s.{name}]")
            } else {
                format!("configured: {}; or add [{what}s.{name}]", known.join(", "))
            }
        }
    };
    let message = format!("no {what} named `{name}` is configured");
    ConfigProblem::error(ProblemCode::UnknownReference, path, message).with_hint(hint)
}

/// Elements with the name of an earlier element, each with the earlier index.
fn duplicates<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(usize, usize)> {
    let mut seen: Vec<&str> = Vec::new();
    let mut repeats = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        if let Some(first) = seen.iter().position(|earlier| *earlier == name) {
            repeats.push((index, first));
        }
        seen.push(name);
    }
    repeats
}
