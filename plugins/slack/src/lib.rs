//! Slack as a channel: events and slash commands in, `chat.postMessage` out.
//!
//! Needs the secret `bot_token` and the grant `http:slack.com`.

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "channel-adapter" });
}
mod command;
mod event;
mod markup;
mod send;
mod settings;

use bindings::exports::patchboard::plugin::channel::{Answer, Guest, Incoming, Message, Outgoing, Reply, Webhook};
use bindings::patchboard::plugin::http::Request;
use bindings::patchboard::plugin::settings as operator;
use serde::{Deserialize, Serialize};

use settings::Settings;

/// What a webhook of Slack means.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Message(Heard),
    /// And why.
    Ignored(String),
    /// The body of the answer, and its type.
    Answered(&'static str, String),
}

#[derive(Debug, PartialEq, Eq)]
struct Heard {
    id: String,
    account: String,
    peer: String,
    team: Option<String>,
    content: String,
    context: Context,
}

/// Where an answer goes.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Context {
    channel: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
}

struct Slack;

impl Guest for Slack {
    fn parse_incoming(webhook: Webhook) -> Result<Incoming, String> {
        let kind = webhook.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let is_form = kind.is_some_and(|(_, value)| value.to_ascii_lowercase().contains(command::FORM));
        let settings = Settings::read(operator::get);
        let meaning = if is_form { command::read(&webhook.body)? } else { event::read(&webhook.body, &settings)? };
        Ok(match meaning {
            Meaning::Ignored(why) => Incoming::Ignore(why),
            Meaning::Answered(kind, body) => Incoming::Respond(answer(kind, body)),
            Meaning::Message(heard) => Incoming::Message(Message {
                id: Some(heard.id),
                account: Some(heard.account),
                peer: Some(heard.peer),
                guild: None,
                team: heard.team,
                content: heard.content,
                context: serde_json::to_string(&heard.context).map_err(|error| error.to_string())?,
            }),
        })
    }

    fn format_outgoing(reply: Reply) -> Result<Outgoing, String> {
        let context = serde_json::from_str(&reply.context)
            .map_err(|error| format!("the context is not of this adapter: {error}"))?;
        let posts = send::posts(&reply.content, &context, &Settings::read(operator::get));
        Ok(Outgoing {
            requests: posts.into_iter().map(request).collect(),
            // The reply is posted as a message of its own; to the webhook, nothing is a fine answer.
            answer: reply.is_synchronous.then(|| answer("text/plain", String::new())),
        })
    }
}

bindings::export!(Slack with_types_in bindings);

fn answer(kind: &str, body: String) -> Answer {
    Answer { status: 200, content_type: kind.to_owned(), body: body.into_bytes() }
}

fn request(post: send::Post) -> Request {
    Request {
        method: "POST".to_owned(),
        url: post.url,
        headers: vec![
            ("Authorization".to_owned(), "Bearer {{secret:bot_token}}".to_owned()),
            ("Content-Type".to_owned(), "application/json; charset=utf-8".to_owned()),
        ],
        body: Some(post.body.into_bytes()),
        timeout_ms: None,
    }
}
