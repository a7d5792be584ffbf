//! Determines which keys a running server can apply, and the configuration that results.
//!
//! One table decides: `patchboard reload`, the reference page and the tests use it.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use super::{
    Config,
    key_path::{KeyPath, PathSegment},
    problem::{ConfigProblem, Severity},
    shape::{self, LeafKind, SchemaEntry, ValueShape},
    validate,
};

mod secret_changes;

pub use secret_changes::secret_changes;

/// When a changed key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadClass {
    /// On reload, for work that starts afterwards.
    Live,
    /// The key names a file whose content is read again; naming another file requires a restart.
    Content,
    /// At the next start.
    Restart,
}

use ReloadClass::{Content, Live, Restart};

/// Every key matches one row. `*` stands for a name chosen by the user, a trailing `**` for all keys below.
pub(crate) const RELOAD_CLASSES: &[(&str, ReloadClass)] = &[
    ("data_dir", Restart),
    ("data_dir_group", Restart),
    ("trusted_users", Restart),
    ("drain", Restart),
    ("gateway.listen", Restart),
    ("gateway.token", Restart),
    ("gateway.allowed_origins", Restart),
    ("gateway.allowed_hosts", Restart),
    ("gateway.insecure", Restart),
    ("gateway.max_connections", Restart),
    ("gateway.orphan_grace", Live),
    ("gateway.rate_limit.**", Live),
    ("runs.**", Restart),
    ("hub.**", Restart),
    ("notifications.**", Restart),
    ("bridge.listen", Restart),
    ("bridge.allow_pickle", Restart),
    ("bridge.session_ttl", Restart),
    ("bridge.max_sessions", Restart),
    ("bridge.queue_timeout", Restart),
    ("bridge.max_queue", Restart),
    ("bridge.call_timeout", Restart),
    ("bridge.stream_timeout", Restart),
    ("bridge.expose", Restart),
    ("bridge.unix_socket", Restart),
    ("bridge.token", Restart),
    ("bridge.insecure", Restart),
    ("bridge.allowed_hosts", Restart),
    ("bridge.max_connections", Restart),
    ("bridge.private_ports", Restart),
    ("bridge.tls.cert", Content),
    ("bridge.tls.key", Content),
    ("bridge.tls.client_ca", Content),
    ("providers.**", Live),
    ("local_model.**", Restart),
    ("agents.*.description", Live),
    ("agents.*.provider", Live),
    ("agents.*.fallback", Live),
    ("agents.*.model", Live),
    ("agents.*.strategy", Live),
    ("agents.*.max_tokens", Live),
    ("agents.*.temperature", Live),
    ("agents.*.soul", Content),
    ("agents.*.system_prompt", Live),
    ("agents.*.tools", Live),
    ("agents.*.context_window", Live),
    ("agents.*.max_model_calls", Live),
    ("agents.*.max_turns", Live),
    ("agents.*.max_run_tokens", Live),
    ("agents.*.run_timeout", Live),
    ("agents.*.budget.**", Live),
    ("agents.*.tot.**", Live),
    ("agents.*.got.**", Live),
    ("bindings", Live),
    ("keys", Live),
    ("budgets.**", Live),
    ("prices.**", Live),
    ("memory.**", Restart),
    ("plugins", Restart),
    ("wasm.**", Restart),
    ("channels.**", Restart),
    ("workers", Restart),
    ("mcp.**", Restart),
    ("tools.bash_timeout", Restart),
    ("tools.fetch_private_hosts", Restart),
    ("tools.approval.*", Live),
    ("tools.bash.**", Restart),
    ("tools.search.**", Restart),
    ("storage.**", Restart),
    ("limits.message", Live),
    ("limits.bridge_message", Restart),
    ("limits.auth_timeout", Live),
    ("limits.session_queue", Live),
    ("limits.concurrent_runs", Live),
    ("limits.approval_timeout", Live),
    ("limits.input_timeout", Live),
    ("limits.tool_timeout", Live),
    ("limits.tool_output", Live),
    ("limits.plugin_memory", Restart),
    ("limits.plugin_time", Restart),
    ("limits.plugin_fuel", Restart),
    ("limits.plugin_output", Restart),
    ("limits.plugin_calls", Restart),
    ("log.level", Live),
    ("log.filter", Live),
    ("log.format", Restart),
    ("telemetry.**", Restart),
];

