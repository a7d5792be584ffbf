//! `POST /webhook/{channel}`: what other services post for people who talk to agents there. Whether it comes from them
//! is found out here; what it means, and what is answered, is the board's business.

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
use patchboard_core::access::{Caller, Grant, Grants, Surface};
use patchboard_core::channel::Webhook;
use patchboard_core::command::Command;
use patchboard_core::port::Clock;
use patchboard_core::{BoardError, trace};
use secrecy::SecretString;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Gateway;
use crate::auth::Verdict;
use crate::limit::{Bucket, Rate};
use crate::listen::Peer;
use crate::local_users::Stranger;
use crate::trace::traceparent;
use crate::{pump, telemetry};

mod answer;
mod headers;
mod verify;

use answer::Refusal;
use verify::{Doubt, Proof};
pub use verify::{SIGNATURE_HEADER, TOKEN_HEADER, Verify};

const NAME: &str = "webhook";
/// Largest body in bytes; a larger one is refused.
const MAX_BODY: usize = 1024 * 1024;
/// A body that is not whole by then is given up.
const BODY_PATIENCE: Duration = Duration::from_secs(10);

/// One channel, as far as its door goes.
#[derive(Clone)]
pub struct ChannelCheck {
    pub name: Arc<str>,
    pub verify: Verify,
    /// What both sides know. Without one, or with an empty one, nobody is let in who would have to show it.
    pub secret: Option<SecretString>,
    /// How far the time of a signed webhook may be off.
    pub replay_window: Duration,
    /// Webhooks that were found right; further ones are refused.
    pub rate: Rate,
}

impl fmt::Debug for ChannelCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelCheck").field("name", &self.name).field("verify", &self.verify).finish_non_exhaustive()
    }
}

/// The doors of all channels.
pub(super) struct Doors {
    channels: HashMap<Arc<str>, Door>,
    clock: Arc<dyn Clock>,
    started: Instant,
}

struct Door {
    check: ChannelCheck,
    rate: Mutex<Bucket>,
}

impl Doors {
    pub(super) fn new(channels: Vec<ChannelCheck>, clock: Arc<dyn Clock>) -> Self {
        let door = |check: ChannelCheck| {
            let rate = Mutex::new(Bucket::new(check.rate, Duration::ZERO));
            (check.name.clone(), Door { check, rate })
        };
        Self { channels: channels.into_iter().map(door).collect(), clock, started: Instant::now() }
    }

    /// Other users of the machine are only told of channels that make them show something.
    fn find(&self, channel: &str, method: &Method, stranger: Option<Stranger>) -> Result<&Door, Refusal> {
        let door = self.channels.get(channel);
        if let Some(stranger) = stranger
            && door.is_none_or(|door| door.check.verify == Verify::None)
        {
            return Err(Refusal::new(StatusCode::FORBIDDEN, stranger.text()));
        }
        let door = door.ok_or_else(|| Refusal::unknown(channel))?;
        if method == Method::POST { Ok(door) } else { Err(Refusal::method()) }
    }
}

impl Gateway {
    /// Wrong signatures wait in the lane of wrong tokens. Only wrong ones do: a whole service may come from one address,
    /// that of a proxy, and must not be slowed down by others behind it.
    async fn turn_away(&self, doubt: Doubt, door: &Door, from: IpAddr) -> Refusal {
        let reason = match doubt {
            Doubt::Signature => "signature",
            Doubt::Stale => "stale",
            Doubt::Elsewhere => "address",
        };
        telemetry::refused(NAME, reason);
        tracing::debug!(surface = NAME, channel = &*door.check.name, reason, "webhook refused");
        if doubt == Doubt::Signature && self.plug.gate.wrong(from).await == Verdict::Cut {
            return Refusal::cut();
        }
        Refusal::doubt(doubt)
    }
}

impl Door {
    fn proof(&self, headers: &HeaderMap, from: IpAddr) -> Result<Proof<'_>, Doubt> {
        verify::read(&self.check.verify, self.check.secret.as_ref(), headers, from)
    }

    fn take_turn(&self, now: Duration) -> Result<(), Refusal> {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if rate.take(now) {
            return Ok(());
        }
        telemetry::refused(NAME, "rate");
        Err(Refusal::too_fast(rate.wait(now)))
    }

    fn caller(&self) -> Caller {
        Caller {
            surface: Surface::Webhook,
            principal: format!("channel:{}", self.check.name).into(),
            connection: pump::next_connection(),
            grants: Grants::NONE.with(Grant::Converse),
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
    let (door, webhook) = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => {
            // Much of it may still be on its way.
            peer.reads.linger();
            return refusal.into_response();
        }
    };
    peer.reads.finished();
    if let Err(refusal) = door.take_turn(gateway.doors.started.elapsed()) {
        return refusal.into_response();
    }
    gateway.take(door, webhook, traceparent(&head.headers)).await
}

impl Gateway {
    /// What was posted, if it comes from whom it should.
    async fn admit(
        &self,
        channel: &str,
        peer: &Peer,
        head: &request::Parts,
        body: Body,
    ) -> Result<(&Door, Webhook), Refusal> {
        let door = self.doors.find(channel, &head.method, peer.stranger)?;
        if self.plug.draining.is_cancelled() {
            return Err(BoardError::shutting_down().into());
        }
        // Nobody's body is read who has nothing to show for it.
        let proof = match door.proof(&head.headers, peer.address) {
            Ok(proof) => proof,
            Err(doubt) => return Err(self.turn_away(doubt, door, peer.address).await),
        };
        let body = read(&head.headers, body).await?;
        let window = door.check.replay_window;
        if let Err(doubt) = proof.covers(&body, self.doors.clock.now(), window) {
            return Err(self.turn_away(doubt, door, peer.address).await);
        }
        let query = head.uri.query().unwrap_or_default();
        let webhook = Webhook {
            method: head.method.as_str().to_owned(),
            query: query.to_owned(),
            headers: headers::passed_on(&head.headers, &door.check.verify),
            digest: proof.digest(&body, query).into(),
            body,
        };
        Ok((door, webhook))
    }

    /// In a task of its own: what was posted is taken, whether or not its sender is still there.
    async fn take(&self, door: &Door, webhook: Webhook, traceparent: Option<&str>) -> Response {
        let stop = CancellationToken::new();
        let gone = stop.clone().drop_guard();
        let command = Command::ReceiveWebhook { channel: door.check.name.clone(), webhook };
        let asking = trace::ask(&self.plug.board, &door.caller(), command, stop, traceparent);
        let answer = self.tracker.spawn(asking).await;
        gone.disarm();
        match answer.unwrap_or_else(|_| Err(BoardError::shutting_down())) {
            Ok(reply) => answer::of(reply),
            Err(error) => Refusal::from(error).into_response(),
        }
    }
}

async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > MAX_BODY as u64) {
        return Err(Refusal::too_large());
    }
    let reading = async {
        let mut pieces = body.into_data_stream();
        let mut whole = Vec::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| Refusal::new(StatusCode::BAD_REQUEST, "the body broke off"))?;
            if whole.len() + piece.len() > MAX_BODY {
                return Err(Refusal::too_large());
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.into())
    };
    let late = || Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
    tokio::time::timeout(BODY_PATIENCE, reading).await.map_err(|_| late())?
}

#[cfg(test)]
mod tests;
