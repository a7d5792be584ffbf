//! May this tool run without asking a person?

use crate::caller::Surface;
use crate::tool::{Glob, ToolEffect, ToolKind, ToolSpec};

/// Later is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApprovalMode {
    Allow,
    Ask,
    Deny,
}

/// The operator's rules, then the defaults.
#[derive(Debug, Clone, Default)]
pub struct ApprovalPolicy {
    pub rules: Vec<(Glob, ApprovalMode)>,
}

impl ApprovalPolicy {
    /// The most specific rule wins, a tie goes to the stricter. Without a rule, what the tool does and where the
    /// request came from decide.
    pub fn decide(&self, tool: &ToolSpec, surface: Surface) -> ApprovalMode {
        let matching = self.rules.iter().filter(|(glob, _)| glob.matches(&tool.name));
        let best = matching.max_by_key(|(glob, approval)| (glob.specificity(), *approval));
        match (best, tool.effect, surface) {
            (Some((_, approval)), _, _) => *approval,
            (None, ToolEffect::ReadOnly, _) => ApprovalMode::Allow,
            // Each of its calls is judged by itself.
            (None, ToolEffect::Writes, _) if tool.is_batch() => ApprovalMode::Allow,
            (None, ToolEffect::Writes, surface) if is_agent_tool(tool) => match surface {
                Surface::Webhook | Surface::Hub => ApprovalMode::Deny,
                // Programs see only what is exposed to them; people, what their agents do.
                Surface::Gateway | Surface::Runs | Surface::Bridge | Surface::Mcp | Surface::Cli => ApprovalMode::Allow,
            },
            (None, ToolEffect::Writes, Surface::Runs | Surface::Cli) => ApprovalMode::Allow,
            (None, ToolEffect::Writes, Surface::Gateway | Surface::Mcp) => ApprovalMode::Ask,
            (None, ToolEffect::Writes, Surface::Webhook | Surface::Hub) => ApprovalMode::Deny,
            // Programs call each other's tools: that is what they are connected for. Which of the server's own tools
            // they see at all is decided before this.
            (None, ToolEffect::Writes, Surface::Bridge)
                if tool.kind == ToolKind::Worker || is_open_to_programs(tool) =>
            {
                ApprovalMode::Allow
            }
            (None, ToolEffect::Writes, Surface::Bridge) => ApprovalMode::Ask,
        }
    }
}

/// Is it an agent, each of whose own calls is judged by itself?
pub fn is_agent_tool(tool: &ToolSpec) -> bool {
    tool.kind == ToolKind::Agent
}

/// The server's own tools that every program is offered: what only looks, and what keeps to the caller's own session
/// and memory or speaks to the user's apps.
pub fn is_open_to_programs(tool: &ToolSpec) -> bool {
    const AND_THESE: [&str; 5] = ["hub_send", "remember", "todo_write", "variable_set", "variable_delete"];
    // Others may have a tool of such a name where the server's own is switched off.
    let is_own = matches!(tool.kind, ToolKind::BuiltIn | ToolKind::App);
    tool.kind != ToolKind::Worker
        && (tool.effect == ToolEffect::ReadOnly || (is_own && AND_THESE.contains(&&*tool.name)))
}

#[cfg(test)]
mod tests;
