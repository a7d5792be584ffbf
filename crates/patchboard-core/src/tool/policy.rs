//! May this tool run without asking a person?

use std::fmt;
use std::sync::Arc;

use super::own::batch;
use super::{Effect, ToolSpec};
use crate::access::Surface;

/// `*` matches any run of characters, `?` any one; everything else itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Glob(Arc<str>);

impl Glob {
    pub fn new(pattern: impl Into<Arc<str>>) -> Self {
        Self(pattern.into())
    }

    pub fn matches(&self, text: &str) -> bool {
        let pattern: Vec<char> = self.0.chars().collect();
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut from) = (0, 0);
        // Where the last `*` stood and how much it has swallowed: backtracking needs no more than that.
        let mut star: Option<(usize, usize)> = None;
        while from < text.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, from));
                    at += 1;
                }
                Some(&wanted) if wanted == '?' || Some(&wanted) == text.get(from) => {
                    at += 1;
                    from += 1;
                }
                _ => {
                    let Some((star_at, swallowed)) = star else { return false };
                    star = Some((star_at, swallowed + 1));
                    at = star_at + 1;
                    from = swallowed + 1;
                }
            }
        }
        pattern.get(at..).is_some_and(|rest| rest.iter().all(|&character| character == '*'))
    }

    /// Without a wildcard it is the name of one thing.
    pub fn is_name(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// More literal characters are more specific; no wildcard at all is the most specific.
    fn specificity(&self) -> (bool, usize) {
        let literal = self.0.chars().filter(|&character| character != '*' && character != '?').count();
        (self.is_name(), literal)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Later is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Approval {
    Allow,
    Ask,
    Deny,
}

/// The operator's rules, then the defaults.
#[derive(Debug, Clone, Default)]
pub struct ApprovalPolicy {
    pub rules: Vec<(Glob, Approval)>,
}

impl ApprovalPolicy {
    /// The most specific rule wins, a tie goes to the stricter. Without a rule, what the tool does and where the
    /// request came from decide.
    pub fn decide(&self, tool: &ToolSpec, surface: Surface) -> Approval {
        let matching = self.rules.iter().filter(|(glob, _)| glob.matches(&tool.name));
        let best = matching.max_by_key(|(glob, approval)| (glob.specificity(), *approval));
        match (best, tool.effect, surface) {
            (Some((_, approval)), _, _) => *approval,
            (None, Effect::ReadOnly, _) => Approval::Allow,
            // Each of its calls is judged by itself.
            (None, Effect::Writes, _) if batch::is_batch(tool) => Approval::Allow,
            (None, Effect::Writes, Surface::Runs | Surface::Cli) => Approval::Allow,
            (None, Effect::Writes, Surface::Gateway | Surface::Mcp) => Approval::Ask,
            (None, Effect::Writes, Surface::Webhook | Surface::Hub | Surface::Bridge) => Approval::Deny,
        }
    }
}

#[cfg(test)]
mod tests;
