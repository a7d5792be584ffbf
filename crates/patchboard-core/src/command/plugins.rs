//! Plugins, and the webhooks of channels, which plugins adapt.

use std::sync::Arc;

use super::Command;
use crate::plugin::PluginReport;
use crate::webhook::{Webhook, WebhookOutcome};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPlugins;

impl Command for ListPlugins {
    type Reply = Vec<PluginReport>;
}

/// Reads a plugin's file again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadPlugin {
    /// A plugin's name, or the path of its file.
    pub named: String,
}

impl Command for LoadPlugin {
    type Reply = PluginReport;
}

/// Activates a version that wants more than was approved before.
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

/// Accepts what another service posted to a channel; its signature has been verified. Answered when the message is on
/// record or, if the channel's caller waits for it, when the agent has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveWebhook {
    pub channel: Arc<str>,
    pub webhook: Webhook,
}

impl Command for ReceiveWebhook {
    type Reply = WebhookOutcome;
    const SPAN: Option<&'static str> = Some("receive_webhook");
}
