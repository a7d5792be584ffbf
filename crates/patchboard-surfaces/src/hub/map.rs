//! Maps frames and requests to commands, and replies to frames and HTTP responses.

use std::sync::Arc;

use jiff::Timestamp;
use patchboard_core::app::TokenHash;
use patchboard_core::app::message::{AppNotice, AppResponse, MessageReport, RoutingDecision};
use patchboard_core::app::{AppDelivery, AppProfile, InputMethod, NoticePriority};
use patchboard_core::command::{AnswerMessage, RegisterApp};
use patchboard_core::id::MessageId;
use patchboard_core::reply::{AppSummary, RegistrationRefusal};
use patchboard_core::store::ResultPage;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::wire::report::{self, ListBody};
use super::wire::{
    self, AppRegistration, FrameError, FrameErrorCode, HubFrame, MessageFrame, MessageMetadata, NotificationContent,
    RegistrationReply, ResponseBody,
};

/// A token in the registration takes precedence over the token from the upgrade request.
pub(super) fn register(
    registration: AppRegistration,
    upgrade_token: Option<&str>,
    origin: Option<Arc<str>>,
) -> RegisterApp {
    let AppRegistration { name, description, version, capabilities, token } = registration;
    RegisterApp {
        profile: AppProfile {
            name: name.into(),
            description: description.into(),
            version: version.map(Into::into),
            capabilities: capabilities.into_iter().map(Into::into).collect(),
        },
        token: token.as_deref().or(upgrade_token).map(hash_token),
        origin,
    }
}

/// Tokens are only stored and compared as hashes.
pub(super) fn hash_token(token: &str) -> TokenHash {
    Sha256::digest(token).into()
}

/// The command for an app's answer; `None` if the message id cannot exist.
pub(super) fn answer_command(response: wire::ResponseFrame, name: &Arc<str>) -> Option<AnswerMessage> {
    let wire::ResponseFrame { message_id, answer } = response;
    let message: MessageId = message_id.parse().ok()?;
    let response = match answer {
        ResponseBody::Ack => AppResponse::Ack,
        ResponseBody::Reject { reason } => AppResponse::Reject { reason: reason.map(Into::into) },
        ResponseBody::Notification(NotificationContent { title, body, priority, expects_reply }) => {
            AppResponse::Notice(AppNotice {
                title: title.map_or_else(|| name.clone(), Into::into),
                body: body.into(),
                priority: match priority {
                    Some(wire::NotificationPriority::Low) => NoticePriority::Low,
                    Some(wire::NotificationPriority::Normal) | None => NoticePriority::Normal,
                    Some(wire::NotificationPriority::High) => NoticePriority::High,
                },
                expects_reply,
            })
        }
    };
    Some(AnswerMessage { message, response })
}

pub(super) fn registered(name: &str, client: Uuid) -> String {
    wire::encode(&HubFrame::RegistrationResponse(RegistrationReply::Registered {
        success: true,
        client_id: client.to_string(),
        message: format!("Client '{name}' registered successfully"),
    }))
}

pub(super) fn not_registered(name: &str, why: RegistrationRefusal) -> FrameError {
    match why {
        RegistrationRefusal::AlreadyRegistered => already_registered(),
        RegistrationRefusal::NameTaken => {
            FrameError::new(FrameErrorCode::DuplicateName, format!("A client with name '{name}' is already registered"))
        }
        RegistrationRefusal::NotApproved => {
            let message = format!("Client '{name}' waits for approval: run `patchboard hub approve {name}`");
            FrameError::new(FrameErrorCode::ValidationError, message)
        }
        RegistrationRefusal::WrongToken => {
            let message =
                format!("Client '{name}' needs its token: run `patchboard hub pair {name}` and give it that token");
            FrameError::new(FrameErrorCode::ValidationError, message)
        }
    }
}

pub(super) fn already_registered() -> FrameError {
    FrameError::new(FrameErrorCode::AlreadyRegistered, "This connection has already registered a client")
}

pub(super) fn refused(refusal: &FrameError) -> String {
    let FrameError { code, message } = refusal;
    wire::encode(&HubFrame::RegistrationResponse(RegistrationReply::Refused { success: false, code: *code, message }))
}

pub(super) fn error(refusal: &FrameError) -> String {
    wire::encode(&HubFrame::Error { code: refusal.code, message: &refusal.message })
}

