//! `[channels.NAME]`: webhooks of other services, answered by agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::types::{SecretRef, TimeSpan};

/// A channel: what another service posts to `/webhook/NAME` on the gateway goes to the agent that is bound to it, and the answer goes back through its adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["verify"]))]
pub struct ChannelConfig {
    /// Whether it is used. `false` switches off what an earlier file configured.
    pub enabled: bool,
    /// The plugin that is its adapter. Left out, the one that is named like the channel.
    #[schemars(example = &"webhook-json")]
    pub plugin: Option<String>,
    /// How a webhook proves where it comes from.
    #[schemars(example = &"hmac-sha256")]
    pub verify: WebhookVerification,
    /// What both sides know. Required unless `verify` is `none`.
    #[schemars(example = &"env:HOOK_SECRET")]
    pub secret: Option<SecretRef>,
    /// Header with the signature or the token. Left out, `X-Hub-Signature-256` for `hmac-sha256` and `X-Webhook-Token` for `token`; the other ways have headers of their own.
    #[schemars(example = &"X-Hub-Signature-256")]
    pub header: Option<String>,
    /// For `hmac-sha256`: header with the time in seconds since 1970. If set, `TIME.BODY` is what is signed, and what is older or newer than `replay_window` is refused.
    #[schemars(example = &"X-Timestamp")]
    pub timestamp_header: Option<String>,
    /// How far the time of a signed webhook may be off, and how long one without an id counts as a repetition of the same one.
    pub replay_window: TimeSpan,
    /// How fast webhooks may come; further ones are refused.
    pub rate_limit: ChannelRateLimitConfig,
    /// Whether the service waits for the answer.
    pub reply: ReplyMode,
    /// For `sync`: how long it is kept waiting. What takes longer is answered as in `async`.
    pub wait: TimeSpan,
    /// Webhooks taken and not yet answered; further ones are refused.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_waiting: u32,
}

impl ChannelConfig {
    /// The name of its adapter.
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
            rate_limit: ChannelRateLimitConfig::default(),
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
    /// Slack's signature, made with the signing secret
    Slack,
    /// an HMAC of the body, as `sha256=` and hex digits
    #[default]
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
    /// the secret itself in a header
    Token,
    /// not at all: only programs of this machine may post
    None,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyMode {
    /// no: it is told at once that the message was taken
    #[default]
    Async,
    /// yes: the answer is that of the webhook
    Sync,
}

/// A token bucket per channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelRateLimitConfig {
    /// Webhooks per second in the long run.
    #[schemars(range(min = 1))]
    pub per_second: u32,
    /// Webhooks that may arrive at once after a pause.
    #[schemars(range(min = 1))]
    pub burst: u32,
}

impl Default for ChannelRateLimitConfig {
    fn default() -> Self {
        Self { per_second: 5, burst: 50 }
    }
}
