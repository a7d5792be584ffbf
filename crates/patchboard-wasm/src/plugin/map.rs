//! Between the core's words and those of the component interface. What a guest returns is weighed here.

use std::time::Duration;

use patchboard_core::channel::{
    ChannelAnswer, ChannelMessage, ChannelReply, ChannelRequest, Incoming, Outgoing, Webhook,
};
use patchboard_core::tool::ToolOutput;

use crate::call::within;
use crate::world::exports::patchboard::plugin::{channel, tools};

/// Of what an adapter says was wrong with a webhook.
const REASON_CHARS: usize = 500;
/// What an adapter keeps of a message until it is answered.
const MAX_CONTEXT: usize = 16 * 1024;

pub(super) fn tool_output(output: tools::Output, limit: usize) -> wasmtime::Result<ToolOutput> {
    within(output.content.len(), limit)?;
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
) -> wasmtime::Result<Result<Incoming, String>> {
    Ok(match parsed {
        Err(reason) => Err(cut(&reason)),
        Ok(channel::Incoming::Ignore(reason)) => Ok(Incoming::Ignore(cut(&reason))),
        Ok(channel::Incoming::Respond(respond)) => {
            within(weight_of_answer(&respond), limit)?;
            Ok(Incoming::Respond(answer(respond)))
        }
        Ok(channel::Incoming::Message(message)) => {
            let channel::Message { id, account, peer, guild, team, content, context } = message;
            let named = [&id, &account, &peer, &guild, &team].into_iter().flatten().map(String::len).sum::<usize>();
            within(named + content.len() + context.len(), limit)?;
            if context.len() > MAX_CONTEXT {
                return Ok(Err(format!("the context is longer than {MAX_CONTEXT} bytes")));
            }
            Ok(Incoming::Message(ChannelMessage { id, account, peer, guild, team, content, context }))
        }
    })
}

pub(super) fn outgoing(
    formatted: Result<channel::Outgoing, String>,
    limit: usize,
) -> wasmtime::Result<Result<Outgoing, String>> {
    Ok(match formatted {
        Err(reason) => Err(cut(&reason)),
        Ok(channel::Outgoing { requests, answer: answered }) => {
            let requested: usize = requests.iter().map(weight_of_request).sum();
            within(requested + answered.as_ref().map_or(0, weight_of_answer), limit)?;
            Ok(Outgoing { requests: requests.into_iter().map(request).collect(), answer: answered.map(answer) })
        }
    })
}

fn request(request: channel::Request) -> ChannelRequest {
    let channel::Request { method, url, headers, body, timeout_ms } = request;
    let timeout = timeout_ms.map(|wait| Duration::from_millis(wait.into()));
    ChannelRequest { method, url, headers, body, timeout }
}

fn answer(answer: channel::Answer) -> ChannelAnswer {
    let channel::Answer { status, content_type, body } = answer;
    ChannelAnswer { status, content_type, body }
}

fn weight_of_request(request: &channel::Request) -> usize {
    let headers: usize = request.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    request.method.len() + request.url.len() + headers + request.body.as_ref().map_or(0, Vec::len)
}

fn weight_of_answer(answer: &channel::Answer) -> usize {
    answer.content_type.len() + answer.body.len()
}

fn cut(reason: &str) -> String {
    reason.chars().take(REASON_CHARS).collect()
}

#[cfg(test)]
mod tests;
