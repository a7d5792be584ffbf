//! `[channels.NAME]`: webhooks of external services, answered by agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{SecretRef, TimeSpan};

/// A channel: requests of an external service to `/webhook/NAME` on the gateway go to the agent that is bound to it,
/// and the answer goes back through its adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["verify"]))]
pub struct ChannelConfig {
    /// Whether the entry is used. `false` disables one that an earlier file configured.
    pub enabled: bool,
    /// Plugin that is the adapter. Left out, the plugin with the name of the channel.
    #[schemars(example = &"webhook-json")]
    pub plugin: Option<String>,
    /// How webhooks are authenticated.
    #[schemars(example = &"hmac-sha256")]
    pub verify: WebhookVerification,
    /// The shared secret. Required unless `verify` is `none`.
    #[schemars(example = &"env:HOOK_SECRET")]
    pub secret: Option<SecretRef>,
    /// Header with the signature or the token. Left out, `X-Hub-Signature-256` for `hmac-sha256` and `X-Webhook-Token`
    /// for `token`; the other methods have headers of their own.
    #[schemars(example = &"X-Hub-Signature-256")]
    pub header: Option<String>,
    /// For `hmac-sha256`: header with the time in seconds since 1970. If set, `TIME.BODY` is signed, and a webhook that
    /// is older or newer than `replay_window` is refused.
    #[schemars(example = &"X-Timestamp")]
    pub timestamp_header: Option<String>,
    /// How far the time of a signed webhook may deviate, and how long a webhook without an id counts as a repetition of
    /// an identical one.
    pub replay_window: TimeSpan,
    /// Rate limit of webhooks; further ones are refused.
    pub rate_limit: WebhookRateConfig,
    /// Whether the service waits for the answer.
    pub reply: ReplyMode,
    /// For `sync`: how long the service waits. A slower answer is sent as in `async`.
    pub wait: TimeSpan,
    /// Webhooks accepted and not yet answered; further ones are refused.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_waiting: u32,
}

impl ChannelConfig {
    /// The name of the adapter plugin.
    pub fn adapter<'a>(&'a self, channel: &'a str) -> &'a str {
        self.plugin.as_deref().unwrap_or(channel)
    }
}

impl Default for ChannelConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            plugin: None,
            verify: WebhookVerification::default(),
            secret: None,
            header: None,
            timestamp_header: None,
            replay_window: TimeSpan::from_secs(300),
            rate_limit: WebhookRateConfig::default(),
            reply: ReplyMode::default(),
            wait: TimeSpan::from_secs(25),
            max_waiting: 1000,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookVerification {
    /// the secret in `X-Telegram-Bot-Api-Secret-Token`
    Telegram,
    /// Slack's signature, computed with the signing secret
    Slack,
    /// an HMAC of the body, as `sha256=` and hex digits
    #[default]
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
    /// the secret itself in a header
    Token,
    /// no authentication: only processes of this machine may post
    None,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyMode {
    /// no: the webhook is acknowledged at once
    #[default]
    Async,
    /// yes: the webhook's response is the answer
    Sync,
}

/// A token bucket per channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookRateConfig {
    /// Sustained webhooks per second.
    #[schemars(range(min = 1))]
    pub per_second: u32,
    /// Webhooks accepted at once after a pause.
    #[schemars(range(min = 1))]
    pub burst: u32,
}

impl Default for WebhookRateConfig {
    fn default() -> Self {
        Self { per_second: 5, burst: 50 }
    }
}
