//! MCP servers, tool approval, the search endpoint, notification sinks and the log filter.

use std::collections::BTreeMap;

use tracing_subscriber::EnvFilter;

use super::{check_name, duplicates, warn_unencrypted_key};
use crate::{
    Config, glob,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
    secrets::parse_reference,
};

pub(crate) fn validate(config: &Config, problems: &mut Vec<ConfigProblem>) {
    check_mcp(config, problems);
    for pattern in config.tools.approval.keys() {
        if let Some(complaint) = glob::invalid_reason(pattern) {
            let path = KeyPath::dotted("tools.approval").key(pattern);
            problems.push(ConfigProblem::error(ProblemCode::BadPattern, path, complaint));
        }
    }
    if let Some(search) = &config.tools.search
        && search.api_key.is_some()
    {
        warn_unencrypted_key(&search.url, KeyPath::dotted("tools.search.url"), problems);
    }
    check_notifications(config, problems);
    if let Some(filter) = &config.log.filter
        && EnvFilter::try_new(filter).is_err()
    {
        problems.push(
            ConfigProblem::error(ProblemCode::BadPattern, KeyPath::dotted("log.filter"), "is not a log filter")
                .with_hint("write level, or module=level, separated by commas: warn,patchboard=debug"),
        );
    }
}

pub(super) fn check_names<'a>(
    section: &str,
    names: impl Iterator<Item = &'a str> + Clone,
    problems: &mut Vec<ConfigProblem>,
) {
    let path = KeyPath::dotted(section);
    for (index, name) in names.clone().enumerate() {
        check_name(name, path.index(index).key("name"), problems);
    }
    for (index, first) in duplicates(names) {
        problems.push(ConfigProblem::error(
            ProblemCode::UnusableName,
            path.index(index).key("name"),
            format!("is already the name of {}", path.index(first)),
        ));
    }
}

fn check_mcp(config: &Config, problems: &mut Vec<ConfigProblem>) {
    for (name, server) in &config.mcp {
        let path = KeyPath::dotted("mcp").key(name);
        check_name(name, path.clone(), problems);
        match (&server.url, server.command.is_empty()) {
            (None, true) => problems.push(
                ConfigProblem::error(ProblemCode::MissingKey, path.clone(), "needs a command or a url")
                    .with_hint("command = [\"program\", \"argument\"] for stdio, url = \"https://…\" for HTTP"),
            ),
            (Some(_), false) => problems.push(
                ConfigProblem::error(
                    ProblemCode::Conflict,
                    path.key("url"),
                    "a server is reached by command or by url, not both",
                )
                .with_hint("remove one of the two"),
            ),
            (None, false) if server.token.is_some() => problems.push(
                ConfigProblem::error(
                    ProblemCode::Conflict,
                    path.key("token"),
                    "is for HTTP servers; this one is a command",
                )
                .with_hint("pass it by the command's env"),
            ),
            (None, false) => check_command(&server.command, &path, problems),
            (Some(_), true) => {}
        }
        check_variables(&server.env, &path, problems);
    }
}

fn check_notifications(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let path = KeyPath::dotted("notifications");
    for (index, webhook) in config.notifications.webhooks.iter().enumerate() {
        if webhook.token.is_some() {
            warn_unencrypted_key(&webhook.url, path.key("webhooks").index(index).key("url"), problems);
        }
    }
    let Some(ntfy) = &config.notifications.ntfy else { return };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    // A missing topic has already been reported.
    if ntfy.topic.len() > 64 || !ntfy.topic.bytes().all(fits) {
        let message = "a topic has up to 64 letters, digits, `-` and `_`";
        problems.push(ConfigProblem::error(ProblemCode::UnusableName, path.key("ntfy").key("topic"), message));
    }
    if ntfy.token.is_some() {
        warn_unencrypted_key(&ntfy.server, path.key("ntfy").key("server"), problems);
    }
}

pub(super) fn check_command(command: &[String], path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    if command.is_empty() {
        problems.push(
            ConfigProblem::error(ProblemCode::MissingKey, path.key("command"), "names no program")
                .with_hint("command = [\"program\", \"argument\"]"),
        );
    }
}

/// Variables of child processes may be plain text, unless their names look like those of secrets.
pub(super) fn check_variables(variables: &BTreeMap<String, String>, path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    for (name, value) in variables {
        let at = path.key("env").key(name);
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let message = "is not an environment variable";
            problems.push(ConfigProblem::error(ProblemCode::UnusableName, at, message));
        } else if looks_like_secret(name) && !value.is_empty() && parse_reference(value).is_none() {
            problems.push(
                ConfigProblem::error(ProblemCode::LiteralSecret, at, "a secret is written into the configuration")
                    .with_hint("write \"env:NAME\" or \"file:PATH\" and keep the secret there"),
            );
        }
    }
}

pub(super) fn looks_like_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    // `API_KEY`, `GITHUB_TOKEN`; not `KEYBOARD` or `MAX_TOKENS`.
    name.split('_')
        .any(|part| matches!(part, "KEY" | "APIKEY" | "TOKEN" | "SECRET" | "PASSWORD" | "PASSWD" | "CREDENTIALS"))
}
