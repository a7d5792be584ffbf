//! HTTP response bodies.

use serde::Serialize;

use super::{InputMethod, NotificationPriority};

#[derive(Serialize)]
pub(in crate::hub) struct PageBody<T> {
    pub(in crate::hub) items: Vec<T>,
    pub(in crate::hub) next_cursor: Option<String>,
}

#[derive(Serialize)]
pub(in crate::hub) struct ListBody<T> {
    pub(in crate::hub) items: Vec<T>,
}

#[derive(Serialize)]
pub(in crate::hub) struct MessageView<'a> {
    pub(in crate::hub) id: String,
    pub(in crate::hub) text: &'a str,
    pub(in crate::hub) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::hub) reason: Option<&'a str>,
    pub(in crate::hub) submitted_at: String,
    pub(in crate::hub) expires_at: String,
    #[serde(rename = "inputMethod")]
    pub(in crate::hub) input_method: InputMethod,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::hub) confidence: Option<f32>,
    /// The value that `newer_than` takes.
    pub(in crate::hub) version: u64,
    pub(in crate::hub) attempts: Vec<AttemptView<'a>>,
    /// Omitted in lists, like `decisions`: together they can be large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::hub) notifications: Option<Vec<NotificationView<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::hub) decisions: Option<Vec<DecisionView<'a>>>,
}

#[derive(Serialize)]
pub(in crate::hub) struct AttemptView<'a> {
    pub(in crate::hub) client: &'a str,
    pub(in crate::hub) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::hub) reason: Option<&'a str>,
    pub(in crate::hub) stage: &'static str,
    pub(in crate::hub) sent_at: String,
}

#[derive(Serialize)]
pub(in crate::hub) struct NotificationView<'a> {
    pub(in crate::hub) client: &'a str,
    pub(in crate::hub) title: &'a str,
    pub(in crate::hub) body: &'a str,
    pub(in crate::hub) priority: NotificationPriority,
}

#[derive(Serialize)]
pub(in crate::hub) struct DecisionView<'a> {
    pub(in crate::hub) stage: &'static str,
    pub(in crate::hub) clients: Vec<&'a str>,
    /// The text delivered to the clients, if it is not the whole utterance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::hub) text: Option<&'a str>,
    pub(in crate::hub) reason: &'a str,
    pub(in crate::hub) candidates: Vec<CandidateView<'a>>,
}

#[derive(Serialize)]
pub(in crate::hub) struct CandidateView<'a> {
    pub(in crate::hub) client: &'a str,
    pub(in crate::hub) score: f32,
    pub(in crate::hub) confidence: f32,
    pub(in crate::hub) why: Vec<&'a str>,
}

#[derive(Serialize)]
pub(in crate::hub) struct ClientView<'a> {
    pub(in crate::hub) name: &'a str,
    pub(in crate::hub) description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::hub) version: Option<&'a str>,
    pub(in crate::hub) capabilities: Vec<&'a str>,
    pub(in crate::hub) connected: bool,
    pub(in crate::hub) approved: bool,
    pub(in crate::hub) since: String,
    pub(in crate::hub) pending: usize,
    pub(in crate::hub) lessons: u64,
}

#[derive(Serialize)]
pub(in crate::hub) struct PairingToken<'a> {
    pub(in crate::hub) token: &'a str,
}

#[derive(Serialize)]
pub(in crate::hub) struct DoneBody {
    pub(in crate::hub) ok: bool,
}

#[derive(Serialize)]
pub(in crate::hub) struct ErrorBody<'a> {
    pub(in crate::hub) error: ErrorDetail<'a>,
}

#[derive(Serialize)]
pub(in crate::hub) struct ErrorDetail<'a> {
    pub(in crate::hub) code: &'a str,
    pub(in crate::hub) message: &'a str,
}