pub(super) fn delivery(delivery: &AppDelivery) -> String {
    wire::encode(&HubFrame::Message(MessageFrame {
        id: delivery.message.to_string(),
        text: &delivery.text,
        timestamp: time(delivery.at),
        metadata: MessageMetadata {
            input_method: input(delivery.input),
            direct_routed: delivery.is_direct,
            confidence: delivery.confidence.filter(|_| delivery.input == InputMethod::Voice),
            routing_reason: delivery.routing_reason.as_deref().filter(|_| !delivery.is_direct),
        },
    }))
}

fn input(input: InputMethod) -> wire::InputMethod {
    match input {
        InputMethod::Text => wire::InputMethod::Text,
        InputMethod::Voice => wire::InputMethod::Voice,
    }
}

/// ISO 8601 in UTC, with milliseconds.
fn time(at: Timestamp) -> String {
    format!("{at:.3}")
}

/// How much of a message is included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DetailLevel {
    Everything,
    /// Without the fields that can be large.
    Overview,
}

pub(super) fn message(report: &MessageReport) -> String {
    wire::encode(&shown_message(report, DetailLevel::Everything))
}

pub(super) fn messages(page: &ResultPage<Arc<MessageReport>>) -> String {
    let items = page.items.iter().map(|report| shown_message(report, DetailLevel::Overview)).collect();
    let next_cursor = page.next.as_ref().map(|cursor| cursor.0.clone());
    wire::encode(&report::PageBody { items, next_cursor })
}

fn shown_message(report: &MessageReport, detail: DetailLevel) -> report::MessageView<'_> {
    let utterance = &report.utterance;
    let everything = detail == DetailLevel::Everything;
    report::MessageView {
        id: report.id.to_string(),
        text: &utterance.text,
        state: report.state.name(),
        reason: report.reason.as_deref(),
        submitted_at: time(report.submitted_at),
        expires_at: time(report.expires_at()),
        input_method: input(utterance.input),
        confidence: utterance.confidence,
        version: report.version.0,
        attempts: report
            .attempts
            .iter()
            .map(|attempt| report::AttemptView {
                client: &attempt.app,
                state: attempt.state.name(),
                reason: attempt.reason.as_deref(),
                stage: attempt.stage.name(),
                sent_at: time(attempt.sent_at),
            })
            .collect(),
        notifications: everything
            .then(|| report.notices.iter().map(|(app, notice)| shown_notice(app, notice)).collect()),
        decisions: everything.then(|| report.decisions.iter().map(|decision| shown_decision(decision)).collect()),
    }
}

fn shown_notice<'a>(app: &'a str, notice: &'a AppNotice) -> report::NotificationView<'a> {
    report::NotificationView {
        client: app,
        title: &notice.title,
        body: &notice.body,
        priority: match notice.priority {
            NoticePriority::Low => wire::NotificationPriority::Low,
            NoticePriority::Normal => wire::NotificationPriority::Normal,
            NoticePriority::High => wire::NotificationPriority::High,
        },
    }
}

fn shown_decision(decision: &RoutingDecision) -> report::DecisionView<'_> {
    report::DecisionView {
        stage: decision.stage.name(),
        clients: decision.apps.iter().map(|app| &**app).collect(),
        text: decision.text.as_deref(),
        reason: &decision.reason,
        candidates: decision
            .candidates
            .iter()
            .map(|scored| report::CandidateView {
                client: &scored.app,
                score: scored.score,
                confidence: scored.confidence,
                why: scored.reasons.iter().map(|why| &**why).collect(),
            })
            .collect(),
    }
}

pub(super) fn decision(decision: &RoutingDecision) -> String {
    wire::encode(&shown_decision(decision))
}

pub(super) fn clients(apps: &[AppSummary]) -> String {
    let items = apps.iter().map(|app| report::ClientView {
        name: &app.profile.name,
        description: &app.profile.description,
        version: app.profile.version.as_deref(),
        capabilities: app.profile.capabilities.iter().map(|capability| &**capability).collect(),
        connected: app.is_connected,
        approved: app.is_approved,
        since: time(app.since),
        pending: app.pending,
        lessons: app.training_examples,
    });
    wire::encode(&ListBody { items: items.collect() })
}
