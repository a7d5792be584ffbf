//! Decides whether a tool may run without approval.

use crate::caller::Surface;
use crate::tool::{Glob, ToolEffect, ToolKind, ToolSpec};

/// Ordered by strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApprovalMode {
    Allow,
    Ask,
    Deny,
}

/// The operator's rules; defaults apply where none matches.
#[derive(Debug, Clone, Default)]
pub struct ApprovalPolicy {
    pub rules: Vec<(Glob, ApprovalMode)>,
}

impl ApprovalPolicy {
    /// The most specific rule wins, a tie goes to the stricter one. Without a rule, the tool's effect and the request's
    /// surface decide.
    pub fn decide(&self, tool: &ToolSpec, surface: Surface) -> ApprovalMode {
        self.explain(tool, surface).0
    }

    /// The decision and the rule that it follows; `None` for a default.
    pub fn explain(&self, tool: &ToolSpec, surface: Surface) -> (ApprovalMode, Option<&Glob>) {
        let matching = self.rules.iter().filter(|(glob, _)| glob.matches(&tool.name));
        let best = matching.max_by_key(|(glob, approval)| (glob.specificity(), *approval));
        match best {
            Some((glob, approval)) => (*approval, Some(glob)),
            None => (default_mode(tool, surface), None),
        }
    }
}

fn default_mode(tool: &ToolSpec, surface: Surface) -> ApprovalMode {
    match (tool.effect, surface) {
        (ToolEffect::ReadOnly, _) => ApprovalMode::Allow,
        // Each call of a batch is decided individually.
        (ToolEffect::Writes, _) if tool.is_batch() => ApprovalMode::Allow,
        (ToolEffect::Writes, surface) if is_agent_tool(tool) => match surface {
            Surface::Webhook | Surface::Hub => ApprovalMode::Deny,
            // Programs can call only the agents exposed to them, and people see what their agents do.
            Surface::Gateway | Surface::Runs | Surface::Bridge | Surface::Mcp | Surface::Cli => ApprovalMode::Allow,
        },
        (ToolEffect::Writes, Surface::Runs | Surface::Cli) => ApprovalMode::Allow,
        (ToolEffect::Writes, Surface::Gateway | Surface::Mcp) => ApprovalMode::Ask,
        (ToolEffect::Writes, Surface::Webhook | Surface::Hub) => ApprovalMode::Deny,
        // Programs are connected in order to call each other's tools. Which of the server's own tools they are
        // offered is decided earlier.
        (ToolEffect::Writes, Surface::Bridge) if tool.kind == ToolKind::Worker || is_open_to_programs(tool) => {
            ApprovalMode::Allow
        }
        (ToolEffect::Writes, Surface::Bridge) => ApprovalMode::Ask,
    }
}

/// Is the tool an agent, whose own calls are decided individually?
pub fn is_agent_tool(tool: &ToolSpec) -> bool {
    tool.kind == ToolKind::Agent
}

/// The server's own tools offered to every program: read-only ones, and those that change only the caller's own session
/// and memory or send to the user's apps.
pub fn is_open_to_programs(tool: &ToolSpec) -> bool {
    const OPEN_WRITING_TOOLS: [&str; 5] = ["hub_send", "remember", "todo_write", "variable_set", "variable_delete"];
    // Another host may have a tool of such a name where the server's own is disabled.
    let is_own = matches!(tool.kind, ToolKind::BuiltIn | ToolKind::App);
    tool.kind != ToolKind::Worker
        && (tool.effect == ToolEffect::ReadOnly || (is_own && OPEN_WRITING_TOOLS.contains(&&*tool.name)))
}

#[cfg(test)]
mod tests;
