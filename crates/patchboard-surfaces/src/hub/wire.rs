//! The hub's wire frames; HTTP bodies are in `report`. Nothing here is used outside this folder.

use patchboard_core::text::cut_with_mark;
use serde::Serialize;

use self::object::{JsonField, JsonKind, parse_object};

pub(super) mod object;
pub(super) mod report;

/// Longer texts of apps are truncated; they are stored and shown to users.
const MAX_TITLE_BYTES: usize = 1024;
const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_REASON_BYTES: usize = 4 * 1024;
/// Quotes in error messages are truncated to this.
const MAX_QUOTE_BYTES: usize = 64;

const MAX_NAME_UNITS: usize = 64;
const MAX_DESCRIPTION_UNITS: usize = 1024;
/// Limits that the protocol does not define; high enough for every legitimate client.
const MAX_SHORT_TEXT_UNITS: usize = 256;
const MAX_CAPABILITIES: usize = 128;

/// A frame from a client.
#[derive(Debug)]
pub(super) enum AppFrame {
    /// `Err` holds the refusal.
    Registration(Result<AppRegistration, FrameError>),
    Response(ResponseFrame),
    Malformed(String),
}

#[derive(Debug)]
pub(super) struct AppRegistration {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) version: Option<String>,
    pub(super) capabilities: Vec<String>,
    pub(super) token: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FrameError {
    pub(super) code: FrameErrorCode,
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum FrameErrorCode {
    InvalidName,
    InvalidDescription,
    DuplicateName,
    AlreadyRegistered,
    ValidationError,
    /// Only in `error` frames.
    RateLimited,
}

/// An app's answer to a message.
#[derive(Debug)]
pub(super) struct ResponseFrame {
    /// As the client sent it; the message may not exist.
    pub(super) message_id: String,
    pub(super) answer: ResponseBody,
}

#[derive(Debug)]
pub(super) enum ResponseBody {
    Ack,
    Reject { reason: Option<String> },
    Notification(NotificationContent),
}

#[derive(Debug)]
pub(super) struct NotificationContent {
    pub(super) title: Option<String>,
    pub(super) body: String,
    pub(super) priority: Option<NotificationPriority>,
    pub(super) expects_reply: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NotificationPriority {
    Low,
    Normal,
    High,
}

impl AppFrame {
    /// Unknown fields are ignored.
    pub(super) fn read(text: &str) -> Self {
        let [kind, payload] = match parse_object(text, ["type", "payload"]) {
            Ok(fields) => fields,
            Err(object::ObjectError::NotAnObject) => {
                return Self::Malformed("a frame is a JSON object with `type` and `payload`".to_owned());
            }
            Err(problem @ object::ObjectError::NotJson(_)) => return Self::Malformed(problem.to_string()),
        };
        let Some(kind) = kind.and_then(JsonField::text) else {
            return Self::Malformed("a frame needs a `type` that is a string".to_owned());
        };
        match kind.as_str() {
            "registration" => Self::Registration(AppRegistration::read(payload)),
            "response" => match ResponseFrame::read(payload) {
                Ok(response) => Self::Response(response),
                Err(problem) => Self::Malformed(problem.to_owned()),
            },
            unknown => {
                let quote = cut_with_mark(unknown, MAX_QUOTE_BYTES);
                Self::Malformed(format!("clients send `registration` and `response`, not `{quote}`"))
            }
        }
    }

    /// Binary frames are read as text.
    pub(super) fn read_bytes(bytes: &[u8]) -> Self {
        Self::read(&String::from_utf8_lossy(bytes))
    }
}

impl AppRegistration {
    /// Validates in an order that clients may rely on: name, description, version, capabilities.
    fn read(payload: Option<JsonField<'_>>) -> Result<Self, FrameError> {
        let invalid = |message: &str| FrameError::new(FrameErrorCode::ValidationError, message);
        let Some(payload) = payload else { return Err(invalid("a registration needs a `payload`")) };
        let fields = match payload.kind() {
            JsonKind::Object => payload.fields(["name", "description", "version", "capabilities", "token"]),
            // JavaScript treats an array as an object, here one without any of the fields.
            JsonKind::Array => Some([None; 5]),
            JsonKind::Null | JsonKind::Boolean | JsonKind::Number | JsonKind::Text => None,
        };
        let Some([name, description, version, capabilities, token]) = fields else {
            return Err(invalid("the `payload` of a registration must be an object"));
        };
        let name = name.and_then(JsonField::text).filter(|name| is_name(name)).ok_or_else(|| {
            let rule = "`name` must be a letter followed by letters, digits, `-` or `_`, 64 characters at most";
            FrameError::new(FrameErrorCode::InvalidName, rule)
        })?;
        let description =
            description.and_then(JsonField::text).filter(|text| is_description(text)).ok_or_else(|| {
                let rule = "`description` must be a text of 1 to 1024 characters that is not blank";
                FrameError::new(FrameErrorCode::InvalidDescription, rule)
            })?;
        let version = match version {
            None => None,
            Some(version) => match version.text() {
                Some(version) if is_short_text(&version) => Some(version),
                Some(_) => return Err(invalid("`version` must have 256 characters at most")),
                None => return Err(invalid("`version` must be a string")),
            },
        };
        let capabilities = match capabilities {
            None => Vec::new(),
            Some(list) if list.kind() != JsonKind::Array => {
                return Err(invalid("`capabilities` must be an array of strings"));
            }
            Some(list) => {
                let items = list.items(MAX_CAPABILITIES).ok_or_else(|| invalid("there are too many `capabilities`"))?;
                let capabilities: Option<Vec<String>> = items.into_iter().map(JsonField::text).collect();
                let capabilities = capabilities.ok_or_else(|| invalid("`capabilities` must be an array of strings"))?;
                if !capabilities.iter().all(|word| is_short_text(word)) {
                    return Err(invalid("each of the `capabilities` must have 256 characters at most"));
                }
                capabilities
            }
        };
        let token = token.and_then(JsonField::text).filter(|token| !token.is_empty());
        Ok(Self { name, description, version, capabilities, token })
    }
}

impl FrameError {
    pub(super) fn new(code: FrameErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Whether it is a valid app name.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_'))
        && name.len() <= MAX_NAME_UNITS
}

fn is_description(text: &str) -> bool {
    !is_blank(text) && utf16_len(text) <= MAX_DESCRIPTION_UNITS
}

fn is_short_text(text: &str) -> bool {
    utf16_len(text) <= MAX_SHORT_TEXT_UNITS
}

/// Length in UTF-16 code units, as JavaScript counts.
fn utf16_len(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Blank by JavaScript's rules, which count a byte order mark as whitespace.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(|character| character.is_whitespace() || character == '\u{feff}')
}

impl ResponseFrame {
    fn read(payload: Option<JsonField<'_>>) -> Result<Self, &'static str> {
        let Some([message_id, kind, inner]) =
            payload.and_then(|payload| payload.fields(["messageId", "type", "payload"]))
        else {
            return Err("the `payload` of a response must be an object with `messageId`, `type` and `payload`");
        };
        let message_id =
            message_id.and_then(JsonField::text).ok_or("a response needs a `messageId` that is a string")?;
        let kind = kind.and_then(JsonField::text).ok_or("a response needs a `type` that is a string")?;
        let inner = non_null(inner);
        if inner.is_some_and(|inner| inner.kind() != JsonKind::Object) {
            return Err("what a response says must be an object, in the `payload` of its `payload`");
        }
        let answer = match kind.as_str() {
            "ack" => ResponseBody::Ack,
            "reject" => {
                let [reason] = inner.and_then(|inner| inner.fields(["reason"])).unwrap_or_default();
                let reason = optional_text(reason).map_err(|()| "`reason` must be a string")?;
                ResponseBody::Reject {
                    reason: reason.map(|reason| cut_with_mark(&reason, MAX_REASON_BYTES).into_owned()),
                }
            }
            "notification" => ResponseBody::Notification(NotificationContent::read(inner)?),
            _ => return Err("the `type` of a response must be `ack`, `reject` or `notification`"),
        };
        Ok(Self { message_id, answer })
    }
}

impl NotificationContent {
    fn read(inner: Option<JsonField<'_>>) -> Result<Self, &'static str> {
        let fields = inner.and_then(|inner| inner.fields(["title", "body", "priority", "metadata"]));
        let [title, body, priority, metadata] = fields.unwrap_or_default();
        let title = optional_text(title).map_err(|()| "`title` must be a string")?;
        let body = optional_text(body).map_err(|()| "`body` must be a string")?;
        let priority = match optional_text(priority).map_err(|()| "`priority` must be a string")?.as_deref() {
            None => None,
            Some("low") => Some(NotificationPriority::Low),
            Some("normal") => Some(NotificationPriority::Normal),
            Some("high") => Some(NotificationPriority::High),
            Some(_) => return Err("`priority` must be `low`, `normal` or `high`"),
        };
        if title.is_none() && body.is_none() {
            return Err("a notification needs a `title` or a `body` that is not blank");
        }
        let [expects_reply] = metadata.and_then(|metadata| metadata.fields(["expectsReply"])).unwrap_or_default();
        Ok(Self {
            title: title.map(|title| cut_with_mark(&title, MAX_TITLE_BYTES).into_owned()),
            body: body.map(|body| cut_with_mark(&body, MAX_BODY_BYTES).into_owned()).unwrap_or_default(),
            priority,
            expects_reply: expects_reply.and_then(JsonField::boolean).unwrap_or(false),
        })
    }
}

/// Null fields count as absent.
fn non_null(field: Option<JsonField<'_>>) -> Option<JsonField<'_>> {
    field.filter(|field| field.kind() != JsonKind::Null)
}

/// Blank texts count as absent; other types are an error.
fn optional_text(field: Option<JsonField<'_>>) -> Result<Option<String>, ()> {
    match non_null(field) {
        None => Ok(None),
        Some(field) => field.text().map(|text| Some(text).filter(|text| !is_blank(text))).ok_or(()),
    }
}

/// What the hub can say.
#[derive(Serialize)]
#[serde(tag = "type", content = "payload", rename_all = "snake_case")]
pub(super) enum HubFrame<'a> {
    RegistrationResponse(RegistrationReply<'a>),
    Message(MessageFrame<'a>),
    Error { code: FrameErrorCode, message: &'a str },
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum RegistrationReply<'a> {
    Registered {
        success: bool,
        #[serde(rename = "clientId")]
        client_id: String,
        message: String,
    },
    Refused {
        success: bool,
        code: FrameErrorCode,
        message: &'a str,
    },
}

#[derive(Serialize)]
pub(super) struct MessageFrame<'a> {
    pub(super) id: String,
    pub(super) text: &'a str,
    pub(super) timestamp: String,
    pub(super) metadata: MessageMetadata<'a>,
}

/// Must never contain `source`: some clients interpret `"direct"` in it as an instruction not to respond.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessageMetadata<'a> {
    pub(super) input_method: InputMethod,
    pub(super) direct_routed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) confidence: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) routing_reason: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum InputMethod {
    Text,
    Voice,
}

/// Frames contain only strings, numbers and lists of them, so encoding cannot fail.
pub(super) fn encode(frame: &impl Serialize) -> String {
    serde_json::to_string(frame).unwrap_or_default()
}

#[cfg(test)]
mod tests;
