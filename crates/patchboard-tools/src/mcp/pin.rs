//! Pins of approved tools: a hash of each tool's definition when it was approved. A tool whose definition has changed
//! since is no longer approved.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use patchboard_core::error::BoxError;
use patchboard_core::extensions::{ToolChangeReport, ToolText};
use patchboard_core::text::cut_with_mark;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::tool_list::ListedTool;

/// Bytes of a description and of a schema that are kept with a pin; the rest is cut, and counts by its hash only.
const MAX_DESCRIPTION: usize = 4 * 1024;
const MAX_SCHEMA: usize = 8 * 1024;

/// Stores the pins. Keys are names of servers.
pub trait PinStore: Send + Sync + fmt::Debug {
    /// `None` if the server never had approved tools.
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<ToolPins>, BoxError>>;
    fn save<'a>(&'a self, server: &'a str, pins: ToolPins) -> BoxFuture<'a, Result<(), BoxError>>;
}

/// The approved tools of one server, by the server's own names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPins(pub BTreeMap<String, ToolPin>);

/// Hashes of a tool's approved definition. `tool` decides; the others only show which part differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPin {
    pub tool: String,
    pub description: String,
    pub input_schema: String,
    pub hints: String,
    /// What was approved, to be shown beside what replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<PinnedText>,
}

/// The readable part of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedText {
    pub description: String,
    pub input_schema: String,
}

/// Why a tool waits for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChange {
    /// It did not exist when the server was approved.
    New,
    /// The parts that differ: `description`, `inputSchema`, `annotations`.
    Changed(Vec<&'static str>),
}

impl fmt::Display for ToolChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("is new"),
            Self::Changed(parts) => write!(f, "has another {}", parts.join(" and another ")),
        }
    }
}

impl ToolPins {
    pub(crate) fn from_tools(tools: &[ListedTool]) -> Self {
        Self(tools.iter().map(|tool| (tool.name.clone(), ToolPin::from_tool(tool))).collect())
    }

    /// `None` if the tool matches its pin.
    pub(crate) fn change(&self, tool: &ListedTool) -> Option<ToolChange> {
        let Some(approved) = self.0.get(&tool.name) else { return Some(ToolChange::New) };
        let current = ToolPin::from_tool(tool);
        if current.tool == approved.tool {
            return None;
        }
        let parts = [
            ("description", current.description != approved.description),
            ("inputSchema", current.input_schema != approved.input_schema),
            ("annotations", current.hints != approved.hints),
        ];
        Some(ToolChange::Changed(parts.into_iter().filter(|(_, differs)| *differs).map(|(part, _)| part).collect()))
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, BoxError> {
        Ok(serde_json::to_vec(self)?)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BoxError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

impl ToolPin {
    /// The hints are included because they decide whether a person is asked before the tool runs.
    fn from_tool(tool: &ListedTool) -> Self {
        let description = json!(tool.description);
        let hints = json!({ "readOnlyHint": tool.read_only, "idempotentHint": tool.idempotent });
        let whole = json!({
            "name": tool.name,
            "description": description,
            "inputSchema": tool.input_schema,
            "annotations": hints,
        });
        Self {
            tool: hash(&whole),
            description: hash(&description),
            input_schema: hash(&tool.input_schema),
            hints: hash(&hints),
            text: Some(PinnedText::from_tool(tool)),
        }
    }
}

impl PinnedText {
    fn from_tool(tool: &ListedTool) -> Self {
        Self {
            description: cut_with_mark(&tool.description, MAX_DESCRIPTION).into_owned(),
            input_schema: cut_with_mark(&tool.input_schema.to_string(), MAX_SCHEMA).into_owned(),
        }
    }

    fn into_report(self) -> ToolText {
        ToolText { description: self.description, input_schema: self.input_schema }
    }
}

/// The tools that differ from their pins. `offered_name` is the name under which agents would call a tool.
pub(crate) fn tool_changes(
    server: &Arc<str>,
    listed: &[ListedTool],
    pins: &ToolPins,
    offered_name: impl Fn(&str) -> Arc<str>,
) -> Vec<ToolChangeReport> {
    let report = |tool: &ListedTool| {
        let change = pins.change(tool)?;
        Some(ToolChangeReport {
            server: server.clone(),
            tool: offered_name(&tool.name),
            changed: match change {
                ToolChange::New => Vec::new(),
                ToolChange::Changed(parts) => parts,
            },
            before: pins.0.get(&tool.name).and_then(|pin| pin.text.clone()).map(PinnedText::into_report),
            now: PinnedText::from_tool(tool).into_report(),
        })
    };
    listed.iter().filter_map(report).collect()
}

/// SHA-256 of the canonical form, in hexadecimal.
fn hash(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    hex::encode(Sha256::digest(text.as_bytes()))
}

/// JSON without whitespace and with sorted keys, so that the order in which a server sends them does not matter.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            out.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

/// Pins that are kept only in memory.
#[derive(Debug, Default)]
pub struct MemoryPins(Mutex<HashMap<String, ToolPins>>);

impl PinStore for MemoryPins {
    fn load<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<ToolPins>, BoxError>> {
        let pins = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned();
        Box::pin(std::future::ready(Ok(pins)))
    }

    fn save<'a>(&'a self, server: &'a str, pins: ToolPins) -> BoxFuture<'a, Result<(), BoxError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(server.to_owned(), pins);
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests;
