//! The `variable_*` tools. They work on the session of the call; arguments cannot name another one.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_core::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{VariableError, VariableStore};
use crate::model::ToolCall;
use crate::port::ToolHost;
use crate::port::ToolScope;
use crate::tool::{Glob, ToolEffect, ToolKind, ToolOutput, ToolSpec, UnknownOutcomePolicy};
use crate::variable_set::{
    ChangeOutcome, MAX_DEPENDENCIES, MAX_NAME, SetVariable, Variable, VariableChange, WatchUpdate,
};

const KIND: ToolKind = ToolKind::BuiltIn;
const SET: &str = "variable_set";
const GET: &str = "variable_get";
const DELETE: &str = "variable_delete";
const LIST: &str = "variable_list";
const WATCH: &str = "variable_watch";

/// Most patterns of one watch.
const MAX_PATTERNS: usize = 64;
/// How long a watch waits: by default, and at most.
const DEFAULT_WAIT_MS: u64 = 30_000;
const MAX_WAIT_MS: u64 = 60_000;
/// Above the longest wait, so that the call's own timeout never ends one.
const WATCH_TIMEOUT: Duration = Duration::from_secs(75);

#[derive(Debug)]
pub(crate) struct VariableToolHost(pub(crate) VariableStore);

/// Always the same list, so that callers may compare pointers.
static SPECS: LazyLock<Arc<[ToolSpec]>> = LazyLock::new(|| [set(), get(), delete(), list(), watch()].into());

impl ToolHost for VariableToolHost {
    fn kind(&self) -> ToolKind {
        KIND
    }

    fn tools(&self, _folder: Option<&Path>) -> Arc<[ToolSpec]> {
        SPECS.clone()
    }

    fn is_for_programs(&self) -> bool {
        true
    }

    fn call<'a>(
        &'a self,
        scope: &'a ToolScope,
        call: &'a ToolCall,
        arguments: &'a Value,
        stop: CancellationToken,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match self.execute(scope, &call.name, arguments, &stop).await {
                Ok(value) => ToolOutput::json(&value),
                Err(VariableError::Rejected(reason)) => ToolOutput::error(reason),
                Err(VariableError::Store(error)) => {
                    tracing::error!(tool.name = %call.name, %error, "a tool could not use the store");
                    ToolOutput::error(format!("{} failed: storage: {error}", call.name))
                }
            }
        })
    }
}

impl VariableToolHost {
    async fn execute(
        &self,
        scope: &ToolScope,
        tool: &str,
        arguments: &Value,
        stop: &CancellationToken,
    ) -> Result<Value, VariableError> {
        let Self(variables) = self;
        let session = &scope.session;
        match tool {
            SET => {
                let request = parse_set(arguments)?;
                let name = request.name.clone();
                let ChangeOutcome { version, stale } = variables.set(session, request).await?;
                Ok(json!({"name": name, "version": version, "stale": stale}))
            }
            GET => {
                let name = parse_name(arguments)?;
                let found = variables.get(session, name).await?;
                let variable = found.ok_or_else(|| VariableError::Rejected(format!("no variable is named {name}")))?;
                let Variable { value, version, updated_at, depends_on, is_stale, .. } = variable;
                Ok(json!({
                    "name": name,
                    "value": *value,
                    "version": version,
                    "updated_at": updated_at.to_string(),
                    "depends_on": *depends_on,
                    "stale": is_stale
                }))
            }
            DELETE => {
                let name = parse_name(arguments)?;
                let outcome = variables.delete(session, name).await?;
                let is_deleted = outcome.is_some();
                let stale = outcome.map(|outcome| outcome.stale).unwrap_or_default();
                Ok(json!({"name": name, "deleted": is_deleted, "stale": stale}))
            }
            LIST => {
                let prefix = arguments.get("prefix").and_then(Value::as_str).unwrap_or_default();
                let listed = variables.list(session, prefix).await?.into_iter().map(|(name, variable)| {
                    let Variable { version, depends_on, is_stale, .. } = variable;
                    json!({"name": name, "version": version, "stale": is_stale, "depends_on": *depends_on})
                });
                Ok(json!({"variables": listed.collect::<Vec<Value>>()}))
            }
            WATCH => {
                let names: Vec<Glob> =
                    parse_texts(arguments, "names")?.unwrap_or_default().into_iter().map(Glob::new).collect();
                let since = arguments.get("since").and_then(Value::as_u64);
                let max_wait = arguments.get("timeout_ms").and_then(Value::as_u64).unwrap_or(DEFAULT_WAIT_MS);
                let max_wait = Duration::from_millis(max_wait.min(MAX_WAIT_MS));
                let update = variables.watch(session, &names, since, max_wait, stop).await?;
                Ok(watch_json(update))
            }
            unknown => Err(VariableError::Rejected(format!("unknown tool: {unknown}"))),
        }
    }
}

