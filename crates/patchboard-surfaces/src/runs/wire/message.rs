//! The `message` of a run: text, or a list of parts.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The text of a message; parts are joined by line breaks.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runs) struct MessageText(pub(in crate::runs) String);

#[derive(Deserialize)]
#[serde(expecting = "a part with `type` and `text`")]
struct TextPart {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

impl<'de> Deserialize<'de> for MessageText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MessageVisitor)
    }
}

struct MessageVisitor;

impl<'de> Visitor<'de> for MessageVisitor {
    type Value = MessageText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of parts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<MessageText, E> {
        Ok(MessageText(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<MessageText, E> {
        Ok(MessageText(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<MessageText, A::Error> {
        let mut message = String::new();
        let mut number = 0_usize;
        while let Some(TextPart { kind, text }) = parts.next_element()? {
            number += 1;
            if kind != "text" {
                return Err(A::Error::custom(format!(
                    "part {number} of `message` is of type `{kind}`: only parts of type `text` can be sent, no pictures or files yet"
                )));
            }
            let Some(text) = text else {
                return Err(A::Error::custom(format!("part {number} of `message` has no `text`")));
            };
            if number > 1 {
                message.push('\n');
            }
            message.push_str(&text);
        }
        Ok(MessageText(message))
    }
}
