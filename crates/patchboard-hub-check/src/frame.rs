//! Checks whether a client's frame conforms to the protocol. Pure: one frame in, findings out.

use serde_json::{Map, Value};

use super::finding::{ProtocolFinding, ProtocolStep, quoted};

const ENVELOPE: &str = "every frame is a JSON object with `type` and `payload`";
const TEXT_FRAMES: &str = "frames are JSON in text frames";

/// The frame's WebSocket encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameEncoding {
    Text,
    Binary,
}

/// A client's frame.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClientFrame {
    Registration(Value),
    Response(Value),
    /// A frame that a hub would ignore.
    Invalid,
}

pub(crate) fn parse_frame(carrier: FrameEncoding, bytes: &[u8]) -> (ClientFrame, Vec<ProtocolFinding>) {
    let mut findings = Vec::new();
    if carrier == FrameEncoding::Binary {
        let mend = "send it as a text frame";
        findings.push(ProtocolFinding::warn(
            ProtocolStep::Frame,
            "a binary frame, which the hub reads all the same",
            TEXT_FRAMES,
            mend,
        ));
    }
    let mut wrong = |saw: String, mend: &str| {
        findings.push(ProtocolFinding::wrong(ProtocolStep::Frame, saw, ENVELOPE, mend));
        ClientFrame::Invalid
    };
    let example = "send {\"type\":\"…\",\"payload\":{…}}";
    let frame = match serde_json::from_slice::<Value>(bytes) {
        Err(error) => wrong(format!("a frame that is not JSON: {error}"), example),
        Ok(Value::Object(mut fields)) => match (fields.remove("type"), fields.remove("payload")) {
            (None, _) => wrong("a frame without `type`".to_owned(), example),
            (_, None) => wrong("a frame without `payload`".to_owned(), example),
            (Some(Value::String(kind)), Some(payload)) => match kind.as_str() {
                "registration" => ClientFrame::Registration(payload),
                "response" => ClientFrame::Response(payload),
                "message" | "registration_response" => wrong(
                    format!("`type` {}, which only the hub sends", quoted(&kind)),
                    "send `registration` or `response`",
                ),
                _ => wrong(format!("unknown `type` {}", quoted(&kind)), "send `registration` or `response`"),
            },
            (Some(_), Some(_)) => wrong("a `type` that is not a string".to_owned(), example),
        },
        Ok(other) => wrong(format!("{} instead of an object", json_type(&other)), example),
    };
    (frame, findings)
}

