//! Messages of the hub and the apps that receive them.

use std::sync::Arc;

use uuid::Uuid;

use super::{Command, PageRequest};
use crate::app::message::{AppResponse, MessageReport, MessageState, RoutingDecision};
use crate::app::{AppProfile, InputMethod, TokenHash};
use crate::id::{MessageId, Seq};
use crate::reply::{AppSummary, InboxEvent, RegistrationRefusal};
use crate::store::ResultPage;

/// Accepts a user's message. Replies once it is stored and, if no model has to be called, routed.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmitMessage {
    /// The user's words; the app receives them unchanged, except for the name it was addressed by.
    pub text: Arc<str>,
    pub input: InputMethod,
    pub confidence: Option<f32>,
    /// Deliver to this app only.
    pub only_app: Option<Arc<str>>,
}

/// Registers the calling connection as the app of that name. A name whose holder proves no liveness is taken over.
/// Replies with the app's client id.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisterApp {
    pub profile: AppProfile,
    /// Hash of the token it presented.
    pub token: Option<TokenHash>,
    /// The web origin it connected from.
    pub origin: Option<Arc<str>>,
}

impl Command for SubmitMessage {
    type Reply = Arc<MessageReport>;
    const SPAN: Option<&'static str> = Some("submit_message");
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadMessage {
    pub message: MessageId,
    /// Wait for a record newer than this one, or until the request is cancelled.
    pub newer_than: Option<Seq>,
}

impl Command for ReadMessage {
    type Reply = Arc<MessageReport>;
}

/// Newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListMessages {
    pub state: Option<MessageState>,
    pub page: PageRequest,
}

impl Command for ListMessages {
    type Reply = ResultPage<Arc<MessageReport>>;
}

/// Sends the message again: to that app, or through routing. Naming an app corrects the routing, which learns from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResendMessage {
    pub message: MessageId,
    pub app: Option<Arc<str>>,
}

impl Command for ResendMessage {
    type Reply = Arc<MessageReport>;
    const SPAN: Option<&'static str> = Some("resend_message");
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CancelMessage(pub MessageId);

impl Command for CancelMessage {
    type Reply = Arc<MessageReport>;
}

/// Routes a text without sending it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainRouting {
    pub text: Arc<str>,
}

impl Command for ExplainRouting {
    type Reply = Arc<RoutingDecision>;
}

impl Command for RegisterApp {
    type Reply = Result<Uuid, RegistrationRefusal>;
}

/// Waits for the next inbox event of the calling connection's app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextInboxEvent;

impl Command for NextInboxEvent {
    type Reply = InboxEvent;
}

/// Proves that the calling connection's app is alive, in response to `InboxEvent::ProveAlive`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmAppAlive;

impl Command for ConfirmAppAlive {
    type Reply = ();
}

/// Removes the calling connection's app. Messages that it has not answered are re-routed at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeregisterApp;

impl Command for DeregisterApp {
    type Reply = ();
}

/// The response of the calling connection's app to a message.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerMessage {
    pub message: MessageId,
    pub response: AppResponse,
}

impl Command for AnswerMessage {
    type Reply = ();
}

/// How the hub itself would route a text of the caller now, without asking an embedding or language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainLocalRouting {
    pub text: Arc<str>,
}

impl Command for ExplainLocalRouting {
    type Reply = Arc<RoutingDecision>;
}

/// Connected apps first, then disconnected ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListApps;

impl Command for ListApps {
    type Reply = Vec<AppSummary>;
}

/// Lets an app register that was refused as unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApproveApp {
    pub app: Arc<str>,
}

impl Command for ApproveApp {
    type Reply = ();
}

/// Requires the token with this hash from the app; an earlier token stops working.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairApp {
    pub app: Arc<str>,
    pub token: TokenHash,
}

impl Command for PairApp {
    type Reply = ();
}

/// Deletes the app's training data and, with `unpair`, the app itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetApp {
    pub app: Arc<str>,
    pub unpair: bool,
}

impl Command for ForgetApp {
    type Reply = ();
}
