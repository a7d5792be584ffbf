//! Resolves the secrets that the configuration refers to.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use secrecy::SecretString;

use super::{
    Config, Environment,
    files::{ConfigFileReader, plain_reason},
    key_path::KeyPath,
    paths::UserFolders,
    problem::{ConfigProblem, ProblemCode},
    provider_key::{KeyChoice, KeyResolver},
    tree::ConfigNode,
    types::{SecretError, SecretRef},
};

mod key_secrets;
mod token_length;

/// Secrets by purpose. Zeroed on drop and never displayed.
#[derive(Clone, Default)]
pub struct Secrets {
    pub gateway_token: Option<SecretString>,
    /// The runs token; the gateway's if none is configured.
    pub runs_token: Option<SecretString>,
    pub bridge_token: Option<SecretString>,
    /// Keys by provider name; providers without a key are absent.
    pub provider_keys: BTreeMap<String, SecretString>,
    /// Key of the search endpoint.
    pub search_key: Option<SecretString>,
    /// Bearer tokens by the index of the webhook in its list.
    pub webhook_tokens: BTreeMap<usize, SecretString>,
    pub ntfy_token: Option<SecretString>,
    /// Bearer tokens by MCP server name.
    pub mcp_tokens: BTreeMap<String, SecretString>,
    /// Environment of each MCP server, by name; references are resolved.
    pub mcp_env: BTreeMap<String, BTreeMap<String, SecretString>>,
    /// Environment of each worker pool, by name; references are resolved.
    pub worker_env: BTreeMap<String, BTreeMap<String, SecretString>>,
    /// Secrets that plugins may send but not read, by plugin and secret name.
    pub plugin_secrets: BTreeMap<String, BTreeMap<String, SecretString>>,
    /// Secrets that verify webhooks, by channel.
    pub channel_secrets: BTreeMap<String, SecretString>,
    /// Secrets of clients' keys, by name.
    pub key_secrets: BTreeMap<String, SecretString>,
    /// Values of environment variables that are references.
    pub referenced_env: Vec<SecretString>,
}

