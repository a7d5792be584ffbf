//! `POST /webhook/{channel}`: messages from external chat services. The sender is verified here; the board interprets
//! the payload and decides the response.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use patchboard_core::BoardError;
use patchboard_core::caller::{Caller, Grant, GrantSet, Principal, Surface};
use patchboard_core::command::ReceiveWebhook;
use patchboard_core::port::Clock;
use patchboard_core::webhook::Webhook;
use secrecy::SecretString;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Gateway;
use crate::auth::TokenRefusal;
use crate::limit::{RateLimit, TokenBucket};
use crate::listen::Peer;
use crate::local_users::UserRejection;
use crate::trace::traceparent;
use crate::{pump, telemetry};

mod headers;
mod response;
mod verify;

use response::WebhookRejection;
pub use verify::{SIGNATURE_HEADER, TOKEN_HEADER, VerifyMethod};
use verify::{Signature, VerifyError};

const SURFACE: &str = "webhook";
/// Largest body in bytes; a larger one is refused.
const MAX_BODY: usize = 1024 * 1024;
/// Deadline for receiving the whole body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A channel's webhook endpoint as configured.
#[derive(Clone)]
pub struct WebhookChannel {
    pub name: Arc<str>,
    pub verify: VerifyMethod,
    /// The shared secret. If it is missing or empty, every method that needs it rejects all webhooks.
    pub secret: Option<SecretString>,
    /// Largest difference between a signed timestamp and the current time.
    pub replay_window: Duration,
    /// Limits verified webhooks; further ones are refused.
    pub rate: RateLimit,
}

impl fmt::Debug for WebhookChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookChannel").field("name", &self.name).field("verify", &self.verify).finish_non_exhaustive()
    }
}

/// The webhook endpoints of all channels.
pub(super) struct Channels {
    channels: HashMap<Arc<str>, ChannelEndpoint>,
    clock: Arc<dyn Clock>,
    started: Instant,
}

struct ChannelEndpoint {
    channel: WebhookChannel,
    rate_bucket: Mutex<TokenBucket>,
}

impl Channels {
    pub(super) fn new(channels: Vec<WebhookChannel>, clock: Arc<dyn Clock>) -> Self {
        let endpoint = |channel: WebhookChannel| {
            let rate = Mutex::new(TokenBucket::new(channel.rate, Duration::ZERO));
            (channel.name.clone(), ChannelEndpoint { channel, rate_bucket: rate })
        };
        Self { channels: channels.into_iter().map(endpoint).collect(), clock, started: Instant::now() }
    }

    /// Other local users only learn of channels that require authentication.
    fn find(
        &self,
        channel: &str,
        method: &Method,
        rejection: Option<UserRejection>,
    ) -> Result<&ChannelEndpoint, WebhookRejection> {
        let endpoint = self.channels.get(channel);
        if let Some(rejection) = rejection
            && endpoint.is_none_or(|endpoint| endpoint.channel.verify == VerifyMethod::None)
        {
            return Err(WebhookRejection::new(StatusCode::FORBIDDEN, rejection.text()));
        }
        let endpoint = endpoint.ok_or_else(|| WebhookRejection::unknown_channel(channel))?;
        if method == Method::POST { Ok(endpoint) } else { Err(WebhookRejection::method_not_allowed()) }
    }
}

impl Gateway {
    /// Delays the response to a wrong signature like that to a wrong token. Correct ones are never delayed: all
    /// webhooks of a service may come from one proxy's address, which other clients share.
    async fn reject(&self, error: VerifyError, endpoint: &ChannelEndpoint, from: IpAddr) -> WebhookRejection {
        let reason = match error {
            VerifyError::Signature => "signature",
            VerifyError::Stale => "stale",
            VerifyError::NotLocal => "address",
        };
        telemetry::refused(SURFACE, reason);
        tracing::debug!(surface = SURFACE, channel = &*endpoint.channel.name, reason, "webhook refused");
        if error == VerifyError::Signature
            && self.context.gate.delay_failed_attempt(from).await == TokenRefusal::CloseUnanswered
        {
            return WebhookRejection::close_unanswered();
        }
        WebhookRejection::unverified(error)
    }
}

