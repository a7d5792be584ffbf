//! Frames that the mock hub sends to a client.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use patchboard_core::id::MessageId;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

/// Values of one scenario, generated for each check.
#[derive(Debug, Clone)]
pub struct HubScript {
    /// When the mock hub began to listen.
    pub start: Timestamp,
    pub client: Uuid,
    /// One id per message.
    pub messages: [MessageId; 4],
}

/// The messages of the scenario, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptMessage {
    First,
    Second,
    /// Sent right after the second.
    Third,
    /// With unknown fields.
    UnknownFields,
}

impl ScriptMessage {
    pub(crate) const ALL: [Self; 4] = [Self::First, Self::Second, Self::Third, Self::UnknownFields];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::First => "message 1",
            Self::Second => "message 2",
            Self::Third => "message 3",
            Self::UnknownFields => "message 4",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::First => "Hub check: this is the first message. Please acknowledge it.",
            Self::Second => "Hub check: this is the second message, and a third one follows at once.",
            Self::Third => "Hub check: this is the third message, sent while the second is being worked on.",
            Self::UnknownFields => "Hub check: this message has fields that you do not know. Please ignore them.",
        }
    }

    fn metadata(self) -> &'static str {
        match self {
            Self::First => {
                r#"{"inputMethod":"text","directRouted":false,"routingReason":"The hub check sends everything to you"}"#
            }
            Self::Second => r#"{"inputMethod":"text","directRouted":true}"#,
            Self::Third => {
                r#"{"inputMethod":"voice","directRouted":false,"confidence":0.87,"routingReason":"The hub check sends everything to you"}"#
            }
            Self::UnknownFields => {
                r#"{"inputMethod":"text","directRouted":true,"fromTheFuture":{"a":[1,null,"b"]},"another":null}"#
            }
        }
    }
}

#[derive(Serialize)]
struct OutgoingFrame<T> {
    #[serde(rename = "type")]
    kind: &'static str,
    payload: T,
}

#[derive(Serialize)]
struct MessagePayload<'a> {
    id: String,
    text: &'a str,
    timestamp: String,
    metadata: Box<RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RegistrationAccepted<'a> {
    success: bool,
    client_id: String,
    message: &'a str,
}

#[derive(Serialize)]
struct RegistrationRefused<'a> {
    success: bool,
    code: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct ErrorPayload<'a> {
    code: &'a str,
    message: &'a str,
}

impl HubScript {
    pub(crate) fn id(&self, message: ScriptMessage) -> MessageId {
        let [first, second, third, strange] = self.messages;
        match message {
            ScriptMessage::First => first,
            ScriptMessage::Second => second,
            ScriptMessage::Third => third,
            ScriptMessage::UnknownFields => strange,
        }
    }

    /// The scenario's message with that id.
    pub(crate) fn find(&self, id: &str) -> Option<ScriptMessage> {
        ScriptMessage::ALL.into_iter().find(|message| self.id(*message).to_string() == id)
    }

    pub(crate) fn message(&self, message: ScriptMessage, at: Duration) -> String {
        let metadata = RawValue::from_string(message.metadata().to_owned()).unwrap_or_default();
        let now =
            SignedDuration::try_from(at).ok().and_then(|at| self.start.checked_add(at).ok()).unwrap_or(self.start);
        let payload = MessagePayload {
            id: self.id(message).to_string(),
            text: message.text(),
            timestamp: format!("{now:.3}"),
            metadata,
        };
        frame("message", payload)
    }

    pub(crate) fn registration_accepted(&self, name: &str) -> String {
        let message = format!("Client '{name}' registered successfully");
        frame(
            "registration_response",
            RegistrationAccepted { success: true, client_id: self.client.to_string(), message: &message },
        )
    }
}

pub(crate) fn registration_refused(code: &str, message: &str) -> String {
    frame("registration_response", RegistrationRefused { success: false, code, message })
}

pub(crate) fn error_frame(message: &str) -> String {
    frame("error", ErrorPayload { code: "VALIDATION_ERROR", message })
}

/// A frame of an unknown kind.
pub(crate) fn unknown_frame() -> String {
    frame(
        "hub_check_unknown",
        ErrorPayload { code: "NONE", message: "Clients ignore frames of a type they do not know." },
    )
}

/// Contains only strings, numbers and flags, so serialisation cannot fail.
fn frame<T: Serialize>(kind: &'static str, payload: T) -> String {
    serde_json::to_string(&OutgoingFrame { kind, payload }).unwrap_or_default()
}
