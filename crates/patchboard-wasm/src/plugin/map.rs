//! Converts between core types and those of the component interface. Results of guests are checked against the limits
//! here.

use std::time::Duration;

use patchboard_core::tool::ToolOutput;
use patchboard_core::webhook::{
    ChannelMessage, ChannelReply, ChannelRequest, FormattedReply, ParsedWebhook, Webhook, WebhookResponse,
};

use crate::call::check_output_size;
use crate::world::exports::patchboard::plugin::{channel, tools};

/// Longest part of an adapter's error text that is kept.
const REASON_CHARS: usize = 500;
/// Longest context that an adapter may attach to a message until it is answered.
const MAX_CONTEXT_BYTES: usize = 16 * 1024;

pub(super) fn tool_output(output: tools::Output, limit: usize) -> wasmtime::Result<ToolOutput> {
    check_output_size(output.content.len(), limit)?;
    Ok(match output.is_error {
        true => ToolOutput::error(output.content),
        false => ToolOutput::ok(output.content),
    })
}

pub(super) fn webhook(webhook: Webhook) -> channel::Webhook {
    let Webhook { method, query, headers, body, .. } = webhook;
    channel::Webhook { method, query, headers, body: body.into() }
}

pub(super) fn reply(reply: ChannelReply) -> channel::Reply {
    let ChannelReply { context, content, is_error, is_synchronous } = reply;
    channel::Reply { context, content, is_error, is_synchronous }
}

pub(super) fn incoming(
    parsed: Result<channel::Incoming, String>,
    limit: usize,
) -> wasmtime::Result<Result<ParsedWebhook, String>> {
    Ok(match parsed {
        Err(reason) => Err(truncate_reason(&reason)),
        Ok(channel::Incoming::Ignore(reason)) => Ok(ParsedWebhook::Ignore(truncate_reason(&reason))),
        Ok(channel::Incoming::Respond(respond)) => {
            check_output_size(answer_bytes(&respond), limit)?;
            Ok(ParsedWebhook::Respond(answer(respond)))
        }
        Ok(channel::Incoming::Message(message)) => {
            let channel::Message { id, account, peer, guild, team, content, context } = message;
            let named = [&id, &account, &peer, &guild, &team].into_iter().flatten().map(String::len).sum::<usize>();
            check_output_size(named + content.len() + context.len(), limit)?;
            if context.len() > MAX_CONTEXT_BYTES {
                return Ok(Err(format!("the context is longer than {MAX_CONTEXT_BYTES} bytes")));
            }
            Ok(ParsedWebhook::Message(ChannelMessage { id, account, peer, guild, team, content, context }))
        }
    })
}

pub(super) fn outgoing(
    formatted: Result<channel::Outgoing, String>,
    limit: usize,
) -> wasmtime::Result<Result<FormattedReply, String>> {
    Ok(match formatted {
        Err(reason) => Err(truncate_reason(&reason)),
        Ok(channel::Outgoing { requests, answer: answered }) => {
            let requested: usize = requests.iter().map(request_bytes).sum();
            check_output_size(requested + answered.as_ref().map_or(0, answer_bytes), limit)?;
            Ok(FormattedReply { requests: requests.into_iter().map(request).collect(), answer: answered.map(answer) })
        }
    })
}

fn request(request: channel::Request) -> ChannelRequest {
    let channel::Request { method, url, headers, body, timeout_ms } = request;
    let timeout = timeout_ms.map(|wait| Duration::from_millis(wait.into()));
    ChannelRequest { method, url, headers, body, timeout }
}

fn answer(answer: channel::Answer) -> WebhookResponse {
    let channel::Answer { status, content_type, body } = answer;
    WebhookResponse { status, content_type, body }
}

fn request_bytes(request: &channel::Request) -> usize {
    let headers: usize = request.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    request.method.len() + request.url.len() + headers + request.body.as_ref().map_or(0, Vec::len)
}

fn answer_bytes(answer: &channel::Answer) -> usize {
    answer.content_type.len() + answer.body.len()
}

fn truncate_reason(reason: &str) -> String {
    reason.chars().take(REASON_CHARS).collect()
}

#[cfg(test)]
mod tests;
