//! What is said over HTTP.

use serde::Serialize;

use super::{InputMethod, Priority};

#[derive(Serialize)]
pub(in crate::hub) struct Page<T> {
    pub(in crate::hub) items: Vec<T>,
    pub(in crate::hub) next_cursor: Option<String>,
}

#[derive(Serialize)]
pub(in crate::hub) struct List<T> {
    pub(in crate::hub) items: Vec<T>,
}

#[derive(Serialize)]
pub(in crate::hub) struct Message<'a> {
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
    /// What `newer_than` takes.
    pub(in crate::hub) version: u64,
    pub(in crate::hub) attempts: Vec<Attempt<'a>>,
    /// Left out in lists, as are `decisions`: together they can be large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::hub) notifications: Option<Vec<Notification<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::hub) decisions: Option<Vec<Decision<'a>>>,
}

#[derive(Serialize)]
pub(in crate::hub) struct Attempt<'a> {
    pub(in crate::hub) client: &'a str,
    pub(in crate::hub) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::hub) reason: Option<&'a str>,
    pub(in crate::hub) stage: &'static str,
    pub(in crate::hub) sent_at: String,
}

#[derive(Serialize)]
pub(in crate::hub) struct Notification<'a> {
    pub(in crate::hub) client: &'a str,
    pub(in crate::hub) title: &'a str,
    pub(in crate::hub) body: &'a str,
    pub(in crate::hub) priority: Priority,
}

#[derive(Serialize)]
pub(in crate::hub) struct Decision<'a> {
    pub(in crate::hub) stage: &'static str,
    pub(in crate::hub) clients: Vec<&'a str>,
    /// What they get, where that is not the whole text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::hub) text: Option<&'a str>,
    pub(in crate::hub) reason: &'a str,
    pub(in crate::hub) candidates: Vec<Candidate<'a>>,
}

#[derive(Serialize)]
pub(in crate::hub) struct Candidate<'a> {
    pub(in crate::hub) client: &'a str,
    pub(in crate::hub) score: f32,
    pub(in crate::hub) confidence: f32,
    pub(in crate::hub) why: Vec<&'a str>,
}

#[derive(Serialize)]
pub(in crate::hub) struct Client<'a> {
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
pub(in crate::hub) struct Paired<'a> {
    pub(in crate::hub) token: &'a str,
}

#[derive(Serialize)]
pub(in crate::hub) struct Done {
    pub(in crate::hub) ok: bool,
}

#[derive(Serialize)]
pub(in crate::hub) struct Failure<'a> {
    pub(in crate::hub) error: Fault<'a>,
}

#[derive(Serialize)]
pub(in crate::hub) struct Fault<'a> {
    pub(in crate::hub) code: &'a str,
    pub(in crate::hub) message: &'a str,
}
