//! Minimum length of tokens that other machines could try to guess.

use secrecy::{ExposeSecret, SecretString};

use super::Secrets;
use crate::{
    Config,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
};

/// In bytes. 95 bits for random letters and digits.
pub(super) const MIN_TOKEN_BYTES: usize = 16;

pub(super) fn check(config: &Config, secrets: &Secrets) -> Vec<ConfigProblem> {
    let runs = if config.runs.token.is_some() { "runs.token" } else { "gateway.token" };
    let tokens = [
        (config.gateway.listen, "gateway.token", &secrets.gateway_token),
        (config.runs.listen, runs, &secrets.runs_token),
        (config.bridge.listen, "bridge.token", &secrets.bridge_token),
    ];
    let short = tokens.into_iter().filter_map(|(listen, key, token)| {
        let length = token.as_ref().filter(|_| listen.is_off_loopback()).map(length)?;
        (length < MIN_TOKEN_BYTES).then(|| {
            let message = format!("has {length} bytes, and other machines may guess it at {listen}");
            ConfigProblem::error(ProblemCode::ShortToken, KeyPath::dotted(key), message).with_hint(format!(
                "take one of {MIN_TOKEN_BYTES} bytes or more, such as that of `openssl rand -hex 32`"
            ))
        })
    });
    short.collect()
}

fn length(token: &SecretString) -> usize {
    token.expose_secret().len()
}

#[cfg(test)]
mod tests;
