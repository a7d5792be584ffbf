//! How webhooks of each channel prove where they come from, as configured.

use patchboard_surfaces::gateway::{ChannelCheck, SIGNATURE_HEADER, TOKEN_HEADER, Verify};
use patchboard_surfaces::limit::Rate;

use crate::config::section::{self, ChannelConfig};
use crate::config::{Config, Secrets};

pub(super) fn checks(config: &Config, secrets: &Secrets) -> Vec<ChannelCheck> {
    let checks = config.channels.iter().map(|(name, channel)| ChannelCheck {
        name: name.as_str().into(),
        verify: verify(channel),
        secret: secrets.channel_secrets.get(name).cloned(),
        replay_window: channel.replay_window.into(),
        rate: Rate { per_second: f64::from(channel.rate_limit.per_second), burst: f64::from(channel.rate_limit.burst) },
    });
    checks.collect()
}

fn verify(channel: &ChannelConfig) -> Verify {
    let header = |usual: &str| channel.header.as_deref().unwrap_or(usual).into();
    match channel.verify {
        section::WebhookVerification::Telegram => Verify::Telegram,
        section::WebhookVerification::Slack => Verify::Slack,
        section::WebhookVerification::HmacSha256 => Verify::HmacSha256 {
            header: header(SIGNATURE_HEADER),
            timestamp_header: channel.timestamp_header.as_deref().map(Into::into),
        },
        section::WebhookVerification::Token => Verify::Token { header: header(TOKEN_HEADER) },
        section::WebhookVerification::None => Verify::None,
    }
}

#[cfg(test)]
mod tests;
