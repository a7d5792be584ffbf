//! Keys of clients.

use http::HeaderName;
use patchboard_core::keys::{MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_KEYS};

use super::extensions::check_names;
use super::unknown_reference;
use crate::{
    Config,
    agent_lookup::DEFAULT_AGENT,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
    section::KeyConfig,
};

/// Headers that carry the token or the address itself say nothing of a person.
const UNTRUSTED_HEADERS: [&str; 4] = ["authorization", "cookie", "host", "origin"];

pub(crate) fn validate(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let keys = KeyPath::dotted("keys");
    check_names("keys", config.keys.iter().map(|key| key.name.as_str()), problems);
    if config.keys.len() > MAX_KEYS {
        let message = format!("has {} keys; {MAX_KEYS} are the most", config.keys.len());
        problems.push(ConfigProblem::error(ProblemCode::OutOfRange, keys.clone(), message));
    }
    for (index, key) in config.keys.iter().enumerate() {
        check_key(config, key, &keys.index(index), problems);
    }
}

fn check_key(config: &Config, key: &KeyConfig, path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    if key.secret.is_none() {
        problems.push(
            ConfigProblem::error(ProblemCode::MissingKey, path.key("secret"), "is required to know the client")
                .with_hint(
                    "secret = \"env:NAME\" or \"file:PATH\"; `patchboard keys create` makes a key without a file",
                ),
        );
    }
    let configured = config.agents.keys().map(String::as_str);
    for agent in key.agents.iter().flatten() {
        if agent != DEFAULT_AGENT && !config.agents.contains_key(agent) {
            problems.push(unknown_reference("agent", agent, configured.clone(), path.key("agents")));
        }
    }
    let lists = [("agents", &key.agents), ("tools", &key.tools)].map(|(name, list)| (name, list.as_deref()));
    for (name, list) in lists.into_iter().chain([("trust_headers", Some(&*key.trust_headers))]) {
        let list = list.unwrap_or_default();
        if list.len() > MAX_ENTRIES {
            let message = format!("has {} entries; {MAX_ENTRIES} are the most", list.len());
            problems.push(ConfigProblem::error(ProblemCode::OutOfRange, path.key(name), message));
        }
        if list.iter().any(|entry| entry.is_empty() || entry.len() > MAX_ENTRY_BYTES) {
            let message = format!("has an entry that is empty or longer than {MAX_ENTRY_BYTES} bytes");
            problems.push(ConfigProblem::error(ProblemCode::OutOfRange, path.key(name), message));
        }
    }
    for header in &key.trust_headers {
        let complaint = match HeaderName::try_from(header) {
            Err(_) => Some(format!("`{header}` is not the name of a header")),
            Ok(name) if UNTRUSTED_HEADERS.contains(&name.as_str()) => Some(format!("`{header}` names no person")),
            Ok(_) => None,
        };
        problems.extend(complaint.map(|complaint| {
            ConfigProblem::error(ProblemCode::UnusableName, path.key("trust_headers"), complaint)
                .with_hint("name the header in which a proxy puts the user, such as `X-Forwarded-User`")
        }));
    }
}
