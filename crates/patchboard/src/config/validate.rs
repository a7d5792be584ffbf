//! What the sections must mean together. Every rule is a plain function over
//! the typed configuration; where a value came from is added by the loader.

mod agents;
mod channels;
mod extensions;
mod files;
mod hub;
mod listeners;
pub(crate) mod plugins;
mod providers;
pub(crate) mod scripts;
pub(crate) mod url;
mod workers;

use super::{
    Config,
    key_path::KeyPath,
    nearest::nearest,
    problem::{Code, Problem},
};

/// Every broken rule.
pub(crate) fn validate(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    listeners::validate(config, &mut problems);
    providers::validate(config, &mut problems);
    agents::validate(config, &mut problems);
    hub::validate(config, &mut problems);
    extensions::validate(config, &mut problems);
    plugins::validate(config, &mut problems);
    channels::validate(config, &mut problems);
    workers::validate(config, &mut problems);
    files::validate(config, &mut problems);
    problems
}

/// Names of agents, providers, plugins, workers and MCP servers become parts
/// of tool names, URLs and file names, so one narrow alphabet serves all.
fn name_complaint(name: &str) -> Option<&'static str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > 64 {
        Some("a name has 1 to 64 characters")
    } else if !name.bytes().all(fits) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        Some("a name has letters, digits, `-` and `_`, and starts with a letter or digit")
    } else {
        None
    }
}

fn check_name(name: &str, path: KeyPath, problems: &mut Vec<Problem>) {
    if let Some(complaint) = name_complaint(name) {
        problems.push(Problem::error(Code::UnusableName, path, complaint));
    }
}

/// Warns where a key would be readable on its way to another machine.
fn check_key_travels_safely(address: &str, path: KeyPath, problems: &mut Vec<Problem>) {
    if address.starts_with("http://") && !url::is_loopback(address) {
        problems.push(
            Problem::warning(Code::RiskySetting, path, "the API key travels unencrypted to another machine")
                .hint("use https://"),
        );
    }
}

/// A name that refers to something which is not configured.
fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str> + Clone, path: KeyPath) -> Problem {
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
    Problem::error(Code::UnknownReference, path, message).hint(hint)
}

/// Elements whose name an earlier one already has, with the earlier index.
fn repeated<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(usize, usize)> {
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
