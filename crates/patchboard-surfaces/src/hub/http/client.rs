//! The client that sends a request, and its commands to the board.

use std::pin::pin;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use patchboard_core::app::message::MessageReport;
use patchboard_core::board::BoardCommand;
use patchboard_core::caller::{Caller, Grant, Surface};
use patchboard_core::command::ReadMessage;
use patchboard_core::id::{MessageId, Seq};
use patchboard_core::keys::Key;
use patchboard_core::{BoardError, ErrorKind};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer_watch::NoticeWait;
use super::requests::MessageWait;
use crate::auth::{ClientIdentity, ShownToken};
use crate::hub::Hub;
use crate::hub::error::ApiError;
use crate::listen::Peer;
use crate::pump;
use crate::trace::traceparent;

/// Extracted first, so that no part of a request is parsed before its sender is authenticated.
pub(super) struct Client {
    hub: Hub,
    caller: Caller,
    /// The key of its client.
    key: Option<Key>,
    traceparent: Option<String>,
}

impl FromRequestParts<Hub> for Client {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, hub: &Hub) -> Result<Self, Response> {
        let Some(peer) = parts.extensions.get::<Peer>() else { return Err(StatusCode::FORBIDDEN.into_response()) };
        let identity = hub.identify(peer, &parts.headers).await?;
        let caller = Caller {
            // Over HTTP the operator has the rights of the command line.
            surface: if identity.grants.has(Grant::Operate) { Surface::Cli } else { Surface::Hub },
            principal: identity.principal,
            connection: pump::next_connection(),
            grants: identity.grants,
        };
        let key = identity.key;
        Ok(Self { hub: hub.clone(), caller, key, traceparent: traceparent(&parts.headers).map(str::to_owned) })
    }
}

impl Hub {
    async fn identify(&self, peer: &Peer, headers: &HeaderMap) -> Result<ClientIdentity, Response> {
        let unauthenticated = || ApiError::unauthenticated().into_response();
        let gate = &self.0.context.gate;
        let shown = gate.identify(peer.address, ShownToken::in_header(headers), Surface::Hub).await;
        let identity = shown.map_err(|refusal| refusal.into_response(unauthenticated))?;
        let anonymous = || gate.anonymous().filter(|_| !self.0.http_needs_token);
        identity.or_else(anonymous).ok_or_else(unauthenticated)
    }
}

impl Client {
    /// Runs the command in a task of its own, to its end even if the client disconnects.
    pub(super) async fn ask<C: BoardCommand>(&self, command: C) -> Result<C::Reply, ApiError> {
        let board = &self.hub.0.context.board;
        let reply = board.ask_traced(&self.caller, command, CancellationToken::new(), self.traceparent.as_deref());
        let reply = self.hub.0.tracker.spawn(reply).await;
        reply.unwrap_or_else(|_| Err(BoardError::shutting_down())).map_err(ApiError::from)
    }

    pub(super) async fn read_message(&self, message: MessageId) -> Result<Arc<MessageReport>, ApiError> {
        self.ask(ReadMessage { message, newer_than: None }).await
    }

    /// Returns the message when the wait is over; refuses if too many requests already wait.
    pub(super) async fn wait_for(
        &self,
        mut report: Arc<MessageReport>,
        wait: MessageWait,
    ) -> Result<Arc<MessageReport>, ApiError> {
        if wait == MessageWait::No {
            return Ok(report);
        }
        let _permit = self.hub.0.wait_permits.try_acquire().map_err(|_| ApiError::too_many_waiting())?;
        match wait {
            MessageWait::No => Ok(report),
            MessageWait::Newer(seen, _) if report.version > seen => Ok(report),
            MessageWait::Newer(seen, patience) => self.wait_for_newer(report.id, seen, Instant::now() + patience).await,
            MessageWait::Settled(patience) => {
                let until = Instant::now() + patience;
                let watch = NoticeWait::new(&report, self.hub.0.timeouts.answer_window);
                while let Some(open) = watch.time_left(&report, self.hub.0.clock.now())
                    && Instant::now() < until
                    && !self.hub.0.context.draining.is_cancelled()
                {
                    let until = until.min(Instant::now() + open);
                    report = self.wait_for_newer(report.id, report.version, until).await?;
                }
                Ok(report)
            }
        }
    }

    /// Returns the message once its version is above `seen`, or its current version at the deadline.
    async fn wait_for_newer(
        &self,
        message: MessageId,
        seen: Seq,
        until: Instant,
    ) -> Result<Arc<MessageReport>, ApiError> {
        let stop = CancellationToken::new();
        let _stop_on_drop = stop.clone().drop_guard();
        let command = ReadMessage { message, newer_than: Some(seen) };
        let mut answer = pin!(self.hub.0.context.board.ask(&self.caller, command, stop.clone()));
        let revoked = async {
            match &self.key {
                Some(key) => key.revoked.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let early = tokio::select! {
            answer = answer.as_mut() => Some(answer),
            () = revoked => return Err(ApiError::unauthenticated()),
            () = tokio::time::sleep_until(until) => None,
            () = self.hub.0.context.draining.cancelled() => None,
        };
        let answer = match early {
            Some(answer) => answer,
            None => {
                stop.cancel();
                answer.await
            }
        };
        match answer {
            Ok(report) => Ok(report),
            Err(error) if error.kind == ErrorKind::Cancelled => self.read_message(message).await,
            Err(error) => Err(error.into()),
        }
    }
}
