//! Notices to a topic of an ntfy server, and so to phones.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::app::{NoticePriority, UserNotice};
use patchboard_core::port::NoticeSink;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use super::post::{self, PostClient};

/// ntfy turns longer messages into attachments.
const MAX_MESSAGE_BYTES: usize = 4000;
/// Bytes per encoded word, so that the word stays within the 75 characters of RFC 2047.
const WORD_BYTES: usize = 45;

#[derive(Debug, Clone)]
pub struct NtfyOptions {
    /// For example `https://ntfy.sh`.
    pub server: String,
    /// Letters, digits, `-` and `_`. Acts like a password: anyone who knows it can read the notices.
    pub topic: String,
    /// Sent as a bearer token.
    pub token: Option<SecretString>,
}

pub struct NtfySink {
    client: PostClient,
}

impl NtfySink {
    /// Fails with a message about an invalid server or topic.
    pub fn new(options: NtfyOptions) -> Result<Self, String> {
        let is_topic = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if options.topic.is_empty() || !options.topic.bytes().all(is_topic) {
            return Err("the topic may have letters, digits, `-` and `_` only".to_owned());
        }
        let url = format!("{}/{}", options.server.trim_end_matches('/'), options.topic);
        Ok(Self { client: PostClient::new(&url, options.token)? })
    }
}

impl NoticeSink for NtfySink {
    fn name(&self) -> &'static str {
        "ntfy"
    }

    fn show(&self, notice: Arc<UserNotice>, stop: CancellationToken) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            // ntfy shows an empty message as "triggered".
            let text = if notice.body.is_empty() { &notice.title } else { &notice.body };
            let message = clipped_bytes(text);
            let (title, tag) = (header_text(&notice.title), tag(notice.app.as_deref()));
            let fill = |request: patchboard_http::RequestBuilder| {
                request
                    .header("Title", &title)
                    .header("Priority", level(notice.priority))
                    .header("Tags", &tag)
                    .body(message.clone())
            };
            self.client.post(&stop, fill).await
        })
    }
}

impl fmt::Debug for NtfySink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        post::debug(self, &self.client, formatter)
    }
}

/// ntfy priority from 1 to 5; 3 is the default.
fn level(priority: NoticePriority) -> &'static str {
    match priority {
        NoticePriority::Low => "2",
        NoticePriority::Normal => "3",
        NoticePriority::High => "4",
    }
}

/// Tags are separated by commas, so an app's name must not contain any.
fn tag(app: Option<&str>) -> String {
    let app = app.unwrap_or("patchboard");
    app.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect()
}

fn clipped_bytes(text: &str) -> String {
    if text.len() <= MAX_MESSAGE_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_MESSAGE_BYTES - '…'.len_utf8());
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// Header value: plain ASCII as it is, other text as encoded words of RFC 2047, which ntfy decodes.
fn header_text(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !text.contains("=?");
    if is_plain {
        return text.to_owned();
    }
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        // A character takes at most four bytes, so every word has at least one.
        let (word, tail) = rest.split_at_checked(rest.floor_char_boundary(WORD_BYTES)).unwrap_or((rest, ""));
        words.push(format!("=?UTF-8?B?{}?=", base64(word.as_bytes())));
        rest = tail;
    }
    words.join(" ")
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            let letter = LETTERS.get((bits >> (18 - 6 * position) & 63) as usize).copied().unwrap_or_default();
            text.push(if position <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests;
