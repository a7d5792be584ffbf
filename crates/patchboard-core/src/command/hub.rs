//! Messages of the hub and the apps that receive them.

use std::sync::Arc;

use uuid::Uuid;

use super::{Command, PageRequest};
use crate::app::message::{AppResponse, MessageReport, MessageState, RoutingDecision};
use crate::app::{AppProfile, InputMethod, TokenHash};
use crate::id::{MessageId, Seq};
use crate::reply::{AppSummary, InboxEvent, RegistrationRefusal};
use crate::store::ResultPage;

/// Accepts a user's message. Answered when it is on record and, where no model has to be asked, on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmitMessage {
    /// The user's words; they reach the app unchanged, but for the name it was addressed by.
    pub text: Arc<str>,
    pub input: InputMethod,
    pub confidence: Option<f32>,
    /// Deliver to this app and to no other.
    pub only_app: Option<Arc<str>>,
}

/// Makes the asking connection the app of that name. A name whose connection gives no sign of life is taken over.
/// Answered with the connection's id among apps.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisterApp {
    pub profile: AppProfile,
    /// Of the token it showed.
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
    /// Answer only when there is a newer record than this one, or when the request is cancelled.
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

/// Sends the message once more: to that app, or to the one that fits now. Naming an app corrects the routing, which
/// learns from it.
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

/// How a text would be routed now, without sending it anywhere.
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

/// Waits for the next event for the asking connection's app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextInboxEvent;

impl Command for NextInboxEvent {
    type Reply = InboxEvent;
}

/// The asking connection's app is alive, as it was asked to prove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmAppAlive;

impl Command for ConfirmAppAlive {
    type Reply = ();
}

/// The asking connection's app leaves. What it has not answered is routed to other apps at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeregisterApp;

impl Command for DeregisterApp {
    type Reply = ();
}

/// The response of the asking connection's app to a message.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerMessage {
    pub message: MessageId,
    pub response: AppResponse,
}

impl Command for AnswerMessage {
    type Reply = ();
}

/// The connected apps, then those known from before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListApps;

impl Command for ListApps {
    type Reply = Vec<AppSummary>;
}

/// Lets an app register that was refused because it was unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApproveApp {
    pub app: Arc<str>,
}

impl Command for ApproveApp {
    type Reply = ();
}

/// From now on the app registers with the token of this hash; an earlier token stops working.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairApp {
    pub app: Arc<str>,
    pub token: TokenHash,
}

impl Command for PairApp {
    type Reply = ();
}

/// Deletes what was learned about the app and, with `unpair`, the app itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetApp {
    pub app: Arc<str>,
    pub unpair: bool,
}

impl Command for ForgetApp {
    type Reply = ();
}
