//! Callers: who sends a request, as established by a surface, and what they may do.

use std::sync::Arc;

use crate::id::ConnectionId;

/// The caller's identity, as established by a surface. The core trusts nothing else.
#[derive(Debug, Clone)]
pub struct Caller {
    pub surface: Surface,
    /// Runs and their ids belong to a principal, not to a connection.
    pub principal: Arc<str>,
    pub connection: ConnectionId,
    pub grants: GrantSet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Surface {
    Gateway,
    Webhook,
    Runs,
    Hub,
    Bridge,
    Mcp,
    Cli,
}

impl Surface {
    pub fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Webhook => "webhook",
            Self::Runs => "runs",
            Self::Hub => "hub",
            Self::Bridge => "bridge",
            Self::Mcp => "mcp",
            Self::Cli => "cli",
        }
    }
}

/// Permissions of a caller. `Operate` includes all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grant {
    /// Start, join and cancel its own runs; answer their approvals.
    Converse,
    /// Read sessions, memory, usage, tools and state.
    Inspect,
    /// Clear sessions.
    Manage,
    /// Change the server itself; answer any caller's approvals; see any caller's runs.
    Operate,
}

/// A set of grants; empty by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GrantSet(u8);

impl GrantSet {
    pub const NONE: GrantSet = GrantSet(0);

    /// The grants of an ordinary authenticated client of the gateway.
    pub const CLIENT: GrantSet = GrantSet::NONE.with(Grant::Converse).with(Grant::Inspect).with(Grant::Manage);

    /// The grants of the operator's own token.
    pub const OPERATOR: GrantSet = GrantSet::CLIENT.with(Grant::Operate);

    #[must_use]
    pub const fn with(self, grant: Grant) -> GrantSet {
        GrantSet(self.0 | Self::bit(grant))
    }

    pub const fn has(self, grant: Grant) -> bool {
        self.0 & (Self::bit(grant) | Self::bit(Grant::Operate)) != 0
    }

    const fn bit(grant: Grant) -> u8 {
        match grant {
            Grant::Converse => 1,
            Grant::Inspect => 2,
            Grant::Manage => 4,
            Grant::Operate => 8,
        }
    }
}
