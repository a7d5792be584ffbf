//! The hub's message reports, parsed from JSON. Missing fields are left empty, so that a hub of another version can be
//! read.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct MessageReport {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) submitted_at: String,
    pub(super) expires_at: String,
    #[serde(rename = "inputMethod")]
    pub(super) input_method: String,
    pub(super) confidence: Option<f64>,
    pub(super) version: u64,
    pub(super) attempts: Vec<DeliveryAttempt>,
    pub(super) notifications: Vec<AppNotification>,
    pub(super) decisions: Vec<RoutingDecision>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct DeliveryAttempt {
    pub(super) client: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) stage: String,
    pub(super) sent_at: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct AppNotification {
    pub(super) client: String,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) priority: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct RoutingDecision {
    pub(super) stage: String,
    pub(super) clients: Vec<String>,
    /// The text they receive, if it is not the whole message.
    pub(super) text: Option<String>,
    pub(super) reason: String,
    pub(super) candidates: Vec<RoutingCandidate>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct RoutingCandidate {
    pub(super) client: String,
    pub(super) score: f64,
    pub(super) confidence: f64,
    pub(super) why: Vec<String>,
}

/// An app as the hub reports it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct KnownApp {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) version: Option<String>,
    pub(super) capabilities: Vec<String>,
    pub(super) connected: bool,
    pub(super) approved: bool,
    pub(super) since: String,
    pub(super) pending: u64,
    pub(super) lessons: u64,
}

impl MessageReport {
    /// Whether an app has received it and not responded yet.
    pub(super) fn is_pending(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.state == "sent")
    }

    /// Whether it ended without an app, or waits for a person because an app refused it.
    pub(super) fn is_undelivered(&self) -> bool {
        let is_refused = || self.attempts.iter().any(|attempt| attempt.state == "rejected");
        match self.state.as_str() {
            "refused" | "expired" | "cancelled" => true,
            "held" => is_refused(),
            _ => false,
        }
    }
}

pub(super) fn parse<T: serde::de::DeserializeOwned>(value: &Value) -> anyhow::Result<T> {
    T::deserialize(value).map_err(|error| anyhow::anyhow!("the answer of the hub cannot be read: {error}"))
}
