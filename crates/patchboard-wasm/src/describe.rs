//! Converts a plugin's tool descriptions to tool specs, or explains what is wrong with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::plugin::PLUGIN_METADATA_KEY;
use patchboard_core::tool::{ToolEffect, ToolKind, ToolSpec, ToolTraits, UnknownOutcomePolicy};
use serde_json::Value;

use crate::text::quote_untrusted;
use crate::world::exports::patchboard::plugin::tools::Tool;

const MAX_TOOLS: usize = 64;
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 4 * 1024;
const MAX_SCHEMA: usize = 64 * 1024;
/// Added to the call's own time limit, so that the plugin's error is reported instead of the server's timeout.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);

/// Properties common to all tools of a plugin.
#[derive(Debug, Clone)]
pub(crate) struct DescribeContext<'a> {
    pub(crate) plugin: &'a str,
    /// A plugin without grants cannot change anything, whatever it declares.
    pub(crate) has_grants: bool,
    pub(crate) time: Duration,
}

/// `Err` is the reason to refuse the plugin.
pub(crate) fn specs(tools: Vec<Tool>, offered: &DescribeContext<'_>) -> Result<Arc<[ToolSpec]>, String> {
    if tools.len() > MAX_TOOLS {
        return Err(format!("describes {} tools, more than {MAX_TOOLS}", tools.len()));
    }
    let traits = Arc::new(ToolTraits {
        metadata: BTreeMap::from([(PLUGIN_METADATA_KEY.to_owned(), offered.plugin.to_owned())]),
        ..ToolTraits::default()
    });
    let mut names = BTreeSet::new();
    let mut specs = Vec::with_capacity(tools.len());
    for tool in tools {
        let spec = spec(tool, offered, &traits)?;
        if !names.insert(spec.name.clone()) {
            return Err(format!("describes two tools called `{}`", spec.name));
        }
        specs.push(spec);
    }
    Ok(specs.into())
}

fn spec(tool: Tool, offered: &DescribeContext<'_>, traits: &Arc<ToolTraits>) -> Result<ToolSpec, String> {
    let Tool { name, description, input_schema, read_only } = tool;
    check_name(&name)?;
    match description.len() {
        0 => return Err(format!("tool `{name}` has no description")),
        1..=MAX_DESCRIPTION => {}
        _ => return Err(format!("the description of tool `{name}` is longer than {MAX_DESCRIPTION} bytes")),
    }
    if input_schema.len() > MAX_SCHEMA {
        return Err(format!("the schema of tool `{name}` is longer than {MAX_SCHEMA} bytes"));
    }
    let schema: Value = serde_json::from_str(&input_schema)
        .map_err(|error| format!("the schema of tool `{name}` is not JSON: {error}"))?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(format!("the schema of tool `{name}` is not of \"type\": \"object\""));
    }
    let effect = match read_only || !offered.has_grants {
        true => ToolEffect::ReadOnly,
        false => ToolEffect::Writes,
    };
    Ok(ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema: Arc::new(schema),
        effect,
        unknown_outcome: match effect {
            ToolEffect::ReadOnly => UnknownOutcomePolicy::Retry,
            ToolEffect::Writes => UnknownOutcomePolicy::Ask,
        },
        timeout: Some(offered.time.saturating_add(TIMEOUT_GRACE)),
        kind: ToolKind::Plugin,
        traits: Some(traits.clone()),
    })
}

fn check_name(name: &str) -> Result<(), String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(allowed) {
        true => Ok(()),
        false => {
            let shown = quote_untrusted(name);
            Err(format!("`{shown}` is no name for a tool: letters, digits, `_` and `-`, at most {MAX_NAME}"))
        }
    }
}

#[cfg(test)]
mod tests;
