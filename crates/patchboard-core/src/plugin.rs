//! Plugins: grants, states and reports.

use std::sync::Arc;

use jiff::Timestamp;

use crate::error::{BoardError, ErrorKind};

mod grant;
pub use grant::{HostGrant, InvalidGrant, PluginGrant};

/// Key of the plugin's name in a tool's metadata.
pub const PLUGIN_METADATA_KEY: &str = "plugin";

/// State of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginState {
    /// Its file is being read and compiled.
    Loading,
    Ready,
    /// Its file has changed in a way that needs the operator's approval, and no earlier version is active.
    AwaitingApproval,
    /// Its file is invalid.
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
    /// Path of its file.
    pub source: Arc<str>,
    /// SHA-256 in lower-case hex of the active version or, if none is active, of the last version read.
    pub sha256: Option<Arc<str>>,
    pub has_tools: bool,
    pub has_channel: bool,
    pub grants: Vec<PluginGrant>,
    pub tools: Vec<Arc<str>>,
    pub loaded_at: Option<Timestamp>,
    /// Calls since the server started; `failures` is the number of failed ones.
    pub calls: u64,
    pub failures: u64,
    /// Why it, or its newest file, is refused.
    pub problem: Option<Arc<str>>,
    /// What a newer version requires beyond the approval; empty if none waits.
    pub changes: Vec<Arc<str>>,
}

/// Why a plugin could not be loaded, unloaded or approved. Sentences for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("{0}")]
    Unknown(String),
    /// Its file is invalid.
    #[error("{0}")]
    Refused(String),
    /// Loaded, but waits for approval.
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
