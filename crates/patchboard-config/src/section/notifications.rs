//! `[notifications]`: how notices of apps are shown to the user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{DayHours, SecretRef};

/// Where notices of apps and of the hub itself are shown, and how many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NotificationsConfig {
    /// Show notices on the desktop if there is a session bus.
    pub desktop: bool,
    /// Write notices to the log, one line each.
    pub console: bool,
    /// Hours of the day, by the local clock, in which only notices of high priority are shown. The others follow as a
    /// digest afterwards.
    #[schemars(example = &"22:00-07:00")]
    pub quiet: Option<DayHours>,
    /// Notices of one app shown per minute; also the most shown at once. Further ones are collected in a digest.
    #[schemars(range(min = 1, max = 600))]
    pub per_minute: u32,
    /// Web addresses to which every notice is posted as JSON.
    pub webhooks: Vec<WebhookConfig>,
    /// Topic of an ntfy server to which every notice is published.
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
    /// Address to post to. Private addresses are allowed.
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
    /// The topic. On a public server anyone who knows it can read the notices.
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
