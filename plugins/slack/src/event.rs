//! What a body of the Events API means.

use serde::Deserialize;

use crate::markup::Addressed;
use crate::settings::Settings;
use crate::{Context, Heard, Meaning, markup};

#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    challenge: Option<String>,
    team_id: Option<String>,
    event: Option<Event>,
    #[serde(default)]
    authorizations: Vec<Authorization>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    subtype: Option<String>,
    bot_id: Option<String>,
    user: Option<String>,
    channel: Option<String>,
    text: Option<String>,
    ts: Option<String>,
    thread_ts: Option<String>,
}

/// Whom the event is delivered to: the app under the name it has in the workspace, or the person who installed it.
#[derive(Deserialize)]
struct Authorization {
    user_id: Option<String>,
    #[serde(default)]
    is_bot: bool,
}

pub(crate) fn read(body: &[u8], settings: &Settings) -> Result<Meaning, String> {
    let envelope: Envelope =
        serde_json::from_slice(body).map_err(|error| format!("the body is not of Slack's Events API: {error}"))?;
    match envelope.kind.as_str() {
        "url_verification" => {
            let challenge = envelope.challenge.ok_or("a `url_verification` without a challenge")?;
            Ok(Meaning::Answered("text/plain", challenge))
        }
        "event_callback" => {
            let event = envelope.event.ok_or("an `event_callback` without an event")?;
            let own = envelope.authorizations.into_iter().filter(|one| one.is_bot).find_map(|one| one.user_id);
            Ok(message(event, envelope.team_id, own.as_deref(), settings))
        }
        other => Ok(Meaning::Ignored(format!("a delivery of type `{other}`"))),
    }
}

fn message(event: Event, team: Option<String>, own: Option<&str>, settings: &Settings) -> Meaning {
    let ignored = |why: String| Meaning::Ignored(why);
    let is_mention = event.kind == "app_mention";
    if !is_mention && event.kind != "message" {
        return ignored(format!("an event of type `{}`", event.kind));
    }
    if let Some(subtype) = event.subtype {
        return ignored(format!("a message of subtype `{subtype}`"));
    }
    if event.bot_id.is_some() || (own.is_some() && event.user.as_deref() == own) {
        return ignored("a message of a bot".to_owned());
    }
    let (Some(user), Some(channel), Some(ts)) = (event.user, event.channel, event.ts) else {
        return ignored("a message without an author, a channel or a time".to_owned());
    };
    let text = event.text.unwrap_or_default();
    let addressed = if is_mention { Addressed::Anybody } else { Addressed::Only(own) };
    let content = markup::to_plain(markup::without_leading_mention(&text, addressed));
    if content.trim().is_empty() {
        return ignored("a message without words".to_owned());
    }
    let thread = event.thread_ts.or_else(|| settings.reply_in_thread.then(|| ts.clone()));
    Meaning::Message(Heard {
        // Words that mention the app in a channel it listens to arrive twice, as two events with two ids.
        id: format!("{channel}:{ts}"),
        account: user,
        peer: thread.as_ref().map_or_else(|| channel.clone(), |thread| format!("{channel}:{thread}")),
        team,
        content,
        context: Context { channel, thread },
    })
}

#[cfg(test)]
mod tests;