/// Result of a registration: the name, or the refusal's code and message.
pub(crate) type RegistrationOutcome = Result<String, (&'static str, String)>;

const NAME: &str = "a name begins with a letter, has letters, digits, `-` and `_` only, and at most 64 characters";
const DESCRIPTION: &str = "a description is natural language, not empty, and at most 1024 characters";
const VERSION: &str = "`version` is a string or left out";
const CAPABILITIES: &str = "`capabilities` is a list of strings or left out";
/// The protocol sets no bounds for these; the hub sets generous ones.
const LONGEST_WORD: usize = 256;
const MOST_CAPABILITIES: usize = 128;

pub(crate) fn parse_registration(payload: &Value) -> (RegistrationOutcome, Vec<ProtocolFinding>) {
    let mut findings = Vec::new();
    let outcome = check_registration(payload, &mut findings);
    if let Err((code, message)) = &outcome {
        debug_assert!(!findings.is_empty(), "{code} without a finding: {message}");
    }
    (outcome, findings)
}

/// Checks in the hub's order and stops at the first error, because the hub reports only that one.
fn check_registration(payload: &Value, findings: &mut Vec<ProtocolFinding>) -> RegistrationOutcome {
    let refuse = |findings: &mut Vec<ProtocolFinding>, code, message: &str, rule, mend: &str| {
        findings.push(ProtocolFinding::wrong(ProtocolStep::Registration, format!("{message} ({code})"), rule, mend));
        Err((code, message.to_owned()))
    };
    let Value::Object(fields) = payload else {
        let message = format!("the payload of the registration is {} instead of an object", json_type(payload));
        let rule = "a registration has `name` and `description`";
        // To JavaScript, and so to the hub, an array is an object without these fields.
        let code = if payload.is_array() { "INVALID_NAME" } else { "VALIDATION_ERROR" };
        return refuse(findings, code, &message, rule, "send {\"name\":…,\"description\":…}");
    };
    let name = match fields.get("name") {
        Some(Value::String(name)) if is_name(name) => name,
        Some(Value::String(name)) => {
            let message = format!("the name {} does not fit", quoted(name));
            return refuse(findings, "INVALID_NAME", &message, NAME, "choose a name such as `my-client`");
        }
        Some(other) => {
            let message = format!("the name is {} instead of a string", json_type(other));
            return refuse(findings, "INVALID_NAME", &message, NAME, "send a string such as \"my-client\"");
        }
        None => return refuse(findings, "INVALID_NAME", "the name is missing", NAME, "add `name`"),
    };
    let description = match fields.get("description") {
        Some(Value::String(text)) if is_blank(text) => {
            let mend = "say in a sentence what the app is for";
            return refuse(findings, "INVALID_DESCRIPTION", "the description is empty", DESCRIPTION, mend);
        }
        Some(Value::String(text)) if utf16_length(text) > 1024 => {
            let message = format!("the description has {} UTF-16 units", utf16_length(text));
            return refuse(findings, "INVALID_DESCRIPTION", &message, DESCRIPTION, "shorten it to 1024");
        }
        Some(Value::String(text)) => text,
        Some(other) => {
            let message = format!("the description is {} instead of a string", json_type(other));
            return refuse(findings, "INVALID_DESCRIPTION", &message, DESCRIPTION, "send a sentence or two");
        }
        None => {
            let mend = "add `description`: the hub chooses by it";
            return refuse(findings, "INVALID_DESCRIPTION", "the description is missing", DESCRIPTION, mend);
        }
    };
    match fields.get("version") {
        None => {}
        Some(Value::String(text)) if utf16_length(text) <= LONGEST_WORD => {}
        Some(Value::String(_)) => {
            let message = "the version has more than 256 characters";
            return refuse(findings, "VALIDATION_ERROR", message, VERSION, "shorten it");
        }
        Some(other) => {
            let message = format!("the version is {} instead of a string", json_type(other));
            return refuse(findings, "VALIDATION_ERROR", &message, VERSION, "send \"1.0.0\", or leave it out");
        }
    }
    match fields.get("capabilities") {
        None => {}
        Some(Value::Array(items)) if items.len() > MOST_CAPABILITIES => {
            let message = "there are more than 128 capabilities";
            return refuse(findings, "VALIDATION_ERROR", message, CAPABILITIES, "name what matters for routing");
        }
        Some(Value::Array(items)) => {
            let fits = |item: &Value| item.as_str().is_some_and(|text| utf16_length(text) <= LONGEST_WORD);
            if !items.iter().all(fits) {
                let message = "the capabilities have something else than short strings in them";
                return refuse(findings, "VALIDATION_ERROR", message, CAPABILITIES, "send [\"tasks\", \"reminders\"]");
            }
        }
        Some(other) => {
            let message = format!("the capabilities are {} instead of a list", json_type(other));
            return refuse(findings, "VALIDATION_ERROR", &message, CAPABILITIES, "send [\"tasks\"], or leave it out");
        }
    }
    findings.push(ProtocolFinding::ok(ProtocolStep::Registration, format!("the name {}", quoted(name)), NAME));
    findings.push(match description.split_whitespace().count() {
        0..3 => ProtocolFinding::warn(
            ProtocolStep::Registration,
            format!("a description of very few words: {}", quoted(description)),
            DESCRIPTION,
            "say in a sentence what users may ask of the app: the hub routes by these words",
        ),
        words => {
            ProtocolFinding::ok(ProtocolStep::Registration, format!("a description of {words} words"), DESCRIPTION)
        }
    });
    Ok(name.clone())
}

/// The hub's alphabet; its length counts UTF-16 units, which equals bytes for these characters.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    name.len() <= 64 && name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.bytes().all(fits)
}