fn parse_set(arguments: &Value) -> Result<SetVariable, VariableError> {
    let value = arguments.get("value").ok_or_else(|| VariableError::Rejected("`value` must be given".to_owned()))?;
    Ok(SetVariable {
        name: parse_name(arguments)?.into(),
        value: Arc::new(value.clone()),
        depends_on: parse_texts(arguments, "depends_on")?,
        if_version: arguments.get("if_version").and_then(Value::as_u64),
    })
}

fn parse_name(arguments: &Value) -> Result<&str, VariableError> {
    arguments
        .get("name")
        .and_then(Value::as_str)
        .ok_or_else(|| VariableError::Rejected("`name` must be a text".to_owned()))
}

fn parse_texts(arguments: &Value, name: &str) -> Result<Option<Vec<Arc<str>>>, VariableError> {
    let Some(given) = arguments.get(name).filter(|given| !given.is_null()) else { return Ok(None) };
    let texts = given.as_array().and_then(|items| items.iter().map(|item| item.as_str().map(Arc::from)).collect());
    texts.map(Some).ok_or_else(|| VariableError::Rejected(format!("`{name}` must be a list of texts")))
}

fn watch_json(update: WatchUpdate) -> Value {
    let WatchUpdate { changes, cursor, reset } = update;
    let one = |change: VariableChange| {
        let VariableChange { name, version, value, deleted, stale } = change;
        let mut fields = Map::new();
        fields.insert("name".to_owned(), json!(name));
        fields.insert("version".to_owned(), version.into());
        if let Some(value) = value {
            fields.insert("value".to_owned(), Value::clone(&value));
        }
        fields.insert("deleted".to_owned(), deleted.into());
        fields.insert("stale".to_owned(), stale.into());
        Value::Object(fields)
    };
    let mut answer = Map::new();
    answer.insert("changes".to_owned(), changes.into_iter().map(one).collect());
    answer.insert("cursor".to_owned(), cursor.into());
    if reset {
        answer.insert("reset".to_owned(), true.into());
    }
    Value::Object(answer)
}

fn set() -> ToolSpec {
    let description = "Keep a value under a name in this session. It outlives restarts. With `depends_on` it is marked \
                       stale when one of those changes, until it is set again; left out, it depends on what it did \
                       before. With `if_version` it is set only if it is at that version (0: only if it is new).";
    let properties = json!({
        "name": name_schema(),
        "value": {"description": "Any JSON, at most 256 KiB."},
        "depends_on": {"type": "array", "items": name_schema(), "maxItems": MAX_DEPENDENCIES},
        "if_version": {"type": "integer", "minimum": 0}
    });
    spec(SET, description, ToolEffect::Writes, properties, &["name", "value"])
}

fn get() -> ToolSpec {
    let description = "Read a variable of this session: its value, its version and whether it is stale.";
    spec(GET, description, ToolEffect::ReadOnly, json!({"name": name_schema()}), &["name"])
}

fn delete() -> ToolSpec {
    let description = "Delete a variable of this session. What depends on it becomes stale.";
    spec(DELETE, description, ToolEffect::Writes, json!({"name": name_schema()}), &["name"])
}

fn list() -> ToolSpec {
    let description = "List the variables of this session, without their values.";
    let properties = json!({"prefix": {"type": "string", "maxLength": MAX_NAME}});
    spec(LIST, description, ToolEffect::ReadOnly, properties, &[])
}

fn watch() -> ToolSpec {
    let description = "Wait for variables of this session to change and hear what changed. Give the `cursor` of one \
                       answer as `since` to the next and nothing is missed; 0 is the beginning. With `reset` the \
                       answer holds all there is, because too much was missed. A value that does not fit is left out.";
    let properties = json!({
        "names": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
            "maxItems": MAX_PATTERNS,
            "description": "Names, with `*` and `?` as wildcards; all when left out."
        },
        "since": {"type": "integer", "minimum": 0, "description": "Left out: from now on."},
        "timeout_ms": {
            "type": "integer",
            "minimum": 0,
            "maximum": MAX_WAIT_MS,
            "description": format!("How long to wait; {DEFAULT_WAIT_MS} by default.")
        }
    });
    let spec = spec(WATCH, description, ToolEffect::ReadOnly, properties, &[]);
    ToolSpec { timeout: Some(WATCH_TIMEOUT), ..spec }
}

fn name_schema() -> Value {
    json!({"type": "string", "pattern": format!("^[A-Za-z_][A-Za-z0-9_.-]{{0,{}}}$", MAX_NAME - 1)})
}

fn spec(name: &str, description: &str, effect: ToolEffect, properties: Value, required: &[&str]) -> ToolSpec {
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false
    });
    ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema: Arc::new(schema),
        effect,
        // A repeated set only increases the version.
        unknown_outcome: UnknownOutcomePolicy::Retry,
        timeout: None,
        kind: KIND,
        traits: None,
    }
}

#[cfg(test)]
mod tests;
