//! Reads a server's `tools/list`, page by page and within bounds; invalid tools are dropped one by one.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::tool::{ToolEffect, ToolKind, ToolSpec, UnknownOutcomePolicy};
use serde_json::{Value, json};

use crate::text::clipped;

/// Further tools are dropped with a warning.
pub(super) const MAX_TOOLS: usize = 500;
/// Size of all tools together, as JSON.
pub(super) const MAX_BYTES: usize = 1024 * 1024;
/// Bounds servers that return cursors endlessly.
pub(super) const MAX_PAGES: usize = 100;
const MAX_NAME: usize = 128;
const KIND: ToolKind = ToolKind::Mcp;
const TIMEOUT_MARGIN: Duration = Duration::from_secs(1);

/// A tool as the server describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListedTool {
    /// The server's own name of the tool.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input_schema: Value,
    pub(crate) read_only: bool,
    pub(crate) idempotent: bool,
}

/// Collects pages of `tools/list` until the list ends or a bound is reached.
#[derive(Debug)]
pub(super) struct ToolListReader<'a> {
    server: &'a str,
    tools: Vec<ListedTool>,
    names: HashSet<String>,
    bytes: usize,
    pages: usize,
    cursors: HashSet<String>,
}

/// What to do after a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListStep {
    Page(String),
    Done,
}

impl<'a> ToolListReader<'a> {
    pub(super) fn new(server: &'a str) -> Self {
        Self { server, tools: Vec::new(), names: HashSet::new(), bytes: 0, pages: 0, cursors: HashSet::new() }
    }

    /// Fails if the page is not a list of tools at all.
    pub(super) fn add_page(&mut self, page: &Value) -> Result<ListStep, &'static str> {
        let tools = page.get("tools").and_then(Value::as_array).ok_or("`tools/list` was answered without `tools`")?;
        self.pages += 1;
        for tool in tools {
            let size = tool.to_string().len();
            if self.tools.len() >= MAX_TOOLS || self.bytes + size > MAX_BYTES {
                tracing::warn!(
                    mcp.server = self.server,
                    "it offers more than {MAX_TOOLS} tools or {MAX_BYTES} bytes; the rest is left out"
                );
                return Ok(ListStep::Done);
            }
            match self.parse_tool(tool) {
                Ok(tool) => {
                    self.bytes += size;
                    self.names.insert(qualified_name(self.server, &tool.name));
                    self.tools.push(tool);
                }
                Err(reason) => {
                    let name = tool.get("name").and_then(Value::as_str).unwrap_or("without a name");
                    let name = clipped(&name.escape_debug(), MAX_NAME);
                    tracing::warn!(mcp.server = self.server, "its tool `{name}` is not offered: {reason}");
                }
            }
        }
        let Some(cursor) = page.get("nextCursor").and_then(Value::as_str) else { return Ok(ListStep::Done) };
        if self.pages >= MAX_PAGES || !self.cursors.insert(cursor.to_owned()) {
            tracing::warn!(mcp.server = self.server, "its list of tools does not end; the rest is left out");
            return Ok(ListStep::Done);
        }
        Ok(ListStep::Page(cursor.to_owned()))
    }

    pub(super) fn finish(self) -> Vec<ListedTool> {
        self.tools
    }

    fn parse_tool(&self, tool: &Value) -> Result<ListedTool, &'static str> {
        let name = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()).ok_or("it has no name")?;
        if self.names.contains(&qualified_name(self.server, name)) {
            return Err("another one has that name");
        }
        let input_schema = tool.get("inputSchema").ok_or("it has no `inputSchema`")?;
        let fields = input_schema.as_object().ok_or("its `inputSchema` is not an object")?;
        if fields.get("type").is_some_and(|kind| kind != "object") {
            return Err("its `inputSchema` is not of an object");
        }
        let hint = |name: &str| tool.get("annotations").and_then(|hints| hints.get(name)).and_then(Value::as_bool);
        Ok(ListedTool {
            name: name.to_owned(),
            description: tool.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
            input_schema: input_schema.clone(),
            read_only: hint("readOnlyHint") == Some(true),
            idempotent: hint("idempotentHint") == Some(true),
        })
    }
}

impl ListedTool {
    /// The spec shown to agents. The host itself ends a call after `call_timeout`; the spec's timeout is longer, so
    /// that the tool executor receives the host's error.
    pub(super) fn spec(&self, server: &str, call_timeout: Duration) -> ToolSpec {
        let mut schema = self.input_schema.clone();
        if let Some(fields) = schema.as_object_mut() {
            fields.entry("type").or_insert_with(|| json!("object"));
        }
        ToolSpec {
            name: qualified_name(server, &self.name).into(),
            description: self.description.as_str().into(),
            input_schema: Arc::new(schema),
            effect: if self.read_only { ToolEffect::ReadOnly } else { ToolEffect::Writes },
            unknown_outcome: if self.read_only || self.idempotent {
                UnknownOutcomePolicy::Retry
            } else {
                UnknownOutcomePolicy::Ask
            },
            timeout: Some(call_timeout + TIMEOUT_MARGIN),
            kind: KIND,
            traits: None,
        }
    }
}

/// `server.tool`, limited to `[A-Za-z0-9_.-]{1,128}`; any other character becomes `_`.
pub(super) fn qualified_name(server: &str, tool: &str) -> String {
    let plain = |character: char| match character {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '.' | '-' => character,
        _ => '_',
    };
    server.chars().chain(std::iter::once('.')).chain(tool.chars()).map(plain).take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests;
