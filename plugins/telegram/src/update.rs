//! What an update means: somebody's words, or nothing for us.
//!
//! The format is that of `Update` and `Message` in the public description of the Bot API; fields that are of no use here
//! are not read.

use serde::{Deserialize, Serialize};

use crate::settings::Settings;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Message(Heard),
    /// And why.
    Ignored(String),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) id: String,
    pub(crate) account: Option<String>,
    pub(crate) peer: String,
    pub(crate) content: String,
    pub(crate) context: Context,
}

/// Where an answer goes.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Context {
    pub(crate) chat: i64,
    pub(crate) message: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) thread: Option<i64>,
}

impl Context {
    pub(crate) fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn read(text: &str) -> Result<Context, String> {
        serde_json::from_str(text).map_err(|error| format!("the context is not of this adapter: {error}"))
    }
}

#[derive(Deserialize)]
struct Update {
    update_id: i64,
    message: Option<Message>,
    channel_post: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    message_id: i64,
    from: Option<User>,
    /// Set when the words are those of a chat, such as a channel or the anonymous administrators of a group; `from` is
    /// then a stand-in that claims to be a bot.
    sender_chat: Option<Chat>,
    chat: Chat,
    message_thread_id: Option<i64>,
    #[serde(default)]
    is_topic_message: bool,
    #[serde(default)]
    is_automatic_forward: bool,
    reply_to_message: Option<serde::de::IgnoredAny>,
    text: Option<String>,
    caption: Option<String>,
}

#[derive(Deserialize)]
struct User {
    id: i64,
    #[serde(default)]
    is_bot: bool,
}

#[derive(Deserialize)]
struct Chat {
    id: i64,
    username: Option<String>,
}

pub(crate) fn read(body: &[u8], settings: &Settings) -> Result<Meaning, String> {
    let update: Update =
        serde_json::from_slice(body).map_err(|error| format!("the body is not a Telegram update: {error}"))?;
    let ignored = |why: &str| Ok(Meaning::Ignored(why.to_owned()));
    let Some(message) = update.message.or(update.channel_post) else {
        return ignored("an update that is neither a new message nor a new post");
    };
    let chat = message.chat.id;
    if !settings.allows(chat, message.chat.username.as_deref()) {
        return Ok(Meaning::Ignored(format!("chat {chat} is not among `allowed_chats`")));
    }
    if message.is_automatic_forward {
        return ignored("a copy of a post that Telegram put into the channel's group");
    }
    if message.sender_chat.is_none() && message.from.as_ref().is_some_and(|from| from.is_bot) {
        return ignored("a message of a bot");
    }
    let account = message.sender_chat.as_ref().map(|sender| sender.id).or(message.from.as_ref().map(|from| from.id));
    let thread = message.thread();
    let Some(content) = message.text.or(message.caption).filter(|text| !text.trim().is_empty()) else {
        return ignored("a message without words");
    };
    Ok(Meaning::Message(Heard {
        id: update.update_id.to_string(),
        account: account.map(|account| account.to_string()),
        peer: thread.map_or_else(|| chat.to_string(), |thread| format!("{chat}:{thread}")),
        content,
        context: Context { chat, message: message.message_id, thread },
    }))
}

impl Message {
    /// The topic it belongs to. In groups without topics a reply also has a number here, that of the message at the
    /// head of the chain: no place of its own, and nothing that `sendMessage` takes.
    fn thread(&self) -> Option<i64> {
        self.message_thread_id.filter(|_| self.is_topic_message || self.reply_to_message.is_none())
    }
}

#[cfg(test)]
mod tests;