impl Secrets {
    /// All secrets, for redaction. Plain-text environment values in the configuration are not secrets.
    pub fn all(&self) -> impl Iterator<Item = &SecretString> {
        let tokens = [&self.gateway_token, &self.runs_token, &self.bridge_token, &self.search_key, &self.ntfy_token];
        tokens
            .into_iter()
            .flatten()
            .chain(self.provider_keys.values())
            .chain(self.mcp_tokens.values())
            .chain(self.webhook_tokens.values())
            .chain(self.plugin_secrets.values().flat_map(BTreeMap::values))
            .chain(self.channel_secrets.values())
            .chain(self.key_secrets.values())
            .chain(&self.referenced_env)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Config {
    /// Files that contain a secret: tools must not read them, wherever they are.
    pub fn secret_files(&self) -> Vec<PathBuf> {
        let tokens = [&self.gateway.token, &self.runs.token, &self.bridge.token];
        let keys = self.providers.values().map(|provider| &provider.api_key);
        let mcp = self.mcp.values().map(|server| &server.token);
        let search = self.tools.search.iter().map(|search| &search.api_key);
        let webhooks = self.notifications.webhooks.iter().map(|webhook| &webhook.token);
        let notices = webhooks.chain(self.notifications.ntfy.iter().map(|ntfy| &ntfy.token));
        let channels = self.channels.values().map(|channel| &channel.secret);
        let references = tokens.into_iter().chain(keys).chain(mcp).chain(search).chain(notices).chain(channels);
        let plugins = self.plugins.iter().flat_map(|plugin| plugin.secrets.values());
        let keys = self.keys.iter().filter_map(|key| key.secret.as_ref());
        let references = references.flatten().chain(plugins).chain(keys).cloned();
        let environments = self.mcp.values().map(|server| &server.env);
        let environments = environments.chain(self.workers.iter().map(|worker| &worker.env));
        let variables = environments.flat_map(|env| env.values().filter_map(|value| parse_reference(value)));
        let mut files: Vec<PathBuf> = references
            .chain(variables)
            .filter_map(|reference| match reference {
                SecretRef::File(path) => Some(path),
                SecretRef::Env(_) => None,
            })
            .collect();
        files.extend(self.bridge.tls.as_ref().map(|tls| tls.key.clone()));
        files
    }
}

/// Resolves all secrets. An unreadable one is a problem at its key; a file that waits to be trusted is only a warning.
pub(crate) fn resolve(
    config: &Config,
    tree: &ConfigNode,
    files: &dyn ConfigFileReader,
    environment: &Environment,
    folders: &UserFolders,
) -> (Secrets, Vec<ConfigProblem>) {
    let mut reader =
        SecretReader { environment, files, problems: Vec::new(), untrusted_count: 0, referenced_env: Vec::new() };
    let mut secrets = Secrets::default();
    let at = KeyPath::dotted;

    secrets.gateway_token = reader.read_verifier(config.gateway.token.as_ref(), || at("gateway.token"));
    secrets.runs_token = match &config.runs.token {
        Some(token) => reader.read_verifier(Some(token), || at("runs.token")),
        None => secrets.gateway_token.clone(),
    };
    secrets.bridge_token = reader.read_verifier(config.bridge.token.as_ref(), || at("bridge.token"));

    let rules = KeyResolver { environment, folders, tree };
    for (name, provider) in &config.providers {
        let key = match rules.choose(name, provider) {
            KeyChoice::Named(reference) => reader.read(Some(reference), || at("providers").key(name).key("api_key")),
            KeyChoice::Implicit(key) => Some(key),
            KeyChoice::None => None,
            KeyChoice::Withheld(problem) => {
                reader.problems.push(*problem);
                None
            }
        };
        secrets.provider_keys.extend(key.map(|key| (name.clone(), key)));
    }
    for (name, server) in &config.mcp {
        let path = at("mcp").key(name);
        let token = reader.read(server.token.as_ref(), || path.key("token"));
        secrets.mcp_tokens.extend(token.map(|token| (name.clone(), token)));
        let variables = reader.read_variables(&server.env, &path.key("env"));
        secrets.mcp_env.insert(name.clone(), variables);
    }
    let search_key = config.tools.search.as_ref().and_then(|search| search.api_key.as_ref());
    secrets.search_key = reader.read(search_key, || at("tools.search.api_key"));
    for (index, webhook) in config.notifications.webhooks.iter().enumerate() {
        let path = || at("notifications.webhooks").index(index).key("token");
        secrets.webhook_tokens.extend(reader.read(webhook.token.as_ref(), path).map(|token| (index, token)));
    }
    let ntfy_token = config.notifications.ntfy.as_ref().and_then(|ntfy| ntfy.token.as_ref());
    secrets.ntfy_token = reader.read(ntfy_token, || at("notifications.ntfy.token"));
    for (index, worker) in config.workers.iter().enumerate() {
        let path = at("workers").index(index).key("env");
        let variables = reader.read_variables(&worker.env, &path);
        secrets.worker_env.insert(worker.name.clone(), variables);
    }
    for (index, plugin) in config.plugins.iter().enumerate() {
        let path = at("plugins").index(index).key("secrets");
        let read = plugin
            .secrets
            .iter()
            .filter_map(|(name, reference)| Some((name.clone(), reader.read(Some(reference), || path.key(name))?)));
        let read: BTreeMap<String, SecretString> = read.collect();
        secrets.plugin_secrets.entry(plugin.name.clone()).or_default().extend(read);
    }
    for (name, channel) in &config.channels {
        let path = || at("channels").key(name).key("secret");
        secrets
            .channel_secrets
            .extend(reader.read_verifier(channel.secret.as_ref(), path).map(|read| (name.clone(), read)));
    }
    for (index, key) in config.keys.iter().enumerate() {
        let path = || at("keys").index(index).key("secret");
        // A key whose file waits to be trusted is accepted from nobody.
        secrets.key_secrets.extend(reader.read(key.secret.as_ref(), path).map(|read| (key.name.clone(), read)));
    }
    secrets.referenced_env = reader.referenced_env;
    let mut problems = reader.problems;
    problems.extend(token_length::check(config, &secrets));
    problems.extend(key_secrets::check(config, &secrets));
    (secrets, problems)
}

struct SecretReader<'a> {
    environment: &'a Environment,
    files: &'a dyn ConfigFileReader,
    problems: Vec<ConfigProblem>,
    /// Number of files that are not used because they wait to be trusted.
    untrusted_count: usize,
    /// Values referenced by variables of child processes.
    referenced_env: Vec<SecretString>,
}

impl SecretReader<'_> {
    fn read(&mut self, reference: Option<&SecretRef>, path: impl FnOnce() -> KeyPath) -> Option<SecretString> {
        let reference = reference?;
        if let SecretRef::File(file) = reference
            && let Some(reason) = self.files.untrusted_secret_reason(file)
        {
            // A process started by the server may have created the file; that must not keep the server from starting.
            let message =
                format!("appeared where agents may write and is not used: {reason}; what needs it does not work");
            let hint = format!("look at it and allow it with `patchboard trust {}`", file.display());
            self.problems.push(ConfigProblem::warning(ProblemCode::MissingSecret, path(), message).with_hint(hint));
            self.untrusted_count += 1;
            return None;
        }
        match reference.resolve(self.environment) {
            Ok(secret) => Some(secret),
            Err(missing) => {
                self.problems.push(missing_secret_problem(&missing, path()));
                None
            }
        }
    }

