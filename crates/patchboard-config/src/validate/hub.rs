//! App names, aliases and routing rules.

use super::duplicates;
use crate::{
    Config,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
};

/// All aliases and rules are checked for every message.
const MAX_ENTRIES: usize = 1000;
const MAX_PATTERN: usize = 256;

pub(crate) fn validate(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let hub = &config.hub;
    if let Some(name) = &hub.catch_all {
        check_app_name(name, KeyPath::dotted("hub.catch_all"), problems);
    }
    check_aliases(config, problems);
    check_rules(config, problems);
    for (key, count) in [("aliases", hub.aliases.len()), ("rules", hub.rules.len())] {
        if count > MAX_ENTRIES {
            let message = format!("has {count} entries; {MAX_ENTRIES} are the most");
            problems.push(ConfigProblem::error(ProblemCode::OutOfRange, KeyPath::dotted("hub").key(key), message));
        }
    }
}

fn check_aliases(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let path = KeyPath::dotted("hub.aliases");
    let aliases = &config.hub.aliases;
    for (alias, app) in aliases {
        check_app_name(alias, path.key(alias), problems);
        check_app_name(app, path.key(alias), problems);
        if alias.eq_ignore_ascii_case(app) {
            let message = "is the app's own name, which needs no alias";
            problems
                .push(ConfigProblem::warning(ProblemCode::Conflict, path.key(alias), message).with_hint("remove it"));
        }
    }
    // Addressing ignores case, so aliases must differ in more than case.
    let lowercase: Vec<String> = aliases.keys().map(|alias| alias.to_ascii_lowercase()).collect();
    let names: Vec<&String> = aliases.keys().collect();
    for (index, first) in duplicates(lowercase.iter().map(String::as_str)) {
        if let (Some(second), Some(first)) = (names.get(index), names.get(first)) {
            let message = format!("is the same name as {}: case does not matter", path.key(first));
            problems.push(
                ConfigProblem::error(ProblemCode::UnusableName, path.key(second), message)
                    .with_hint("remove one of them"),
            );
        }
    }
}

fn check_rules(config: &Config, problems: &mut Vec<ConfigProblem>) {
    for (index, rule) in config.hub.rules.iter().enumerate() {
        let path = KeyPath::dotted("hub.rules").index(index);
        check_app_name(&rule.app, path.key("app"), problems);
        let when = path.key("when");
        if rule.when.is_empty() {
            let hint = "when = [\"play *\"]";
            problems
                .push(ConfigProblem::error(ProblemCode::MissingKey, when.clone(), "names no pattern").with_hint(hint));
        }
        for (position, pattern) in rule.when.iter().enumerate() {
            if let Some((message, hint)) = invalid_pattern_reason(pattern) {
                problems
                    .push(ConfigProblem::error(ProblemCode::BadPattern, when.index(position), message).with_hint(hint));
            }
        }
    }
}

fn invalid_pattern_reason(pattern: &str) -> Option<(&'static str, &'static str)> {
    if pattern.chars().count() > MAX_PATTERN {
        Some(("is longer than 256 characters", "leave out the end: a `*` stands for any text"))
    } else if pattern.chars().all(|c| c.is_whitespace() || matches!(c, '*' | '?')) {
        Some(("fits every message", "name a word, or set hub.catch_all for messages that fit no app"))
    } else {
        None
    }
}

/// Unlike other names, an app's name begins with a letter.
fn check_app_name(name: &str, path: KeyPath, problems: &mut Vec<ConfigProblem>) {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic());
    if name.len() > 64 || !starts_well || !name.bytes().all(fits) {
        let message = format!("`{}` cannot be the name of an app", name.chars().take(80).collect::<String>());
        let hint = "a letter, then letters, digits, `-` and `_`; 64 characters at most";
        problems.push(ConfigProblem::error(ProblemCode::UnusableName, path, message).with_hint(hint));
    }
}
