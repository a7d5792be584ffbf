//! Slash commands, which come as forms.

use crate::{Context, Heard, Meaning, markup};

pub(crate) const FORM: &str = "application/x-www-form-urlencoded";

pub(crate) fn read(body: &[u8]) -> Result<Meaning, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the form is not text".to_owned())?;
    let field = |name: &str| {
        let pair = text.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
        pair.map(|(_, value)| decoded(value)).filter(|value| !value.is_empty())
    };
    let ignored = |why: &str| Ok(Meaning::Ignored(why.to_owned()));
    if field("ssl_check").is_some() {
        return ignored("a check of the connection");
    }
    if field("payload").is_some() {
        return ignored("a press of a button or another interaction");
    }
    let command = field("command").ok_or("a form that is no slash command")?;
    let (Some(channel), Some(user)) = (field("channel_id"), field("user_id")) else {
        return Err("a slash command without `channel_id` or `user_id`".to_owned());
    };
    let content = markup::to_plain(&field("text").unwrap_or_default());
    if content.trim().is_empty() {
        let hint = format!("Write what you want to say after `{command}`.");
        let body = serde_json::json!({ "response_type": "ephemeral", "text": hint });
        return Ok(Meaning::Answered("application/json", body.to_string()));
    }
    Ok(Meaning::Message(Heard {
        id: field("trigger_id").ok_or("a slash command without `trigger_id`")?,
        account: user,
        peer: channel.clone(),
        team: field("team_id"),
        content,
        context: Context { channel, thread: None },
    }))
}

/// A value of a form: `+` is a space, `%41` an `A`; what is not so written stays as it is.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let mut ahead = rest.clone();
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let pair = digit(ahead.next()).zip(digit(ahead.next()));
                match pair.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
                    Some(decoded) => {
                        bytes.push(decoded);
                        rest = ahead;
                    }
                    None => bytes.push(b'%'),
                }
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
