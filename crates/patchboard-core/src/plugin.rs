//! Plugins: what they may reach and what is known about them.

use std::sync::Arc;

use jiff::Timestamp;

use crate::error::{BoardError, ErrorKind};

mod grant;
pub use grant::{GrantParseError, HostGrant, PluginGrant};

/// Under this name the metadata of a tool names its plugin.
pub const PLUGIN_METADATA_KEY: &str = "plugin";

/// What a plugin is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginState {
    /// Its file is being read and compiled.
    Loading,
    Ready,
    /// Its file has changed in a way the operator has to approve, and no earlier version is at work.
    AwaitingApproval,
    /// Its file cannot be used.
    Refused,
    Unloaded,
}

impl PluginState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::AwaitingApproval => "held",
            Self::Refused => "refused",
            Self::Unloaded => "unloaded",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginReport {
    pub name: Arc<str>,
    pub state: PluginState,
    /// Where it comes from: a path.
    pub source: Arc<str>,
    /// Of the version at work or, if none is, of the last one seen. Lower-case hex.
    pub sha256: Option<Arc<str>>,
    pub has_tools: bool,
    pub has_channel: bool,
    pub grants: Vec<PluginGrant>,
    pub tools: Vec<Arc<str>>,
    pub loaded_at: Option<Timestamp>,
    /// Calls since the server started, and those that failed.
    pub calls: u64,
    pub failures: u64,
    /// Why it is refused, or why its newest file is.
    pub problem: Option<Arc<str>>,
    /// What a newer version of it wants that was not approved; empty when none waits.
    pub changes: Vec<Arc<str>>,
}

/// Why a plugin could not be loaded, unloaded or approved. Sentences for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("{0}")]
    Unknown(String),
    /// Its file cannot be used.
    #[error("{0}")]
    Refused(String),
    /// It was read, and waits for approval.
    #[error("{0}")]
    AwaitingApproval(String),
    #[error("{0}")]
    Failed(String),
}

impl From<PluginError> for BoardError {
    fn from(error: PluginError) -> Self {
        let kind = match &error {
            PluginError::Unknown(_) => ErrorKind::NotFound,
            PluginError::Refused(_) => ErrorKind::Invalid,
            PluginError::AwaitingApproval(_) => ErrorKind::Conflict,
            PluginError::Failed(_) => ErrorKind::Unavailable,
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests;