/// The class of a key; an unknown key requires a restart.
pub fn class_of(path: &KeyPath) -> ReloadClass {
    RELOAD_CLASSES.iter().find(|(row, _)| row_matches(row, path)).map_or(Restart, |(_, class)| *class)
}

fn row_matches(row: &str, path: &KeyPath) -> bool {
    let mut steps = path.segments().iter();
    for part in row.split('.') {
        if part == "**" {
            return steps.next().is_some();
        }
        match steps.next() {
            Some(PathSegment::Key(key)) if part == "*" || key == part => {}
            Some(_) | None => return false,
        }
    }
    steps.next().is_none()
}

/// A new configuration, reduced to what a running server can apply.
#[derive(Debug)]
pub struct MergedConfig {
    pub config: Config,
    /// Changed keys that are applied in `config`.
    pub changed: Vec<KeyPath>,
    /// Changed keys that require a restart; `config` has their old values.
    pub needs_restart: Vec<KeyPath>,
}

impl MergedConfig {
    /// Problems of the merged configuration that `new` alone does not have.
    pub fn errors_from_deferred_keys(&self, new: &Config) -> Vec<ConfigProblem> {
        if self.needs_restart.is_empty() {
            return Vec::new();
        }
        let known = validate::validate(new);
        let found = validate::validate(&self.config).into_iter();
        found.filter(|problem| problem.severity == Severity::Error && !known.contains(problem)).collect()
    }

    /// Whether the provider is applied from the new configuration.
    pub fn applies_provider(&self, name: &str) -> bool {
        !self.needs_restart.contains(&KeyPath::dotted("providers").key(name))
    }
}

/// A configuration could not be serialised, for example because of a path that is not UTF-8.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("the configuration cannot be compared with the one in effect")]
    Write(#[from] toml::ser::Error),
    #[error("the changes cannot be told from what needs a restart")]
    Read(#[from] toml::de::Error),
}

/// `is_protected` returns whether a file is unreadable for all processes that the server starts; only such files may
/// supply a key.
pub fn merge(old: &Config, new: &Config, is_protected: &dyn Fn(&Path) -> bool) -> Result<MergedConfig, CompareError> {
    let (old, mut merged) = (Value::try_from(old)?, Value::try_from(new)?);
    let mut found = ConfigDiff { is_protected, entries: Vec::new() };
    found.compare_entry(shape::root(), Some(&old), Some(&merged), &KeyPath::default());
    let (mut changed, mut needs_restart) = (Vec::new(), Vec::new());
    for KeyDifference { path, is_live: is_taken } in found.entries {
        if is_taken {
            changed.push(path);
        } else {
            restore_value(&mut merged, path.segments(), value_at(&old, path.segments()));
            needs_restart.push(path);
        }
    }
    Ok(MergedConfig { config: Config::deserialize(merged)?, changed, needs_restart })
}

/// Whether a path is a known file with a secret, or inside a folder that is closed as a whole.
pub fn is_protected(path: &Path, known_files: &[PathBuf], closed_folders: &[PathBuf]) -> bool {
    let in_closed_folder = |folder: &PathBuf| path.starts_with(folder) && !path.components().any(is_upwards);
    known_files.iter().any(|known| known == path) || closed_folders.iter().any(in_closed_folder)
}

fn is_upwards(component: std::path::Component<'_>) -> bool {
    component == std::path::Component::ParentDir
}

struct KeyDifference {
    path: KeyPath,
    is_live: bool,
}

struct ConfigDiff<'a> {
    is_protected: &'a dyn Fn(&Path) -> bool,
    entries: Vec<KeyDifference>,
}

