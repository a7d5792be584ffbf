//! Channels: authentication of webhooks, and the agents that answer.

use http::HeaderName;
use patchboard_core::access::{OPERATOR_CHANNEL, RESERVED_CHANNELS};

use super::check_name;
use crate::{
    Config,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
    section::{ChannelConfig, WebhookVerification},
    types::TimeSpan,
};
use patchboard_core::text::nearest;

/// Besides those of surfaces: names common among gateway clients, whose sessions must never be those of webhooks.
const RESERVED_NAMES: [&str; 3] = ["agent", "web", "websocket"];
/// Each channel has a token bucket and a queue of its own.
const MAX_CHANNELS: usize = 256;
/// Deduplication records are kept for this long.
const MAX_REPLAY_WINDOW: TimeSpan = TimeSpan::from_secs(24 * 3600);
/// External services time out long before.
const MAX_WAIT: TimeSpan = TimeSpan::from_secs(600);

pub(crate) fn validate(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let channels = KeyPath::dotted("channels");
    if config.channels.len() > MAX_CHANNELS {
        let message = format!("has {} channels; {MAX_CHANNELS} are the most", config.channels.len());
        problems.push(ConfigProblem::error(ProblemCode::OutOfRange, channels.clone(), message));
    }
    for (name, channel) in &config.channels {
        let path = channels.key(name);
        check_name(name, path.clone(), problems);
        let name_of_surface = RESERVED_CHANNELS.contains(&name.as_str()) || name == OPERATOR_CHANNEL;
        if name_of_surface || RESERVED_NAMES.contains(&name.as_str()) {
            problems.push(
                ConfigProblem::error(
                    ProblemCode::UnusableName,
                    path.clone(),
                    "is what conversations of another surface are filed under",
                )
                .with_hint("take the name of the service"),
            );
        }
        check_verification(channel, &path, problems);
        check_headers(channel, &path, problems);
        check_times(channel, &path, problems);
        check_adapter(config, name, channel, &path, problems);
    }
    if !config.channels.is_empty() && config.gateway.listen.address().is_none() {
        problems.push(
            ConfigProblem::warning(ProblemCode::Conflict, channels, "webhooks arrive on the gateway, which is off")
                .with_hint("set gateway.listen"),
        );
    }
}

fn check_verification(channel: &ChannelConfig, path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    match (channel.verify, &channel.secret) {
        (WebhookVerification::None, None) => problems.push(
            ConfigProblem::warning(
                ProblemCode::RiskySetting,
                path.key("verify"),
                "every program on this machine can post messages",
            )
            .with_hint("set verify and secret, unless every program on this machine is trusted"),
        ),
        (WebhookVerification::None, Some(_)) => problems.push(
            ConfigProblem::error(
                ProblemCode::Conflict,
                path.key("secret"),
                "is never asked for, as verify is \"none\"",
            )
            .with_hint("say how it is sent: verify = \"token\", or remove it"),
        ),
        (
            WebhookVerification::Telegram
            | WebhookVerification::Slack
            | WebhookVerification::HmacSha256
            | WebhookVerification::Token,
            None,
        ) => {
            let hint =
                "secret = \"env:NAME\" or \"file:PATH\"; verify = \"none\" takes what programs of this machine post";
            let message = "is required to know who posts";
            problems.push(ConfigProblem::error(ProblemCode::MissingKey, path.key("secret"), message).with_hint(hint));
        }
        (
            WebhookVerification::Telegram
            | WebhookVerification::Slack
            | WebhookVerification::HmacSha256
            | WebhookVerification::Token,
            Some(_),
        ) => {}
    }
}

fn check_headers(channel: &ChannelConfig, path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    let takes_header = matches!(channel.verify, WebhookVerification::HmacSha256 | WebhookVerification::Token);
    let takes_time = channel.verify == WebhookVerification::HmacSha256;
    let headers = [
        ("header", &channel.header, takes_header, "is for hmac-sha256 and token only"),
        ("timestamp_header", &channel.timestamp_header, takes_time, "is for hmac-sha256 only"),
    ];
    for (key, header, is_taken, why_not) in headers {
        let Some(header) = header else { continue };
        if !is_taken {
            problems.push(ConfigProblem::error(ProblemCode::Conflict, path.key(key), why_not).with_hint("remove it"));
        } else if HeaderName::from_bytes(header.as_bytes()).is_err() {
            let message = "is not the name of a header";
            problems.push(
                ConfigProblem::error(ProblemCode::UnusableName, path.key(key), message)
                    .with_hint("such as X-Signature"),
            );
        }
    }
    if let (Some(one), Some(two)) = (&channel.header, &channel.timestamp_header)
        && takes_time
        && one.eq_ignore_ascii_case(two)
    {
        let message = "is the header of the signature";
        problems.push(ConfigProblem::error(ProblemCode::Conflict, path.key("timestamp_header"), message));
    }
}

fn check_times(channel: &ChannelConfig, path: &KeyPath, problems: &mut Vec<ConfigProblem>) {
    let times = [("replay_window", channel.replay_window, MAX_REPLAY_WINDOW), ("wait", channel.wait, MAX_WAIT)];
    for (key, time, longest) in times.into_iter().filter(|(_, time, longest)| time > longest) {
        let message = format!("must be at most {longest}, but is {time}");
        problems.push(ConfigProblem::error(ProblemCode::OutOfRange, path.key(key), message));
    }
}

/// Only a warning, because the plugin may be added to the folder while the server runs.
fn check_adapter(
    config: &Config,
    name: &str,
    channel: &ChannelConfig,
    path: &KeyPath,
    problems: &mut Vec<ConfigProblem>,
) {
    let adapter = channel.adapter(name);
    let configured = config.plugins.iter().map(|plugin| plugin.name.as_str());
    if configured.clone().any(|known| known == adapter) {
        return;
    }
    let (at, is_name) = match &channel.plugin {
        Some(_) => (path.key("plugin"), super::invalid_name_reason(adapter)),
        // The adapter has the name of the channel, which has been checked already.
        None => (path.clone(), None),
    };
    if let Some(complaint) = is_name {
        problems.push(ConfigProblem::error(ProblemCode::UnusableName, at, complaint));
    } else if !in_folder(config, adapter) {
        let message = format!("there is no plugin named `{adapter}` yet; webhooks are refused until there is");
        let hint = match nearest(adapter, configured) {
            Some(meant) => format!("did you mean plugin = \"{meant}\"?"),
            None => format!("add [[plugins]] with name = \"{adapter}\""),
        };
        problems.push(ConfigProblem::warning(ProblemCode::UnknownReference, at, message).with_hint(hint));
    }
}

fn in_folder(config: &Config, plugin: &str) -> bool {
    config.wasm.folder.as_ref().is_some_and(|folder| folder.join(format!("{plugin}.wasm")).is_file())
}