/// The length as JavaScript counts it.
fn utf16_length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Whether JavaScript considers it blank: it counts a byte order mark as whitespace.
fn is_blank(text: &str) -> bool {
    text.chars().all(|one| one.is_whitespace() || one == '\u{feff}')
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    Ack,
    Reject,
    Notification,
}

/// A response that the hub accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientResponse {
    pub(crate) id: String,
    pub(crate) kind: ResponseKind,
}

const RESPONSE: &str = "a response has `messageId`, `type` (ack, reject or notification) and a `payload` of its own";
const NESTED: &str = "what a response carries is nested: payload.payload";
const ACK: &str = "an ack carries an empty payload";
const REJECT: &str = "`reason` is a string or left out";
const NOTIFICATION: &str = "a notification has a `title` or a `body`, both strings";
const PRIORITY: &str = "`priority` is low, normal or high, or left out";
const EXPECTS_REPLY: &str = "a question is marked in the notification's `metadata`";

/// The hub's interpretation of a response; `None` if it is ignored, so that the response timeout keeps running.
pub(crate) fn parse_response(payload: &Value) -> (Option<ClientResponse>, Vec<ProtocolFinding>) {
    let mut findings = Vec::new();
    let response = check_response(payload, &mut findings);
    (response, findings)
}

fn check_response(payload: &Value, findings: &mut Vec<ProtocolFinding>) -> Option<ClientResponse> {
    let wrong = |saw: String, rule, mend: &str| ProtocolFinding::wrong(ProtocolStep::Response, saw, rule, mend);
    let example = "send {\"messageId\":…,\"type\":\"ack\",\"payload\":{}}";
    let Value::Object(fields) = payload else {
        findings.push(wrong(format!("the payload is {} instead of an object", json_type(payload)), RESPONSE, example));
        return None;
    };
    let Some(Value::String(id)) = fields.get("messageId") else {
        findings.push(wrong("no `messageId`".to_owned(), RESPONSE, "send the `id` of the message that is answered"));
        return None;
    };
    let kind_of = match fields.get("type").and_then(Value::as_str) {
        Some("ack") => ResponseKind::Ack,
        Some("reject") => ResponseKind::Reject,
        Some("notification") => ResponseKind::Notification,
        Some(other) => {
            findings.push(wrong(format!("the unknown response {}", quoted(other)), RESPONSE, example));
            return None;
        }
        None => {
            findings.push(wrong("a response without `type`".to_owned(), RESPONSE, example));
            return None;
        }
    };
    let empty = Map::new();
    let inner = match fields.get("payload") {
        Some(Value::Object(inner)) => inner,
        None | Some(Value::Null) => {
            let flat: Vec<&str> =
                ["reason", "title", "body", "priority"].into_iter().filter(|key| fields.contains_key(*key)).collect();
            if !flat.is_empty() {
                let saw = format!("`{}` beside `messageId`, where the hub does not look", flat.join("`, `"));
                findings.push(wrong(saw, NESTED, "put it into an object under `payload`, beside `messageId`"));
                // What remains is a notification without text, or a kind that needs none.
                let is_heard = kind_of != ResponseKind::Notification;
                return is_heard.then(|| ClientResponse { id: id.clone(), kind: kind_of });
            }
            findings.push(ProtocolFinding::warn(
                ProtocolStep::Response,
                "a response without an inner payload",
                NESTED,
                "add \"payload\":{}",
            ));
            &empty
        }
        Some(other) => {
            findings.push(wrong(format!("the inner payload is {}", json_type(other)), NESTED, "send an object"));
            return None;
        }
    };
    let is_fine = match kind_of {
        ResponseKind::Ack => check_ack(inner, findings),
        ResponseKind::Reject => check_reject(inner, findings),
        ResponseKind::Notification => check_notification(inner, findings),
    };
    is_fine.then(|| ClientResponse { id: id.clone(), kind: kind_of })
}

