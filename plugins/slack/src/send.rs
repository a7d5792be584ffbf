//! The requests that send an answer.

use message_text::Limits;
use serde::Serialize;

use crate::settings::Settings;
use crate::{Context, markup};

/// Longer messages are cut by Slack without a word.
const LIMITS: Limits = Limits { size: 4000, width: markup::width, messages: 30 };

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Post {
    pub(crate) url: String,
    /// JSON.
    pub(crate) body: String,
}

#[derive(Serialize)]
struct PostMessage<'a> {
    channel: &'a str,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_ts: Option<&'a str>,
}

/// In their order; nothing for an answer without words.
pub(crate) fn posts(content: &str, context: &Context, settings: &Settings) -> Vec<Post> {
    let url = format!("{}/chat.postMessage", settings.api_root);
    let messages = message_text::messages(content, LIMITS);
    let post = |text: &String| {
        let message = PostMessage {
            channel: &context.channel,
            text: markup::escaped(text),
            thread_ts: context.thread.as_deref(),
        };
        Post { url: url.clone(), body: serde_json::to_string(&message).unwrap_or_default() }
    };
    messages.iter().map(post).collect()
}

#[cfg(test)]
mod tests;
