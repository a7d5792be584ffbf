//! One session's variables: versioned values, dependencies and change tracking. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::text::cut;
use crate::tool::Glob;

/// Most variables of one session; a further one is refused.
pub(crate) const MAX_VARIABLES: usize = 1000;
/// Longest value, as JSON text.
pub(crate) const MAX_VALUE: usize = 256 * 1024;
/// Bytes of all values, names and dependencies of one session.
pub(crate) const MAX_TOTAL: usize = 4 * 1024 * 1024;
/// Most direct dependencies of a variable.
pub(crate) const MAX_DEPENDENCIES: usize = 64;
/// Longest name.
pub(crate) const MAX_NAME: usize = 128;
/// Deeper values are refused: their encoded forms could not be parsed everywhere.
const MAX_DEPTH: usize = 64;
/// Deleted variables remembered for watchers; past it a watcher that is too far behind gets a reset.
const MAX_DELETED: usize = 1000;
/// Total bytes of values in one watch response; further values are left out and must be read one by one.
const MAX_WATCH_BYTES: usize = 1024 * 1024;

/// The variables of one session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VariableSet {
    /// Increases with every change.
    pub(crate) cursor: u64,
    /// A watcher with an older cursor cannot learn of all deletions since.
    pub(crate) oldest_complete_cursor: u64,
    pub(crate) variables: BTreeMap<Arc<str>, Variable>,
    pub(crate) deleted: BTreeMap<Arc<str>, DeletedVariable>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Variable {
    pub(crate) value: Arc<Value>,
    /// Length of the value as JSON text.
    pub(crate) bytes: usize,
    /// Increases by one with every set, from 1; continues after a deletion for as long as it is remembered.
    pub(crate) version: u64,
    pub(crate) updated_at: Timestamp,
    pub(crate) depends_on: Arc<[Arc<str>]>,
    /// A dependency has changed since it was set.
    pub(crate) is_stale: bool,
    /// Cursor of the change that set it.
    pub(crate) set_cursor: u64,
    /// Cursor of the last change that set it or made it stale.
    pub(crate) changed_cursor: u64,
}

/// A deleted variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeletedVariable {
    /// The last version.
    pub(crate) version: u64,
    pub(crate) deleted_cursor: u64,
}

/// A request to set a variable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SetVariable {
    pub(crate) name: Arc<str>,
    pub(crate) value: Arc<Value>,
    /// `None`: unchanged.
    pub(crate) depends_on: Option<Vec<Arc<str>>>,
    /// Set only if it is at this version; 0 if it must not exist.
    pub(crate) if_version: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangeOutcome {
    /// The variable's version, or its last one if deleted.
    pub(crate) version: u64,
    /// All direct and indirect dependents, which are stale now.
    pub(crate) stale: Vec<Arc<str>>,
}

/// The response to a watcher.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WatchUpdate {
    /// In the order of the changes; changes at the same cursor by name.
    pub(crate) changes: Vec<VariableChange>,
    /// The cursor to continue from.
    pub(crate) cursor: u64,
    /// Too much was missed: `changes` holds all current variables, and any other is deleted.
    pub(crate) reset: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VariableChange {
    pub(crate) name: Arc<str>,
    pub(crate) version: u64,
    /// `None` for deleted variables, and where it does not fit the response.
    pub(crate) value: Option<Arc<Value>>,
    pub(crate) deleted: bool,
    pub(crate) stale: bool,
}

impl VariableSet {
    /// Creates an empty set. `start` must be past every cursor ever handed out for the session.
    pub(crate) fn new(start: u64) -> Self {
        Self { cursor: start, oldest_complete_cursor: start, variables: BTreeMap::new(), deleted: BTreeMap::new() }
    }

