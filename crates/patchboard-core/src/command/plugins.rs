//! Plugins, and webhooks of channels, which plugins parse.

use std::sync::Arc;

use super::Command;
use crate::plugin::PluginReport;
use crate::webhook::{Webhook, WebhookOutcome};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPlugins;

impl Command for ListPlugins {
    type Reply = Vec<PluginReport>;
}

/// Loads a plugin's file again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadPlugin {
    /// A plugin's name, or the path of its file.
    pub named: String,
}

impl Command for LoadPlugin {
    type Reply = PluginReport;
}

/// Activates a version that requires more than was approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovePlugin {
    pub name: String,
}

impl Command for ApprovePlugin {
    type Reply = PluginReport;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnloadPlugin {
    pub name: String,
}

impl Command for UnloadPlugin {
    type Reply = ();
}

/// Accepts a channel's webhook; its signature has been verified. Replies when the message is recorded or, for a
/// synchronous channel, when the agent has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveWebhook {
    pub channel: Arc<str>,
    pub webhook: Webhook,
}

impl Command for ReceiveWebhook {
    type Reply = WebhookOutcome;
    const SPAN: Option<&'static str> = Some("receive_webhook");
}
