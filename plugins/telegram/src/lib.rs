//! Telegram's Bot API as a channel: updates that Telegram posts to the webhook in, `sendMessage` out.
//!
//! Needs the secret `bot_token` and the grant `http:api.telegram.org`.

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "channel-adapter" });
}
mod send;
mod settings;
mod update;

use bindings::exports::patchboard::plugin::channel::{Answer, Guest, Incoming, Message, Outgoing, Reply, Webhook};
use bindings::patchboard::plugin::http::Request;
use bindings::patchboard::plugin::settings as operator;

use settings::Settings;
use update::{Context, Meaning};

struct Telegram;

impl Guest for Telegram {
    fn parse_incoming(webhook: Webhook) -> Result<Incoming, String> {
        Ok(match update::read(&webhook.body, &Settings::read(operator::get))? {
            Meaning::Ignored(why) => Incoming::Ignore(why),
            Meaning::Message(heard) => Incoming::Message(Message {
                id: Some(heard.id),
                account: heard.account,
                peer: Some(heard.peer),
                guild: None,
                team: None,
                content: heard.content,
                context: heard.context.write(),
            }),
        })
    }

    fn format_outgoing(reply: Reply) -> Result<Outgoing, String> {
        let context = Context::read(&reply.context)?;
        let posts = send::posts(&reply.content, &context, &Settings::read(operator::get));
        Ok(Outgoing {
            requests: posts.into_iter().map(request).collect(),
            // The reply is sent as a message of its own; Telegram only wants to know that the update has arrived.
            answer: reply.is_synchronous.then(|| Answer {
                status: 200,
                content_type: "application/json".to_owned(),
                body: b"{}".to_vec(),
            }),
        })
    }
}

bindings::export!(Telegram with_types_in bindings);

fn request(post: send::Post) -> Request {
    Request {
        method: "POST".to_owned(),
        url: post.url,
        headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        body: Some(post.body.into_bytes()),
        timeout_ms: None,
    }
}