    pub(crate) fn set(&mut self, request: SetVariable, at: Timestamp) -> Result<ChangeOutcome, String> {
        let SetVariable { name, value, depends_on, if_version } = request;
        check_name(&name)?;
        let before = self.variables.get(&name);
        self.check_version(&name, if_version)?;
        let bytes = value_bytes(&value)?;
        let depends_on: Arc<[Arc<str>]> = match (depends_on, before) {
            (Some(names), _) => distinct_names(names)?.into(),
            (None, Some(before)) => before.depends_on.clone(),
            (None, None) => Arc::default(),
        };
        if let Some(through) = self.find_cycle(&name, &depends_on) {
            let message = if *through == name {
                format!("`{name}` cannot depend on itself")
            } else {
                format!("`{name}` cannot depend on `{through}`, which depends on `{name}`")
            };
            return Err(message);
        }
        if before.is_none() && self.variables.len() >= MAX_VARIABLES {
            return Err(format!("a session holds at most {MAX_VARIABLES} variables: delete some first"));
        }
        let version = match (before, self.deleted.get(&name)) {
            (Some(before), _) => before.version.saturating_add(1),
            (None, Some(deleted)) => deleted.version.saturating_add(1),
            (None, None) => 1,
        };
        let changed = self.cursor.saturating_add(1);
        let variable = Variable {
            value,
            bytes,
            version,
            updated_at: at,
            depends_on,
            is_stale: false,
            set_cursor: changed,
            changed_cursor: changed,
        };
        let others = self.total_bytes() - before.map_or(0, |before| weight(&name, before));
        if others + weight(&name, &variable) > MAX_TOTAL {
            return Err(format!("the session's variables together would be larger than {MAX_TOTAL} bytes"));
        }
        self.cursor = changed;
        self.deleted.remove(&name);
        self.variables.insert(name.clone(), variable);
        Ok(ChangeOutcome { version, stale: self.mark_dependents_stale(&name) })
    }

    /// `None` if there is no such variable.
    pub(crate) fn delete(&mut self, name: &str) -> Option<ChangeOutcome> {
        let (name, variable) = self.variables.remove_entry(name)?;
        self.cursor = self.cursor.saturating_add(1);
        self.deleted.insert(name.clone(), DeletedVariable { version: variable.version, deleted_cursor: self.cursor });
        if self.deleted.len() > MAX_DELETED
            && let Some(oldest) =
                self.deleted.iter().min_by_key(|(_, deleted)| deleted.deleted_cursor).map(|(name, _)| name.clone())
            && let Some(evicted) = self.deleted.remove(&oldest)
        {
            self.oldest_complete_cursor = self.oldest_complete_cursor.max(evicted.deleted_cursor);
        }
        Some(ChangeOutcome { version: variable.version, stale: self.mark_dependents_stale(&name) })
    }

    /// Changes after `since` to variables whose names match; 0 is before everything.
    pub(crate) fn changes(&self, names: &[Glob], since: u64) -> WatchUpdate {
        let is_watched = |name: &str| names.is_empty() || names.iter().any(|glob| glob.matches(name));
        let (cursor, from_the_beginning) = (self.cursor, since == 0);
        // A cursor past the last change belongs to another set.
        let reset = !from_the_beginning && (since < self.oldest_complete_cursor || since > cursor);
        let since = if reset { 0 } else { since };
        let mut found: Vec<(u64, VariableChange)> = self
            .variables
            .iter()
            .filter(|(name, variable)| variable.changed_cursor > since && is_watched(name))
            .map(|(name, variable)| (variable.changed_cursor, variable_change(name, variable)))
            .collect();
        if since > 0 {
            let deleted =
                self.deleted.iter().filter(|(name, deleted)| deleted.deleted_cursor > since && is_watched(name));
            found.extend(deleted.map(|(name, deleted)| {
                let DeletedVariable { version, deleted_cursor: changed } = *deleted;
                (changed, VariableChange { name: name.clone(), version, value: None, deleted: true, stale: false })
            }));
        }
        found.sort_by(|(left, one), (right, other)| (left, &one.name).cmp(&(right, &other.name)));
        let mut remaining_bytes = MAX_WATCH_BYTES;
        let fit = |(_, mut change): (u64, VariableChange)| {
            let bytes = self.variables.get(&change.name).map_or(0, |variable| variable.bytes);
            if change.value.is_some() {
                match remaining_bytes.checked_sub(bytes) {
                    Some(remaining) => remaining_bytes = remaining,
                    None => change.value = None,
                }
            }
            change
        };
        WatchUpdate { changes: found.into_iter().map(fit).collect(), cursor, reset }
    }

    /// The approximate size in memory.
    pub(crate) fn total_bytes(&self) -> usize {
        self.variables.iter().map(|(name, variable)| weight(name, variable)).sum()
    }

