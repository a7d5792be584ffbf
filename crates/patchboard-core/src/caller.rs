//! Callers: who sends a request, as established by a surface, and what they may do.

use std::fmt;
use std::sync::Arc;

use crate::id::ConnectionId;

/// The caller's identity, as established by a surface. The core trusts nothing else.
#[derive(Debug, Clone)]
pub struct Caller {
    pub surface: Surface,
    /// Runs and their ids belong to a principal, not to a connection.
    pub principal: Principal,
    pub connection: ConnectionId,
    pub grants: GrantSet,
}

/// Who a caller is. Rows and the audit trail hold its text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Principal {
    /// A client of a listener without a token, or of this machine's own user.
    Local,
    Operator,
    /// A client with a listener's token.
    Token,
    /// A client of the bridge with a certificate.
    Certificate,
    Key(Arc<str>),
    SignIn(Arc<str>),
    App(Arc<str>),
    Worker(Arc<str>),
    /// A program, by its session on the bridge.
    Program(Arc<str>),
    Plugin(Arc<str>),
    Channel(Arc<str>),
    Schedule(Arc<str>),
    Node(Arc<str>),
    /// An account on whose behalf an agent acts.
    Account(Arc<str>),
}

impl Principal {
    /// What stands before the colon in the text of those that have a name.
    fn prefix(&self) -> Option<(&'static str, &Arc<str>)> {
        Some(match self {
            Self::Local | Self::Operator | Self::Token | Self::Certificate | Self::Account(_) => return None,
            Self::Key(name) => ("key", name),
            Self::SignIn(id) => ("sign-in", id),
            Self::App(name) => ("app", name),
            Self::Worker(id) => ("worker", id),
            Self::Program(session) => ("program", session),
            Self::Plugin(name) => ("plugin", name),
            Self::Channel(name) => ("channel", name),
            Self::Schedule(name) => ("schedule", name),
            Self::Node(id) => ("node", id),
        })
    }

    /// As rows and the audit trail have it.
    pub fn text(&self) -> Arc<str> {
        match self {
            Self::Local => "local".into(),
            Self::Operator => "operator".into(),
            Self::Token => "token".into(),
            Self::Certificate => "certificate".into(),
            Self::Account(text) => text.clone(),
            Self::Key(_)
            | Self::SignIn(_)
            | Self::App(_)
            | Self::Worker(_)
            | Self::Program(_)
            | Self::Plugin(_)
            | Self::Channel(_)
            | Self::Schedule(_)
            | Self::Node(_) => self.to_string().into(),
        }
    }
}

impl Principal {
    /// The name of the client's key.
    pub fn key(&self) -> Option<&Arc<str>> {
        if let Self::Key(name) = self { Some(name) } else { None }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix() {
            Some((prefix, name)) => write!(f, "{prefix}:{name}"),
            None => f.write_str(&self.text()),
        }
    }
}

/// The inverse of [`Principal::text`]; any other text is an account.
impl From<&str> for Principal {
    fn from(text: &str) -> Self {
        let named = |prefix: &str| text.strip_prefix(prefix)?.strip_prefix(':').map(Arc::<str>::from);
        match text {
            "local" => Self::Local,
            "operator" => Self::Operator,
            "token" => Self::Token,
            "certificate" => Self::Certificate,
            _ => named("key")
                .map(Self::Key)
                .or_else(|| named("sign-in").map(Self::SignIn))
                .or_else(|| named("app").map(Self::App))
                .or_else(|| named("worker").map(Self::Worker))
                .or_else(|| named("program").map(Self::Program))
                .or_else(|| named("plugin").map(Self::Plugin))
                .or_else(|| named("channel").map(Self::Channel))
                .or_else(|| named("schedule").map(Self::Schedule))
                .or_else(|| named("node").map(Self::Node))
                .unwrap_or_else(|| Self::Account(text.into())),
        }
    }
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
    pub const ALL: [Self; 7] =
        [Self::Gateway, Self::Webhook, Self::Runs, Self::Hub, Self::Bridge, Self::Mcp, Self::Cli];

    /// The inverse of `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|surface| surface.name() == name)
    }

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
    /// See and steer any caller's runs and read their conversations, answer any caller's approvals, read the audit trail.
    Oversee,
    /// Change the server itself.
    Operate,
}

/// A set of grants; empty by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GrantSet(u8);

impl GrantSet {
    pub const NONE: GrantSet = GrantSet(0);

    /// The grants of an ordinary authenticated client of the gateway.
    pub const CLIENT: GrantSet = GrantSet::NONE.with(Grant::Converse).with(Grant::Inspect).with(Grant::Manage);

    /// The grants of a channel, on behalf of users of another service.
    pub const CHANNEL: GrantSet = GrantSet::NONE.with(Grant::Converse);

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
            Grant::Oversee => 16,
        }
    }
}

#[cfg(test)]
mod tests;
