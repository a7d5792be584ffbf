//! Compares an approved plugin with the current one, and decides whether the operator must approve the changes.

use std::fmt;
use std::sync::Arc;

use patchboard_core::plugin::PluginGrant;

use super::pins::{PinLookup, PluginPin};

/// Something a plugin has now but did not have when it was approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PluginChange {
    Interface(Arc<str>),
    Grant(PluginGrant),
    Channel,
    NewTool(Arc<str>),
    Tool(Arc<str>, ToolDifference),
    /// The approved state cannot be read.
    Unreadable(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolDifference {
    Description,
    InputSchema,
    /// It now declares itself read-only, so that it no longer needs approval before it runs.
    NowReadOnly,
    NowWrites,
}

/// Where a plugin and its grants come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PluginOrigin {
    /// From the operator, in the configuration.
    Configured,
    /// From the plugins folder, where everyone with write access can set grants.
    Folder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApprovalVerdict {
    /// It may be activated. The changes are those the operator made, for the log.
    Accepted(Vec<PluginChange>),
    NeedsApproval(Vec<PluginChange>),
}

/// Decides whether the current plugin may replace the pinned one. A plugin without a pin may.
pub(super) fn check_against_pin(pinned: &PinLookup, current: &PluginPin, origin: PluginOrigin) -> ApprovalVerdict {
    let pinned = match pinned {
        PinLookup::Missing => return ApprovalVerdict::Accepted(Vec::new()),
        PinLookup::Unreadable(problem) => {
            return ApprovalVerdict::NeedsApproval(vec![PluginChange::Unreadable(problem.clone())]);
        }
        PinLookup::Known(pin) => pin,
    };
    // Grants in the configuration are the operator's own decision about an approved file. The file's own declarations
    // are not: the same file may describe its tools differently on every load.
    let is_approved_file = origin == PluginOrigin::Configured && pinned.sha256 == current.sha256;
    let is_operator_grant = |change: &PluginChange| is_approved_file && matches!(change, PluginChange::Grant(_));
    let (operator_grants, unapproved): (Vec<PluginChange>, Vec<PluginChange>) =
        diff(pinned, current).into_iter().partition(is_operator_grant);
    match unapproved.is_empty() {
        true => ApprovalVerdict::Accepted(operator_grants),
        false => ApprovalVerdict::NeedsApproval(operator_grants.into_iter().chain(unapproved).collect()),
    }
}

/// What is more than, or different from, before. Removals need no approval and are not listed.
pub(super) fn diff(pinned: &PluginPin, current: &PluginPin) -> Vec<PluginChange> {
    let mut changes: Vec<PluginChange> =
        current.imports.difference(&pinned.imports).cloned().map(PluginChange::Interface).collect();
    changes.extend(current.grants.iter().filter(|grant| !is_covered(grant, pinned)).cloned().map(PluginChange::Grant));
    if current.has_channel && !pinned.has_channel {
        changes.push(PluginChange::Channel);
    }
    for (name, tool) in &current.tools {
        let Some(approved) = pinned.tools.get(name) else {
            changes.push(PluginChange::NewTool(name.clone()));
            continue;
        };
        // A plugin without grants counts as read-only whatever it declares, so its declaration did not change.
        let differences = [
            (ToolDifference::Description, tool.description != approved.description),
            (ToolDifference::InputSchema, tool.input_schema != approved.input_schema),
            (ToolDifference::NowReadOnly, tool.read_only && !approved.read_only && !current.grants.is_empty()),
            (ToolDifference::NowWrites, !tool.read_only && approved.read_only && !pinned.grants.is_empty()),
        ];
        let differs = differences.into_iter().filter(|(_, differs)| *differs);
        changes.extend(differs.map(|(difference, _)| PluginChange::Tool(name.clone(), difference)));
    }
    changes
}

/// Whether an earlier grant allows everything that this grant allows.
fn is_covered(grant: &PluginGrant, pinned: &PluginPin) -> bool {
    pinned.grants.iter().any(|old| covers(old, grant))
}

pub(super) fn covers(old: &PluginGrant, new: &PluginGrant) -> bool {
    match (old, new) {
        (PluginGrant::Http(old), PluginGrant::Http(new)) => {
            old.host == new.host && (old.port.is_none() || old.port == new.port)
        }
        _ => old == new,
    }
}

impl fmt::Display for PluginChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => write!(f, "asks for interface {name}"),
            Self::Grant(grant) => write!(f, "new grant {grant}"),
            Self::Channel => f.write_str("is a channel adapter now"),
            Self::NewTool(name) => write!(f, "new tool {name}"),
            Self::Tool(name, difference) => write!(f, "tool {name}: {difference}"),
            Self::Unreadable(problem) => write!(f, "what was approved of it cannot be read: {problem}"),
        }
    }
}

impl fmt::Display for ToolDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Description => "other description",
            Self::InputSchema => "other input schema",
            Self::NowReadOnly => "says now that it changes nothing",
            Self::NowWrites => "says no longer that it changes nothing",
        })
    }
}

#[cfg(test)]
mod tests;
