//! Secrets whose reference is unchanged but whose value differs.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};

use super::super::Secrets;
use super::super::key_path::KeyPath;

/// The keys of secrets that differ, in configuration order. Values are not returned.
pub fn secret_changes(old: &Secrets, new: &Secrets) -> Vec<KeyPath> {
    let at = KeyPath::dotted;
    let mut changed = Vec::new();
    let mut one = |path: KeyPath, old: Option<&SecretString>, new: Option<&SecretString>| {
        if !same(old, new) {
            changed.push(path);
        }
    };
    one(at("gateway.token"), old.gateway_token.as_ref(), new.gateway_token.as_ref());
    one(at("runs.token"), old.runs_token.as_ref(), new.runs_token.as_ref());
    one(at("notifications.ntfy.token"), old.ntfy_token.as_ref(), new.ntfy_token.as_ref());
    one(at("bridge.token"), old.bridge_token.as_ref(), new.bridge_token.as_ref());
    one(at("tools.search.api_key"), old.search_key.as_ref(), new.search_key.as_ref());
    for (section, key, old, new) in [
        ("providers", "api_key", &old.provider_keys, &new.provider_keys),
        ("channels", "secret", &old.channel_secrets, &new.channel_secrets),
        ("mcp", "token", &old.mcp_tokens, &new.mcp_tokens),
    ] {
        for name in names(old, new) {
            one(at(section).key(name).key(key), old.get(name), new.get(name));
        }
    }
    for name in names(&old.mcp_env, &new.mcp_env) {
        if !same_values(old.mcp_env.get(name), new.mcp_env.get(name)) {
            changed.push(at("mcp").key(name).key("env"));
        }
    }
    // Maps of a list are compared as a whole.
    let all_same = |old: &BTreeMap<String, BTreeMap<String, SecretString>>,
                    new: &BTreeMap<String, BTreeMap<String, SecretString>>| {
        names(old, new).into_iter().all(|name| same_values(old.get(name), new.get(name)))
    };
    if !all_same(&old.worker_env, &new.worker_env) {
        changed.push(at("workers"));
    }
    if !all_same(&old.plugin_secrets, &new.plugin_secrets) {
        changed.push(at("plugins"));
    }
    if names(&old.key_secrets, &new.key_secrets)
        .into_iter()
        .any(|name| !same(old.key_secrets.get(name), new.key_secrets.get(name)))
    {
        changed.push(at("keys"));
    }
    let webhooks = names(&old.webhook_tokens, &new.webhook_tokens);
    if webhooks.into_iter().any(|index| !same(old.webhook_tokens.get(index), new.webhook_tokens.get(index))) {
        changed.push(at("notifications.webhooks"));
    }
    changed
}

fn names<'a, K: Ord, V>(old: &'a BTreeMap<K, V>, new: &'a BTreeMap<K, V>) -> Vec<&'a K> {
    let mut names: Vec<&K> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    names
}

fn same(old: Option<&SecretString>, new: Option<&SecretString>) -> bool {
    old.map(ExposeSecret::expose_secret) == new.map(ExposeSecret::expose_secret)
}

fn same_values(old: Option<&BTreeMap<String, SecretString>>, new: Option<&BTreeMap<String, SecretString>>) -> bool {
    let empty = BTreeMap::new();
    let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
    names(old, new).into_iter().all(|name| same(old.get(name), new.get(name)))
}
