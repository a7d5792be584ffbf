//! `[notifications]`: where the user sees what apps on the hub have to say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{DayHours, SecretRef};

/// Where notices of apps and of the hub itself are shown, and how many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NotificationsConfig {
    /// Show them on the desktop, wherever there is a session bus.
    pub desktop: bool,
    /// Show them in the log, one line each.
    pub console: bool,
    /// Hours of the day, by the local clock, in which only notices of high priority are shown. The others come as a digest when they are over.
    #[schemars(example = &"22:00-07:00")]
    pub quiet: Option<DayHours>,
    /// Notices of one app shown in a minute; as many may come at once. What is more comes as a digest.
    #[schemars(range(min = 1, max = 600))]
    pub per_minute: u32,
    /// Web addresses that every notice is posted to, as JSON.
    pub webhooks: Vec<WebhookConfig>,
    /// A topic of an ntfy server that every notice is published to.
    pub ntfy: Option<NtfyConfig>,
}

impl Default for NotificationsConfig {
    fn default() -> Self {
        Self { desktop: true, console: true, quiet: None, per_minute: 10, webhooks: Vec::new(), ntfy: None }
    }
}

/// A web address that notices are posted to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["url"]))]
pub struct WebhookConfig {
    /// Where to post to. Private addresses are fine.
    #[schemars(example = &"https://hooks.example.com/notify", extend("x-kind" = "url"))]
    pub url: String,
    /// Bearer token.
    #[schemars(example = &"env:WEBHOOK_TOKEN")]
    pub token: Option<SecretRef>,
}

/// A topic of an ntfy server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["topic"]))]
pub struct NtfyConfig {
    /// The server.
    #[schemars(extend("x-kind" = "url"))]
    pub server: String,
    /// The topic. On a public server whoever knows it can read along.
    #[schemars(example = &"patchboard-d41d8cd9")]
    pub topic: String,
    /// Access token.
    #[schemars(example = &"env:NTFY_TOKEN")]
    pub token: Option<SecretRef>,
}

impl Default for NtfyConfig {
    fn default() -> Self {
        Self { server: "https://ntfy.sh".to_owned(), topic: String::new(), token: None }
    }
}
