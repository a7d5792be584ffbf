use std::time::Duration;

use patchboard_core::tool::ToolOutput;
use patchboard_core::webhook::{ChannelMessage, ChannelRequest, FormattedReply, ParsedWebhook, WebhookResponse};

use super::{incoming, outgoing, tool_output};
use crate::call::OutputTooLarge;
use crate::world::exports::patchboard::plugin::{channel, tools};

fn message(content: &str) -> channel::Message {
    channel::Message {
        id: Some("7".to_owned()),
        account: None,
        peer: Some("42".to_owned()),
        guild: None,
        team: None,
        content: content.to_owned(),
        context: "{}".to_owned(),
    }
}

fn request(body: &[u8]) -> channel::Request {
    channel::Request {
        method: "POST".to_owned(),
        url: "https://a.example/".to_owned(),
        headers: vec![("x".to_owned(), "y".to_owned())],
        body: Some(body.to_vec()),
        timeout_ms: Some(1500),
    }
}

#[test]
fn means_the_same_to_the_core() {
    let parsed = incoming(Ok(channel::Incoming::Message(message("hi"))), 100).expect("small enough");
    let (id, peer) = (Some("7".to_owned()), Some("42".to_owned()));
    let (content, context) = ("hi".to_owned(), "{}".to_owned());
    let expected = ChannelMessage { id, peer, content, context, ..ChannelMessage::default() };
    assert_eq!(parsed, Ok(ParsedWebhook::Message(expected)));
    let ignored = incoming(Ok(channel::Incoming::Ignore("an edit".to_owned())), 100).expect("small enough");
    assert_eq!(ignored, Ok(ParsedWebhook::Ignore("an edit".to_owned())));
    let refused = incoming(Err("no JSON".repeat(200)), 100).expect("cut, not refused");
    assert_eq!(refused.expect_err("rejected").len(), 500);

    let long = channel::Message { context: "c".repeat(16 * 1024 + 1), ..message("hi") };
    let refused = incoming(Ok(channel::Incoming::Message(long)), 100_000).expect("small enough");
    assert_eq!(refused, Err("the context is longer than 16384 bytes".to_owned()));

    let answer = channel::Answer { status: 200, content_type: "text/plain".to_owned(), body: b"ok".to_vec() };
    let formatted = outgoing(Ok(channel::Outgoing { requests: vec![request(b"{}")], answer: Some(answer) }), 100);
    let sent = ChannelRequest {
        method: "POST".to_owned(),
        url: "https://a.example/".to_owned(),
        headers: vec![("x".to_owned(), "y".to_owned())],
        body: Some(b"{}".to_vec()),
        timeout: Some(Duration::from_millis(1500)),
    };
    let answer = WebhookResponse { status: 200, content_type: "text/plain".to_owned(), body: b"ok".to_vec() };
    let expected = FormattedReply { requests: vec![sent], answer: Some(answer) };
    assert_eq!(formatted.expect("small enough"), Ok(expected));
}

#[test]
fn weighs_everything_that_is_returned() {
    let too_much = |error: wasmtime::Error| assert!(error.is::<OutputTooLarge>(), "{error}");
    let output = |length: usize| tools::Output { content: "x".repeat(length), is_error: false };
    assert_eq!(tool_output(output(100), 100).expect("small enough"), ToolOutput::ok("x".repeat(100)));
    too_much(tool_output(output(101), 100).expect_err("too large"));
    too_much(incoming(Ok(channel::Incoming::Message(message(&"x".repeat(96)))), 100).expect_err("id and peer count"));
    let requests = vec![request(&[0; 40]), request(&[0; 40])];
    too_much(outgoing(Ok(channel::Outgoing { requests, answer: None }), 100).expect_err("all together"));
    let respond = channel::Answer { status: 200, content_type: String::new(), body: vec![0; 101] };
    too_much(incoming(Ok(channel::Incoming::Respond(respond)), 100).expect_err("too large"));
}