impl ChannelEndpoint {
    fn read_signature(&self, headers: &HeaderMap, from: IpAddr) -> Result<Signature<'_>, VerifyError> {
        verify::read_signature(&self.channel.verify, self.channel.secret.as_ref(), headers, from)
    }

    fn take_rate_token(&self, now: Duration) -> Result<(), WebhookRejection> {
        let mut rate = self.rate_bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if rate.take(now) {
            return Ok(());
        }
        telemetry::refused(SURFACE, "rate");
        Err(WebhookRejection::rate_limited(rate.time_until_available(now)))
    }

    fn caller(&self) -> Caller {
        Caller {
            surface: Surface::Webhook,
            principal: Principal::Channel(self.channel.name.clone()),
            connection: pump::next_connection(),
            grants: GrantSet::NONE.with(Grant::Converse),
        }
    }
}

pub(super) async fn receive(
    State(gateway): State<Gateway>,
    Path(channel): Path<String>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let admitted = gateway.admit(&channel, &peer, &head, body).await;
    let (endpoint, webhook) = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => return refusal.into_response(),
    };
    peer.read_budget.message_completed();
    if let Err(refusal) = endpoint.take_rate_token(gateway.channels.started.elapsed()) {
        return refusal.into_response();
    }
    gateway.deliver(endpoint, webhook, traceparent(&head.headers)).await
}

impl Gateway {
    /// Verifies a request and returns its webhook.
    async fn admit(
        &self,
        channel: &str,
        peer: &Peer,
        head: &request::Parts,
        body: Body,
    ) -> Result<(&ChannelEndpoint, Webhook), WebhookRejection> {
        let endpoint = self.channels.find(channel, &head.method, peer.user_rejection)?;
        if self.context.draining.is_cancelled() {
            return Err(BoardError::shutting_down().into());
        }
        // The body is not read before the head proves that the sender may be legitimate.
        let signature = match endpoint.read_signature(&head.headers, peer.address) {
            Ok(signature) => signature,
            Err(error) => return Err(self.reject(error, endpoint, peer.address).await),
        };
        let body = read_body(&head.headers, body).await?;
        let window = endpoint.channel.replay_window;
        if let Err(error) = signature.verify_body(&body, self.channels.clock.now(), window) {
            return Err(self.reject(error, endpoint, peer.address).await);
        }
        let query = head.uri.query().unwrap_or_default();
        let webhook = Webhook {
            method: head.method.as_str().to_owned(),
            query: query.to_owned(),
            headers: headers::forwarded_headers(&head.headers, &endpoint.channel.verify),
            digest: signature.digest(&body, query).into(),
            body,
        };
        Ok((endpoint, webhook))
    }

    /// Runs in its own task: an accepted webhook is processed even if its sender disconnects.
    async fn deliver(&self, endpoint: &ChannelEndpoint, webhook: Webhook, traceparent: Option<&str>) -> Response {
        let stop = CancellationToken::new();
        let stop_on_drop = stop.clone().drop_guard();
        let command = ReceiveWebhook { channel: endpoint.channel.name.clone(), webhook };
        let future = self.context.board.ask_traced(&endpoint.caller(), command, stop, traceparent);
        let answer = self.tracker.spawn(future).await;
        stop_on_drop.disarm();
        match answer.unwrap_or_else(|_| Err(BoardError::shutting_down())) {
            Ok(outcome) => response::webhook_response(outcome),
            Err(error) => WebhookRejection::from(error).into_response(),
        }
    }
}

async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, WebhookRejection> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > MAX_BODY as u64) {
        return Err(WebhookRejection::too_large());
    }
    let reading = async {
        let mut chunks = body.into_data_stream();
        let mut whole = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| WebhookRejection::new(StatusCode::BAD_REQUEST, "the body broke off"))?;
            if whole.len() + chunk.len() > MAX_BODY {
                return Err(WebhookRejection::too_large());
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.into())
    };
    let late = || WebhookRejection::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
    tokio::time::timeout(BODY_TIMEOUT, reading).await.map_err(|_| late())?
}

#[cfg(test)]
mod tests;
