//! Identifiers. Each is a newtype that parses and displays one way everywhere.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

/// One agent run (on the gateway: one chat turn). Time-ordered, so newer runs sort later.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(pub Uuid);

/// One pending question to a person: may this tool run?
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApprovalId(pub Uuid);

/// One utterance of a user on its way to apps. Written `msg-<uuid>` wherever people or apps see it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub Uuid);

/// Position of an event in its topic: 1, 2, 3 … without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Seq(pub u64);

/// One entry into a node of a run: 0, 1, 2 … in the order of entries, whatever the node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// One connection of one client to this process. Never stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Made by the server and unique, whatever the model called its call.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub Arc<str>);

macro_rules! display_as {
    ($name:ident, $value:ident => $text:expr) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $value = &self.0;
                write!(f, "{}", $text)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}
display_as!(RunId, uuid => uuid);
display_as!(ApprovalId, uuid => uuid);
display_as!(MessageId, uuid => format_args!("msg-{uuid}"));
display_as!(Seq, number => number);
display_as!(NodeId, number => number);
display_as!(ConnectionId, number => number);
display_as!(CallId, text => text);
display_as!(SessionKey, text => text);

impl FromStr for RunId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

impl FromStr for ApprovalId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

impl FromStr for MessageId {
    type Err = uuid::Error;
    /// The prefix may be left out.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text.strip_prefix("msg-").unwrap_or(text)).map(Self)
    }
}

impl Seq {
    /// Where a topic starts; following "from the beginning" is following from here.
    pub const FIRST: Seq = Seq(1);

    pub fn next(self) -> Seq {
        Seq(self.0.saturating_add(1))
    }
}

/// `agent:channel:account:peer`, each part with `%` and `:` percent-escaped so that no two
/// conversations can share a key by accident. Other surfaces have keys of their own shape.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey(Arc<str>);

/// The four parts of a conversation's key, unescaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationParts {
    pub agent: String,
    pub channel: String,
    pub account: String,
    pub peer: String,
}

impl SessionKey {
    /// The longest key accepted from outside; longer ones are refused where they enter.
    pub const MAX_BYTES: usize = 2048;

    pub fn conversation(agent: &str, channel: &str, account: &str, peer: &str) -> Self {
        let mut key = String::with_capacity(agent.len() + channel.len() + account.len() + peer.len() + 3);
        for (index, part) in [agent, channel, account, peer].into_iter().enumerate() {
            if index > 0 {
                key.push(':');
            }
            escape_into(part, &mut key);
        }
        Self(key.into())
    }

    /// The session of a program, by the name it gave it.
    pub fn bridge(id: &str) -> Self {
        let mut key = String::with_capacity(id.len() + 7);
        key.push_str("bridge:");
        escape_into(id, &mut key);
        Self(key.into())
    }

    /// Takes a key as some client wrote it; `None` when it cannot be one.
    pub fn parse(text: &str) -> Option<Self> {
        let well_formed = !text.is_empty()
            && text.len() <= Self::MAX_BYTES
            && text.contains(':')
            && text.split(':').all(|part| unescape(part).is_some());
        well_formed.then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `None` for keys of other shapes than a conversation's.
    pub fn conversation_parts(&self) -> Option<ConversationParts> {
        let mut parts = self.0.split(':').map(unescape);
        let parsed = ConversationParts {
            agent: parts.next()??,
            channel: parts.next()??,
            account: parts.next()??,
            peer: parts.next()??,
        };
        parts.next().is_none().then_some(parsed)
    }
}

fn escape_into(part: &str, out: &mut String) {
    for character in part.chars() {
        match character {
            // Keys are in logs, where a line break or an escape sequence would pass for the server's own.
            special if special == '%' || special == ':' || special.is_control() => {
                out.push_str(&format!("%{:02X}", u32::from(special)));
            }
            other => out.push(other),
        }
    }
}

/// The inverse of `escape_into`; any other `%` sequence is not one of ours.
fn unescape(part: &str) -> Option<String> {
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(at) = rest.find('%') {
        out.push_str(rest.get(..at)?);
        let digits = rest.get(at + 1..at + 3)?;
        let is_ours = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte));
        let special = char::from(u8::from_str_radix(digits, 16).ok().filter(|_| is_ours)?);
        if special != '%' && special != ':' && !special.is_control() {
            return None;
        }
        out.push(special);
        rest = rest.get(at + 3..)?;
    }
    out.push_str(rest);
    Some(out)
}

/// Whose facts: memory never crosses this line. Channel and account, or, where a channel cannot
/// tell accounts apart, channel and peer.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemoryOwner(Arc<str>);
display_as!(MemoryOwner, text => text);

impl MemoryOwner {
    pub fn account(channel: &str, account: &str) -> Self {
        let mut key = String::with_capacity(channel.len() + account.len() + 1);
        escape_into(channel, &mut key);
        key.push(':');
        escape_into(account, &mut key);
        Self(key.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Channel and account, unescaped.
    pub fn parts(&self) -> Option<(String, String)> {
        let (channel, account) = self.0.split_once(':')?;
        Some((unescape(channel)?, unescape(account)?))
    }
}

#[cfg(test)]
mod tests;
