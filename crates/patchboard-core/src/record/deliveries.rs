//! The stored form of channel deliveries.

use serde::{Deserialize, Serialize};

use super::{RecordError, model_messages};
use crate::webhook;
use crate::webhook::{ChannelMessage, ChannelRequest};

/// One variant per version.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VersionedDeliveryPayload {
    V1(StoredDeliveryPayload),
}

#[derive(Serialize, Deserialize)]
struct StoredDeliveryPayload {
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
    requests: Vec<StoredChannelRequest>,
    #[serde(default, skip_serializing_if = "is_zero")]
    sent: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    returned: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredChannelRequest {
    method: String,
    /// Secrets in it are still placeholders with their names.
    url: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<StoredRequestBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredRequestBody {
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) fn encode_delivery_payload(payload: &webhook::DeliveryPayload) -> Vec<u8> {
    let ChannelMessage { id: _, account, peer, guild, team, content, context } = payload.message.clone();
    model_messages::encode(&VersionedDeliveryPayload::V1(StoredDeliveryPayload {
        account,
        peer,
        guild,
        team,
        content,
        context,
        asked_before: payload.earlier_runs,
        cut_off: payload.interrupted_runs,
        requests: payload.requests.iter().cloned().map(StoredChannelRequest::from).collect(),
        sent: u32::try_from(payload.sent_count).unwrap_or(u32::MAX),
        problem: payload.problem.clone(),
        returned: payload.is_failure_reported,
    }))
}

pub(crate) fn decode_delivery_payload(bytes: &[u8]) -> Result<webhook::DeliveryPayload, RecordError> {
    let VersionedDeliveryPayload::V1(stored) =
        model_messages::decode(bytes).map_err(|source| RecordError::Malformed { version: 1, source })?;
    let StoredDeliveryPayload { account, peer, guild, team, content, context, .. } = stored;
    Ok(webhook::DeliveryPayload {
        message: ChannelMessage { id: None, account, peer, guild, team, content, context },
        earlier_runs: stored.asked_before,
        interrupted_runs: stored.cut_off,
        requests: stored.requests.into_iter().map(ChannelRequest::from).collect(),
        sent_count: stored.sent as usize,
        problem: stored.problem,
        is_failure_reported: stored.returned,
    })
}

impl From<ChannelRequest> for StoredChannelRequest {
    fn from(request: ChannelRequest) -> Self {
        let ChannelRequest { method, url, headers, body, timeout } = request;
        let body = body.map(|body| match String::from_utf8(body) {
            Ok(text) => StoredRequestBody::Text(text),
            Err(other) => StoredRequestBody::Bytes(other.into_bytes()),
        });
        let timeout_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        Self { method, url, headers, body, timeout_ms }
    }
}

impl From<StoredChannelRequest> for ChannelRequest {
    fn from(stored: StoredChannelRequest) -> Self {
        let StoredChannelRequest { method, url, headers, body, timeout_ms } = stored;
        let body = body.map(|body| match body {
            StoredRequestBody::Text(text) => text.into_bytes(),
            StoredRequestBody::Bytes(bytes) => bytes,
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
