//! What is on record of messages of channels.

use serde::{Deserialize, Serialize};

use super::{RecordError, v1};
use crate::channel::{self, ChannelMessage, ChannelRequest};

/// One variant for each version; frozen like the versions of other records.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Letter {
    V1(LetterV1),
}

#[derive(Serialize, Deserialize)]
struct LetterV1 {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    guild: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    team: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    content: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    context: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    asked_before: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    cut_off: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    requests: Vec<Request>,
    #[serde(default, skip_serializing_if = "is_zero")]
    sent: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    returned: bool,
}

#[derive(Serialize, Deserialize)]
struct Request {
    method: String,
    /// Secrets are still names in it.
    url: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Content>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) fn encode_letter(letter: &channel::Letter) -> Vec<u8> {
    let ChannelMessage { id: _, account, peer, guild, team, content, context } = letter.message.clone();
    v1::encode(&Letter::V1(LetterV1 {
        account,
        peer,
        guild,
        team,
        content,
        context,
        asked_before: letter.asked_before,
        cut_off: letter.cut_off,
        requests: letter.requests.iter().cloned().map(Request::from).collect(),
        sent: u32::try_from(letter.sent).unwrap_or(u32::MAX),
        problem: letter.problem.clone(),
        returned: letter.is_returned,
    }))
}

pub(crate) fn decode_letter(bytes: &[u8]) -> Result<channel::Letter, RecordError> {
    let Letter::V1(stored) = v1::decode(bytes).map_err(|source| RecordError::Malformed { version: 1, source })?;
    let LetterV1 { account, peer, guild, team, content, context, .. } = stored;
    Ok(channel::Letter {
        message: ChannelMessage { id: None, account, peer, guild, team, content, context },
        asked_before: stored.asked_before,
        cut_off: stored.cut_off,
        requests: stored.requests.into_iter().map(ChannelRequest::from).collect(),
        sent: stored.sent as usize,
        problem: stored.problem,
        is_returned: stored.returned,
    })
}

impl From<ChannelRequest> for Request {
    fn from(request: ChannelRequest) -> Self {
        let ChannelRequest { method, url, headers, body, timeout } = request;
        let body = body.map(|body| match String::from_utf8(body) {
            Ok(text) => Content::Text(text),
            Err(other) => Content::Bytes(other.into_bytes()),
        });
        let timeout_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        Self { method, url, headers, body, timeout_ms }
    }
}

impl From<Request> for ChannelRequest {
    fn from(stored: Request) -> Self {
        let Request { method, url, headers, body, timeout_ms } = stored;
        let body = body.map(|body| match body {
            Content::Text(text) => text.into_bytes(),
            Content::Bytes(bytes) => bytes,
        });
        Self { method, url, headers, body, timeout: timeout_ms.map(std::time::Duration::from_millis) }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serialisation hands over references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
