//! Secrets of keys: long enough, and each of one client only.

use secrecy::ExposeSecret;

use super::Secrets;
use super::token_length::MIN_TOKEN_BYTES;
use crate::{
    Config,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
};

pub(super) fn check(config: &Config, secrets: &Secrets) -> Vec<ConfigProblem> {
    let tokens = [
        ("gateway.token", &secrets.gateway_token),
        ("runs.token", &secrets.runs_token),
        ("bridge.token", &secrets.bridge_token),
    ];
    let tokens = tokens.into_iter().filter_map(|(key, token)| Some((key.to_owned(), token.as_ref()?)));
    let mut seen: Vec<(String, &str)> = tokens.map(|(key, token)| (key, token.expose_secret())).collect();
    let mut problems = Vec::new();
    for (index, key) in config.keys.iter().enumerate() {
        // A repeated name is a problem of its own; its secrets cannot be told apart here.
        if config.keys.iter().take(index).any(|earlier| earlier.name == key.name) {
            continue;
        }
        let Some(secret) = secrets.key_secrets.get(&key.name).map(ExposeSecret::expose_secret) else { continue };
        let path = KeyPath::dotted("keys").index(index).key("secret");
        if secret.len() < MIN_TOKEN_BYTES {
            let message = format!("has {} bytes, which can be guessed", secret.len());
            let hint = format!("take one of {MIN_TOKEN_BYTES} bytes or more, such as that of `openssl rand -hex 32`");
            problems.push(ConfigProblem::error(ProblemCode::ShortToken, path.clone(), message).with_hint(hint));
        }
        if let Some((other, _)) = seen.iter().find(|(_, known)| *known == secret) {
            let message = format!("is the same as {other}, so the two cannot be told apart");
            let hint = "give every client a secret of its own";
            problems.push(ConfigProblem::error(ProblemCode::Conflict, path.clone(), message).with_hint(hint));
        }
        seen.push((path.to_string(), secret));
    }
    problems
}

#[cfg(test)]
mod tests;
