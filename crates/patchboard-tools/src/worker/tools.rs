//! Tools offered by workers, within bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchboard_core::text::cut;
use patchboard_core::tool::ToolSpec;
use patchboard_core::worker::WorkerTool;

use patchboard_proto::limits::MAX_TOOL_PARAMETERS;
use patchboard_proto::parameters::schema_of;
use patchboard_proto::pb;

/// Further tools are dropped.
pub(super) const MAX_TOOLS: usize = 1000;
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 16 * 1024;
const MAX_METADATA: usize = 32;
const MAX_METADATA_BYTES: usize = 4096;

/// The tools of a pool: those of its newest worker. Kept while there is no worker, since calls may queue for one.
#[derive(Debug)]
pub(super) struct OfferedTools {
    tools: Vec<WorkerTool>,
    /// The same allocation as long as nothing changes.
    specs: Arc<[ToolSpec]>,
}

impl Default for OfferedTools {
    fn default() -> Self {
        Self { tools: Vec::new(), specs: Arc::new([]) }
    }
}

impl OfferedTools {
    pub(super) fn specs(&self) -> &Arc<[ToolSpec]> {
        &self.specs
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| &*tool.name == name)
    }

    /// Returns true if anything changed.
    pub(super) fn replace(&mut self, tools: &[WorkerTool]) -> bool {
        if self.tools == tools {
            return false;
        }
        self.tools = tools.to_vec();
        self.specs = tools.iter().map(WorkerTool::spec).collect();
        true
    }

    /// Adds the tools that are new. Returns true if there were any.
    pub(super) fn add(&mut self, tools: &[WorkerTool]) -> bool {
        let tools = merged(&self.tools, tools);
        self.replace(&tools)
    }

    /// Finds a tool by its own name, or by its name with the pool as prefix.
    pub(super) fn find(&self, pool: &str, name: &str) -> Option<&ToolSpec> {
        let named = |name: &str| self.specs.iter().find(|spec| &*spec.name == name);
        named(name).or_else(|| named(name.strip_prefix(pool)?.strip_prefix('.')?))
    }
}

/// The valid tools, sorted by name. Why others are invalid is logged.
pub(super) fn validated(pool: &str, offered: BTreeMap<String, pb::ToolSpec>) -> Vec<WorkerTool> {
    if offered.len() > MAX_TOOLS {
        tracing::warn!(pool, "its workers offer more than {MAX_TOOLS} tools; the rest is left out");
    }
    let parsed = offered.into_iter().take(MAX_TOOLS).filter_map(|(key, tool)| match parse_tool(&key, tool) {
        Ok(tool) => Some(tool),
        Err(reason) => {
            let name = crate::text::clipped(&key.escape_debug(), MAX_NAME);
            tracing::warn!(pool, "the tool `{name}` of its workers is not offered: {reason}");
            None
        }
    });
    sorted(parsed.collect())
}

/// Known tools are kept unchanged.
pub(super) fn merged(known: &[WorkerTool], added: &[WorkerTool]) -> Vec<WorkerTool> {
    let is_new = |tool: &&WorkerTool| !known.iter().any(|known| known.name == tool.name);
    let remaining = MAX_TOOLS.saturating_sub(known.len());
    sorted(known.iter().chain(added.iter().filter(is_new).take(remaining)).cloned().collect())
}

/// Makes lists with the same tools equal, whatever their order.
pub(super) fn sorted(mut tools: Vec<WorkerTool>) -> Vec<WorkerTool> {
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    tools.dedup_by(|later, earlier| later.name == earlier.name);
    tools.truncate(MAX_TOOLS);
    tools
}

fn parse_tool(key: &str, tool: pb::ToolSpec) -> Result<WorkerTool, &'static str> {
    let name = if tool.name.is_empty() { key } else { tool.name.trim() };
    if !is_name(name) {
        return Err("a name has 1 to 64 letters, digits, `_`, `.` and `-`, and begins with a letter or digit");
    }
    if tool.parameters.len() > MAX_TOOL_PARAMETERS {
        return Err("it has more than 256 parameters");
    }
    let size: usize = tool.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if tool.metadata.len() > MAX_METADATA || size > MAX_METADATA_BYTES {
        return Err("its metadata has more than 32 entries or 4,096 bytes");
    }
    Ok(WorkerTool {
        name: name.into(),
        description: cut(&tool.description, MAX_DESCRIPTION).into(),
        input_schema: Arc::new(schema_of(&tool.parameters)),
        parameters: tool.parameters.iter().map(|parameter| parameter.name.as_str().into()).collect(),
        streams: tool.supports_streaming,
        metadata: tool.metadata,
    })
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    name.len() <= MAX_NAME
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests;