impl ConfigDiff<'_> {
    fn compare_entry(&mut self, entry: &SchemaEntry, old: Option<&Value>, new: Option<&Value>, path: &KeyPath) {
        if old == new {
            return;
        }
        match &entry.shape {
            ValueShape::Table { keys, .. } => {
                for (key, child) in keys.iter() {
                    self.compare_entry(child, field(old, key), field(new, key), &path.key(key));
                }
            }
            ValueShape::Map(child) => {
                let names = [old, new].into_iter().flatten().filter_map(Value::as_table).flat_map(Table::keys);
                let mut names: Vec<&String> = names.collect();
                names.sort();
                names.dedup();
                for name in names {
                    self.compare_named(child, field(old, name), field(new, name), &path.key(name));
                }
            }
            ValueShape::List(item) => {
                let is_taken = class_of(path) == Live && self.has_readable_secrets(item, new);
                self.entries.push(KeyDifference { path: path.clone(), is_live: is_taken });
            }
            ValueShape::Leaf(_) => {
                let is_taken = class_of(path) == Live && self.is_readable_secret(entry, new);
                self.entries.push(KeyDifference { path: path.clone(), is_live: is_taken });
            }
        }
    }

    /// Compares an entry of a table whose keys are chosen by the user.
    fn compare_named(&mut self, entry: &SchemaEntry, old: Option<&Value>, new: Option<&Value>, path: &KeyPath) {
        let before = self.entries.len();
        self.compare_entry(entry, old, new, path);
        let found = self.entries.split_off(before);
        let is_provider = *path == KeyPath::dotted("providers").key(last_key(path));
        if is_provider && found.iter().any(|difference| !difference.is_live) {
            // As a whole or not at all, so that a key is never combined with an address from another configuration.
            self.entries.push(KeyDifference { path: path.clone(), is_live: false });
        } else if old.is_none() || new.is_none() {
            let is_taken = found.iter().any(|difference| difference.is_live);
            self.entries.push(KeyDifference { path: path.clone(), is_live: is_taken });
            // For a new entry, keys that require a restart are listed separately.
            if is_taken && old.is_none() {
                self.entries
                    .extend(found.into_iter().filter(|difference| !difference.is_live && difference.path != *path));
            }
        } else {
            self.entries.extend(found);
        }
    }

    /// Whether all secrets of a list's elements may be read. A list is taken as a whole or not at all.
    fn has_readable_secrets(&self, item: &SchemaEntry, new: Option<&Value>) -> bool {
        let elements = new.and_then(Value::as_array).into_iter().flatten();
        let ValueShape::Table { keys, .. } = &item.shape else { return true };
        elements
            .into_iter()
            .all(|element| keys.iter().all(|(key, entry)| self.is_readable_secret(entry, field(Some(element), key))))
    }

    fn is_readable_secret(&self, entry: &SchemaEntry, new: Option<&Value>) -> bool {
        let is_secret = matches!(entry.shape, ValueShape::Leaf(LeafKind::Secret));
        let file = new.and_then(Value::as_str).filter(|_| is_secret).and_then(|text| text.strip_prefix("file:"));
        file.is_none_or(|file| (self.is_protected)(Path::new(file)))
    }
}

fn last_key(path: &KeyPath) -> &str {
    match path.segments().last() {
        Some(PathSegment::Key(key)) => key,
        Some(PathSegment::Index(_)) | None => "",
    }
}

fn field<'a>(value: Option<&'a Value>, key: &str) -> Option<&'a Value> {
    value.and_then(|value| value.get(key))
}

fn value_at<'a>(value: &'a Value, steps: &[PathSegment]) -> Option<&'a Value> {
    steps.iter().try_fold(value, |value, step| match step {
        PathSegment::Key(key) => value.get(key),
        PathSegment::Index(index) => value.get(index),
    })
}

/// Restores the old value; tables that become empty are removed.
fn restore_value(value: &mut Value, steps: &[PathSegment], old: Option<&Value>) {
    let (Value::Table(table), Some((PathSegment::Key(key), rest))) = (value, steps.split_first()) else { return };
    match (rest, old) {
        ([], Some(old)) => {
            table.insert(key.clone(), old.clone());
        }
        ([], None) => {
            table.remove(key);
        }
        (rest, old) => {
            if old.is_none() && !table.contains_key(key) {
                return;
            }
            let inner = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
            restore_value(inner, rest, old);
            if inner.as_table().is_some_and(Table::is_empty) {
                table.remove(key);
            }
        }
    }
}

/// The rows of a class in readable form, such as `agents.NAME.model`.
#[cfg(test)]
pub(crate) fn rows_of(class: ReloadClass) -> Vec<String> {
    let of_class = RELOAD_CLASSES.iter().filter(|(_, of_row)| *of_row == class);
    of_class.map(|(row, _)| row.replace(".**", ".…").replace('*', "NAME")).collect()
}

#[cfg(test)]
mod tests;