fn check_ack(inner: &Map<String, Value>, findings: &mut Vec<ProtocolFinding>) -> bool {
    if inner.is_empty() {
        findings.push(ProtocolFinding::ok(ProtocolStep::Response, "an ack", ACK));
    } else {
        let keys: Vec<&str> = inner.keys().take(5).map(String::as_str).collect();
        let saw = format!("an ack with {} in it", quoted(&keys.join("`, `")));
        findings.push(ProtocolFinding::warn(
            ProtocolStep::Response,
            saw,
            ACK,
            "send {}; tell the user things by a notification",
        ));
    }
    true
}

fn check_reject(inner: &Map<String, Value>, findings: &mut Vec<ProtocolFinding>) -> bool {
    match inner.get("reason") {
        Some(Value::String(reason)) if !is_blank(reason) => {
            findings.push(ProtocolFinding::ok(ProtocolStep::Response, format!("a reject: {}", quoted(reason)), REJECT));
        }
        None | Some(Value::String(_) | Value::Null) => {
            let mend = "say why in `reason`: it helps to find another app";
            findings.push(ProtocolFinding::warn(ProtocolStep::Response, "a reject without a reason", REJECT, mend));
        }
        Some(other) => {
            let saw = format!("a reject whose `reason` is {}", json_type(other));
            findings.push(ProtocolFinding::wrong(
                ProtocolStep::Response,
                saw,
                REJECT,
                "send a string, or leave it out",
            ));
            return false;
        }
    }
    true
}

fn check_notification(inner: &Map<String, Value>, findings: &mut Vec<ProtocolFinding>) -> bool {
    let wrong = |saw: String, rule, mend: &str| ProtocolFinding::wrong(ProtocolStep::Response, saw, rule, mend);
    for key in ["title", "body"] {
        if let Some(other) = inner.get(key).filter(|value| !value.is_string() && !value.is_null()) {
            findings.push(wrong(
                format!("a notification whose `{key}` is {}", json_type(other)),
                NOTIFICATION,
                "send a string",
            ));
            return false;
        }
    }
    let text = |key: &str| inner.get(key).and_then(Value::as_str).unwrap_or_default();
    if is_blank(text("title")) && is_blank(text("body")) {
        let mend = "send a body: the app's name is the title when there is none";
        findings.push(wrong("a notification with neither title nor body".to_owned(), NOTIFICATION, mend));
        return false;
    }
    match inner.get("priority") {
        None | Some(Value::Null) => {}
        Some(Value::String(word)) if is_blank(word) => {}
        Some(Value::String(word)) if ["low", "normal", "high"].contains(&word.as_str()) => {}
        Some(other) => {
            let said = other.as_str().map_or_else(|| json_type(other).to_owned(), quoted);
            findings.push(wrong(
                format!("a notification with the priority {said}"),
                PRIORITY,
                "send low, normal or high",
            ));
            return false;
        }
    }
    if inner.contains_key("expectsReply") {
        let mend = "send \"metadata\":{\"expectsReply\":true}";
        findings.push(ProtocolFinding::warn(
            ProtocolStep::Response,
            "`expectsReply` outside of `metadata`",
            EXPECTS_REPLY,
            mend,
        ));
    }
    let said = if is_blank(text("body")) { text("title") } else { text("body") };
    findings.push(ProtocolFinding::ok(
        ProtocolStep::Response,
        format!("a notification: {}", quoted(said)),
        NOTIFICATION,
    ));
    true
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
