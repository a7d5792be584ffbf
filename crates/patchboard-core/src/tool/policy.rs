//! Decides whether a tool may run without approval.

use std::fmt;
use std::sync::Arc;

use super::builtin::batch;
use super::{ToolEffect, ToolSpec};
use crate::access::Surface;
use crate::bridge::WORKER_KIND;
use crate::bridge::agents::AGENT_KIND;

/// `*` matches any run of characters, `?` any single one; all others match themselves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Glob(Arc<str>);

impl Glob {
    pub fn new(pattern: impl Into<Arc<str>>) -> Self {
        Self(pattern.into())
    }

    pub fn matches(&self, text: &str) -> bool {
        let (mut pattern, mut text) = (&*self.0, text);
        // The pattern after the last `*`, and the text it was last tried on: all that backtracking needs.
        let mut star: Option<(&str, &str)> = None;
        while let Some(character) = text.chars().next() {
            let wanted = pattern.chars().next();
            if wanted == Some('*') {
                pattern = skip_char(pattern, '*');
                star = Some((pattern, text));
            } else if let Some(wanted) = wanted.filter(|&wanted| wanted == '?' || wanted == character) {
                pattern = skip_char(pattern, wanted);
                text = skip_char(text, character);
            } else {
                let Some((after, swallowed)) = &mut star else { return false };
                // Let the last `*` consume one more character, then retry.
                *swallowed = swallowed.chars().next().map_or("", |first| skip_char(swallowed, first));
                (pattern, text) = (*after, *swallowed);
            }
        }
        pattern.chars().all(|character| character == '*')
    }

    /// Whether the pattern has no wildcard and so matches one name only.
    pub fn is_name(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Sort key: more literal characters are more specific; a pattern without wildcards is the most specific.
    fn specificity(&self) -> (bool, usize) {
        let literal = self.0.chars().filter(|&character| character != '*' && character != '?').count();
        (self.is_name(), literal)
    }
}

/// `text` without its first character.
fn skip_char(text: &str, first: char) -> &str {
    text.get(first.len_utf8()..).unwrap_or_default()
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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
        let matching = self.rules.iter().filter(|(glob, _)| glob.matches(&tool.name));
        let best = matching.max_by_key(|(glob, approval)| (glob.specificity(), *approval));
        match (best, tool.effect, surface) {
            (Some((_, approval)), _, _) => *approval,
            (None, ToolEffect::ReadOnly, _) => ApprovalMode::Allow,
            // Each call of a batch is decided individually.
            (None, ToolEffect::Writes, _) if batch::is_batch(tool) => ApprovalMode::Allow,
            (None, ToolEffect::Writes, surface) if is_agent_tool(tool) => match surface {
                Surface::Webhook | Surface::Hub => ApprovalMode::Deny,
                // Programs can call only the agents exposed to them, and people see what their agents do.
                Surface::Gateway | Surface::Runs | Surface::Bridge | Surface::Mcp | Surface::Cli => ApprovalMode::Allow,
            },
            (None, ToolEffect::Writes, Surface::Runs | Surface::Cli) => ApprovalMode::Allow,
            (None, ToolEffect::Writes, Surface::Gateway | Surface::Mcp) => ApprovalMode::Ask,
            (None, ToolEffect::Writes, Surface::Webhook | Surface::Hub) => ApprovalMode::Deny,
            // Programs are connected in order to call each other's tools. Which of the server's own tools they are
            // offered is decided earlier.
            (None, ToolEffect::Writes, Surface::Bridge) if tool.kind == WORKER_KIND || is_open_to_programs(tool) => {
                ApprovalMode::Allow
            }
            (None, ToolEffect::Writes, Surface::Bridge) => ApprovalMode::Ask,
        }
    }
}

/// Is the tool an agent, whose own calls are decided individually?
pub fn is_agent_tool(tool: &ToolSpec) -> bool {
    tool.kind == AGENT_KIND
}

/// The server's own tools offered to every program: read-only ones, and those that change only the caller's own session
/// and memory or send to the user's apps.
pub fn is_open_to_programs(tool: &ToolSpec) -> bool {
    const AND_THESE: [&str; 5] = ["hub_send", "remember", "todo_write", "variable_set", "variable_delete"];
    // Another host may have a tool of such a name where the server's own is disabled.
    let is_own = matches!(tool.kind, "builtin" | "app");
    tool.kind != WORKER_KIND && (tool.effect == ToolEffect::ReadOnly || (is_own && AND_THESE.contains(&&*tool.name)))
}

#[cfg(test)]
mod tests;
