//! Any program that posts JSON as a channel: the answer goes back to the caller that waits, or to an address it names.
//!
//! Needs a grant `http:HOST` for each host that answers are posted to, and none where all callers wait.

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "channel-adapter" });
}
mod answer;
mod fields;

use bindings::exports::patchboard::plugin::channel::{Answer, Guest, Incoming, Message, Outgoing, Reply, Webhook};
use bindings::patchboard::plugin::http::Request;
use bindings::patchboard::plugin::log::{self, Level};
use bindings::patchboard::plugin::settings;

use answer::Context;
use fields::Fields;

struct WebhookJson;

impl Guest for WebhookJson {
    fn parse_incoming(webhook: Webhook) -> Result<Incoming, String> {
        let heard = Fields::read(settings::get).find(&webhook.body)?;
        let context = Context { id: heard.id.clone(), reply_url: heard.reply_url };
        Ok(Incoming::Message(Message {
            id: heard.id,
            account: heard.account,
            peer: heard.peer,
            guild: heard.guild,
            team: heard.team,
            content: heard.content,
            context: context.write(),
        }))
    }

    fn format_outgoing(reply: Reply) -> Result<Outgoing, String> {
        let context = Context::read(&reply.context)?;
        if reply.is_synchronous {
            let body = answer::for_caller(&reply.content, reply.is_error).into_bytes();
            let answer = Answer { status: 200, content_type: answer::JSON.to_owned(), body };
            return Ok(Outgoing { requests: Vec::new(), answer: Some(answer) });
        }
        let Some(url) = context.reply_url else {
            log::write(Level::Debug, "nobody waits for this reply and no `reply_url` was given: it is not sent");
            return Ok(Outgoing { requests: Vec::new(), answer: None });
        };
        let request = Request {
            method: "POST".to_owned(),
            url,
            headers: vec![("Content-Type".to_owned(), answer::JSON.to_owned())],
            body: Some(answer::for_address(context.id.as_deref(), &reply.content, reply.is_error).into_bytes()),
            timeout_ms: None,
        };
        Ok(Outgoing { requests: vec![request], answer: None })
    }
}

bindings::export!(WebhookJson with_types_in bindings);
