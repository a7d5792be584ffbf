//! Notification sinks and limits, as configured.

use std::sync::Arc;

use anyhow::anyhow;
use jiff::tz::TimeZone;
use patchboard_config::env::{DBUS_SESSION_BUS_ADDRESS, XDG_RUNTIME_DIR};
use patchboard_config::{Config, LoadedConfig, Secrets};
use patchboard_core::hub::notice::NoticeOptions;
use patchboard_core::port::NoticeSink;
use patchboard_tools::sinks::{
    ConsoleSink, DesktopSink, NtfyOptions, NtfySink, SessionBus, WebhookOptions, WebhookSink,
};

/// Logs if there is no desktop session.
pub(crate) fn sinks(loaded: &LoadedConfig, secrets: &Secrets) -> anyhow::Result<Vec<Arc<dyn NoticeSink>>> {
    let notifications = &loaded.config.notifications;
    let mut sinks: Vec<Arc<dyn NoticeSink>> = Vec::new();
    if notifications.console {
        sinks.push(Arc::new(ConsoleSink));
    }
    if notifications.desktop {
        let desktop = DesktopSink::new(session_bus(loaded));
        // Without the hub there are no notices.
        if loaded.config.hub.listen.address().is_some() {
            desktop.log_if_absent();
        }
        sinks.push(Arc::new(desktop));
    }
    for (index, webhook) in notifications.webhooks.iter().enumerate() {
        let token = secrets.webhook_tokens.get(&index).cloned();
        let sink = WebhookSink::new(WebhookOptions { url: webhook.url.clone(), token });
        sinks.push(Arc::new(sink.map_err(|error| anyhow!("notifications.webhooks[{index}]: {error}"))?));
    }
    if let Some(ntfy) = &notifications.ntfy {
        let (server, topic) = (ntfy.server.clone(), ntfy.topic.clone());
        let sink = NtfySink::new(NtfyOptions { server, topic, token: secrets.ntfy_token.clone() });
        sinks.push(Arc::new(sink.map_err(|error| anyhow!("notifications.ntfy: {error}"))?));
    }
    Ok(sinks)
}

pub(crate) fn notice_options(config: &Config) -> NoticeOptions {
    let notifications = &config.notifications;
    NoticeOptions {
        per_minute: notifications.per_minute,
        quiet: notifications.quiet.map(Into::into),
        zone: TimeZone::system(),
    }
}

fn session_bus(loaded: &LoadedConfig) -> SessionBus {
    let variable = |name| loaded.env.get(name).map(str::to_owned);
    SessionBus { address: variable(DBUS_SESSION_BUS_ADDRESS), runtime_dir: variable(XDG_RUNTIME_DIR).map(Into::into) }
}

#[cfg(test)]
mod tests;
