//! The requests that send an answer.

use message_text::Limits;
use serde::Serialize;

use crate::settings::Settings;
use crate::update::Context;

/// Telegram counts a message's length in UTF-16 code units.
const LIMITS: Limits = Limits { size: 4096, width: char::len_utf16, messages: 30 };

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Post {
    pub(crate) url: String,
    /// JSON.
    pub(crate) body: String,
}

#[derive(Serialize)]
struct SendMessage<'a> {
    chat_id: i64,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_thread_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_parameters: Option<ReplyParameters>,
}

#[derive(Serialize)]
struct ReplyParameters {
    message_id: i64,
    /// Somebody may have deleted the question while the answer was being thought of.
    allow_sending_without_reply: bool,
}

/// In their order; nothing for an answer without words. Only the first points at the question.
pub(crate) fn posts(content: &str, context: &Context, settings: &Settings) -> Vec<Post> {
    let url = format!("{}/bot{{{{secret:bot_token}}}}/sendMessage", settings.api_root);
    let messages = message_text::messages(content, LIMITS);
    let post = |(at, text): (usize, &String)| {
        let points = at == 0 && settings.reply_to;
        let reply = ReplyParameters { message_id: context.message, allow_sending_without_reply: true };
        let message = SendMessage {
            chat_id: context.chat,
            text,
            message_thread_id: context.thread,
            reply_parameters: points.then_some(reply),
        };
        Post { url: url.clone(), body: serde_json::to_string(&message).unwrap_or_default() }
    };
    messages.iter().enumerate().map(post).collect()
}

#[cfg(test)]
mod tests;