    /// A secret that verifies callers. Without one every caller would be accepted; while its file waits to be trusted,
    /// a random secret that no caller knows takes its place.
    fn read_verifier(&mut self, reference: Option<&SecretRef>, path: impl FnOnce() -> KeyPath) -> Option<SecretString> {
        let before = self.untrusted_count;
        let read = self.read(reference, path);
        read.or_else(|| (self.untrusted_count > before).then(|| random_secret().into()))
    }

    /// Values of child processes' variables: references or plain text.
    fn read_variables(
        &mut self,
        variables: &BTreeMap<String, String>,
        path: &KeyPath,
    ) -> BTreeMap<String, SecretString> {
        let mut read = BTreeMap::new();
        for (name, value) in variables {
            let secret = match parse_reference(value) {
                Some(reference) => {
                    let secret = self.read(Some(&reference), || path.key(name));
                    self.referenced_env.extend(secret.clone());
                    secret
                }
                None => Some(value.as_str().into()),
            };
            read.extend(secret.map(|secret| (name.clone(), secret)));
        }
        read
    }
}

/// A secret of 64 characters: two version 4 UUIDs, each with six fixed bits, give 244 random bits.
pub fn random_secret() -> String {
    format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

/// A child process' variable that refers to a secret instead of being plain text.
pub(crate) fn parse_reference(value: &str) -> Option<SecretRef> {
    value.parse().ok()
}

fn missing_secret_problem(missing: &SecretError, path: KeyPath) -> ConfigProblem {
    let (message, hint) = match missing {
        SecretError::EnvUnset(name) => (missing.to_string(), format!("set it before starting: export {name}=…")),
        SecretError::FileUnreadable { path, source } => {
            (format!("{missing}: {}", plain_reason(source)), format!("create {} with mode 0600", path.display()))
        }
        SecretError::FileEmpty(path) | SecretError::FileUnusable(path) => {
            (missing.to_string(), format!("put the secret and nothing else into {}", path.display()))
        }
    };
    ConfigProblem::error(ProblemCode::MissingSecret, path, message).with_hint(hint)
}
