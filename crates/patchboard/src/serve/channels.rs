//! How webhooks of each channel are authenticated, as configured.

use patchboard_config::section::{self, ChannelConfig};
use patchboard_config::{Config, Secrets};
use patchboard_surfaces::gateway::{SIGNATURE_HEADER, TOKEN_HEADER, VerifyMethod, WebhookChannel};
use patchboard_surfaces::limit::RateLimit;

pub(super) fn checks(config: &Config, secrets: &Secrets) -> Vec<WebhookChannel> {
    let checks = config.channels.iter().map(|(name, channel)| WebhookChannel {
        name: name.as_str().into(),
        verify: verify(channel),
        secret: secrets.channel_secrets.get(name).cloned(),
        replay_window: channel.replay_window.into(),
        rate: RateLimit {
            per_second: f64::from(channel.rate_limit.per_second),
            burst: f64::from(channel.rate_limit.burst),
        },
    });
    checks.collect()
}

fn verify(channel: &ChannelConfig) -> VerifyMethod {
    let header = |usual: &str| channel.header.as_deref().unwrap_or(usual).into();
    match channel.verify {
        section::WebhookVerification::Telegram => VerifyMethod::Telegram,
        section::WebhookVerification::Slack => VerifyMethod::Slack,
        section::WebhookVerification::HmacSha256 => VerifyMethod::HmacSha256 {
            header: header(SIGNATURE_HEADER),
            timestamp_header: channel.timestamp_header.as_deref().map(Into::into),
        },
        section::WebhookVerification::Token => VerifyMethod::Token { header: header(TOKEN_HEADER) },
        section::WebhookVerification::None => VerifyMethod::None,
    }
}

#[cfg(test)]
mod tests;