    fn check_version(&self, name: &str, expected: Option<u64>) -> Result<(), String> {
        let Some(expected) = expected else { return Ok(()) };
        match self.variables.get(name).map(|variable| variable.version) {
            Some(version) if version == expected => Ok(()),
            Some(version) => Err(format!("`{name}` is at version {version}, not {expected}")),
            None if expected == 0 => Ok(()),
            None => Err(format!("no variable is named `{name}`, so it is not at version {expected}")),
        }
    }

    /// The dependency through which the variable would come to depend on itself, if any.
    fn find_cycle<'a>(&self, name: &str, depends_on: &'a [Arc<str>]) -> Option<&'a Arc<str>> {
        depends_on.iter().find(|&first| {
            let mut seen: BTreeSet<&str> = BTreeSet::new();
            let mut pending: Vec<&str> = vec![first];
            while let Some(next) = pending.pop() {
                if next == name {
                    return true;
                }
                if seen.insert(next) {
                    let known = self.variables.get(next);
                    pending.extend(known.iter().flat_map(|variable| variable.depends_on.iter().map(|name| &**name)));
                }
            }
            false
        })
    }

    /// Marks all direct and indirect dependents stale, as part of the last change, and returns them.
    fn mark_dependents_stale(&mut self, name: &Arc<str>) -> Vec<Arc<str>> {
        let mut dependents: HashMap<&str, Vec<&Arc<str>>> = HashMap::new();
        for (dependent, variable) in &self.variables {
            for needed in variable.depends_on.iter() {
                dependents.entry(needed).or_default().push(dependent);
            }
        }
        let mut found: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut pending = vec![name.clone()];
        while let Some(next) = pending.pop() {
            for &dependent in dependents.get(&*next).into_iter().flatten() {
                if found.insert(dependent.clone()) {
                    pending.push(dependent.clone());
                }
            }
        }
        for dependent in &found {
            if let Some(variable) = self.variables.get_mut(dependent)
                && !variable.is_stale
            {
                variable.is_stale = true;
                variable.changed_cursor = self.cursor;
            }
        }
        found.into_iter().collect()
    }
}

fn variable_change(name: &Arc<str>, variable: &Variable) -> VariableChange {
    let Variable { value, version, is_stale, .. } = variable;
    VariableChange {
        name: name.clone(),
        version: *version,
        value: Some(value.clone()),
        deleted: false,
        stale: *is_stale,
    }
}

fn weight(name: &str, variable: &Variable) -> usize {
    name.len() + variable.bytes + variable.depends_on.iter().map(|name| name.len()).sum::<usize>()
}

pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let mut characters = name.chars();
    let first = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let rest = characters.all(|other| other.is_ascii_alphanumeric() || matches!(other, '_' | '.' | '-'));
    if first && rest && name.len() <= MAX_NAME {
        return Ok(());
    }
    let shown = cut(name, MAX_NAME);
    Err(format!(
        "`{shown}` cannot be the name of a variable: it has letters, digits, `_`, `.` and `-`, begins with a letter or \
         `_`, and has at most {MAX_NAME} characters"
    ))
}

/// The length of the value as JSON text, if it is acceptable.
pub(crate) fn value_bytes(value: &Value) -> Result<usize, String> {
    if exceeds_depth(value, MAX_DEPTH) {
        return Err(format!("the value is nested too deeply: at most {MAX_DEPTH} levels are kept"));
    }
    match value.to_string().len() {
        bytes if bytes > MAX_VALUE => {
            Err(format!("the value is too long: {bytes} bytes, at most {MAX_VALUE} are kept"))
        }
        bytes => Ok(bytes),
    }
}

fn exceeds_depth(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| exceeds_depth(item, below)),
        Value::Object(fields) => fields.values().any(|field| exceeds_depth(field, below)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn distinct_names(names: Vec<Arc<str>>) -> Result<Vec<Arc<str>>, String> {
    let names: BTreeSet<Arc<str>> = names.into_iter().collect();
    if names.len() > MAX_DEPENDENCIES {
        return Err(format!("a variable depends on at most {MAX_DEPENDENCIES} others"));
    }
    for name in &names {
        check_name(name)?;
    }
    Ok(names.into_iter().collect())
}

#[cfg(test)]
mod tests;
