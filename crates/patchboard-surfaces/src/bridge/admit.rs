//! Admits one request: checks it, authenticates the caller and dispatches it. The order matters: requests that a web
//! page could send are refused before anything else is examined, and no message is read before its sender is
//! authenticated.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use patchboard_core::bridge::WorkerSecret;
use patchboard_core::caller::{Caller, Grant, GrantSet, Principal, Surface};
use patchboard_core::loopback::is_loopback_address;
use patchboard_proto::WORKER_SECRET_HEADER;
use patchboard_proto::pb::bridge_service_server::BridgeServiceServer;
use subtle::ConstantTimeEq;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tower::{Service, ServiceExt};

use super::SURFACE;
use super::connection::{ConnectionKind, PeerConnection};
use super::metered_body::{DownloadBody, MemoryCharge, UploadBody};
use super::rpc_counters::{RpcCounters, RpcMethod as Rpc, RpcOutcome};
use super::service::BridgeRpc;
use crate::auth::{ClientIdentity, ShownToken, TokenRefusal, WRONG_SURFACE};
use crate::guard::GuardRejection;
use crate::telemetry;

/// Message limit for bidirectional streams, whose clients send little.
const MAX_CONTROL: usize = 256 * 1024;

/// The service and method that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RpcTarget {
    Bridge(Rpc),
    HealthCheck,
    Health,
    /// The index of the protocol version.
    Reflection(usize),
    Unknown,
}

/// Resets the call's HTTP/2 stream without a response; other calls on the connection continue.
#[derive(Debug, thiserror::Error)]
#[error("reset without an answer")]
pub(super) struct CallReset;

impl From<Infallible> for CallReset {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Why a call is not admitted.
enum CallRefusal {
    Refused(Status),
    Reset,
}

impl From<Status> for CallRefusal {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl From<TokenRefusal> for CallRefusal {
    fn from(refusal: TokenRefusal) -> Self {
        match refusal {
            TokenRefusal::Unauthenticated => {
                Status::unauthenticated("missing or wrong token: send `authorization: Bearer <token>`").into()
            }
            TokenRefusal::CloseUnanswered => Self::Reset,
            TokenRefusal::WrongSurface => Status::permission_denied(WRONG_SURFACE).into(),
        }
    }
}

pub(super) async fn handle(peer: Arc<PeerConnection>, request: Request<Incoming>) -> Result<Response<Body>, CallReset> {
    if let Err((http, status)) = check_request(&peer, &request) {
        let mut response = status.into_http();
        *response.status_mut() = http;
        return Ok(response);
    }
    let target = RpcTarget::of(request.uri().path());
    let identity = match identify(&peer, request.headers(), target).await {
        Ok(identity) => identity,
        Err(CallRefusal::Refused(status)) => return Ok(status.into_http()),
        Err(CallRefusal::Reset) => return Err(CallReset),
    };
    peer.mark_admitted();
    if let Some(key) = &identity.key {
        peer.end_with(key);
    }
    let largest = peer.bridge.0.limits.message;
    match target {
        RpcTarget::Bridge(rpc) => {
            let charge = Arc::new(MemoryCharge::new(peer.bridge.0.message_memory.clone()));
            let is_two_way = rpc == Rpc::StreamTelemetry;
            let request = request.map(|body| match is_two_way {
                true => UploadBody::stream(body),
                false => UploadBody::unary(body, charge.clone()),
            });
            let call = BridgeRpc {
                bridge: peer.bridge.clone(),
                caller: caller(&peer, identity),
                worker: match &peer.kind {
                    ConnectionKind::Worker { worker, .. } => Some(worker.clone()),
                    ConnectionKind::Public { .. } | ConnectionKind::Unix => None,
                },
                charge: charge.clone(),
            };
            let mut service = BridgeServiceServer::new(call)
                .max_decoding_message_size(if is_two_way { MAX_CONTROL.min(largest) } else { largest })
                .max_encoding_message_size(largest);
            let mut counted =
                CountedCall { counts: &peer.bridge.0.rpc_counters, rpc, outcome: RpcOutcome::Ended(Code::Cancelled) };
            let response = service.call(request).await?;
            counted.outcome = RpcOutcome::of(response.headers(), rpc);
            drop(counted);
            match charge.is_large() {
                true => Ok(response.map(|body| Body::new(DownloadBody::new(body, charge)))),
                false => Ok(response),
            }
        }
        RpcTarget::HealthCheck | RpcTarget::Health => {
            let health = HealthServer::from_arc(peer.bridge.0.health.clone()).max_decoding_message_size(MAX_CONTROL);
            Ok(health.oneshot(request.map(UploadBody::stream)).await?)
        }
        RpcTarget::Reflection(version) => match peer.reflection(version) {
            Some(reflection) => Ok(reflection.clone().oneshot(request.map(UploadBody::stream)).await?),
            None => Ok(unimplemented()),
        },
        RpcTarget::Unknown => Ok(unimplemented()),
    }
}

/// Counts a call on drop, so that every outcome is counted.
struct CountedCall<'a> {
    counts: &'a RpcCounters,
    rpc: Rpc,
    outcome: RpcOutcome,
}

impl Drop for CountedCall<'_> {
    fn drop(&mut self) {
        self.counts.count(self.rpc, self.outcome);
    }
}

impl RpcTarget {
    fn of(path: &str) -> Self {
        let Some((service, method)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
            return Self::Unknown;
        };
        match service {
            "snakepit.bridge.BridgeService" => Self::Bridge(Rpc::of(method)),
            "grpc.health.v1.Health" if method == "Check" => Self::HealthCheck,
            "grpc.health.v1.Health" => Self::Health,
            "grpc.reflection.v1.ServerReflection" => Self::Reflection(0),
            "grpc.reflection.v1alpha.ServerReflection" => Self::Reflection(1),
            _ => Self::Unknown,
        }
    }
}

fn unimplemented() -> Response<Body> {
    Status::unimplemented("there is no such method here").into_http()
}

/// Checks that need no authentication: host, origin, method and content type.
fn check_request(peer: &PeerConnection, request: &Request<Incoming>) -> Result<(), (StatusCode, Status)> {
    let headers = request.headers();
    let guard = match &peer.kind {
        ConnectionKind::Public { .. } => Some(&peer.bridge.0.guard),
        ConnectionKind::Worker { .. } => Some(&peer.bridge.0.worker_guard),
        // Web pages cannot reach a Unix socket, and clients send arbitrary authorities there.
        ConnectionKind::Unix => None,
    };
    if let Some(guard) = guard {
        let authority = request.uri().authority().map(|authority| authority.as_str());
        let (reason, message) = match guard.check(authority, headers) {
            Ok(()) => ("", ""),
            Err(GuardRejection::Host) => {
                ("host", "this :authority is not served here; add it to allowed_hosts if it should be")
            }
            Err(GuardRejection::Origin) => ("origin", "web pages may not talk to this server"),
        };
        if !reason.is_empty() {
            telemetry::refused(SURFACE, reason);
            return Err((StatusCode::FORBIDDEN, Status::permission_denied(message)));
        }
    }
    let content = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    if request.method() != Method::POST || !content.starts_with(b"application/grpc") {
        let status = Status::new(Code::Unknown, "this server speaks gRPC only");
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, status));
    }
    Ok(())
}

async fn identify(
    peer: &PeerConnection,
    headers: &HeaderMap,
    target: RpcTarget,
) -> Result<ClientIdentity, CallRefusal> {
    let (address, is_certified) = match &peer.kind {
        ConnectionKind::Public { user_rejection: Some(rejection), .. } => {
            return Err(Status::permission_denied(rejection.text()).into());
        }
        ConnectionKind::Public { address, is_certified, user_rejection: None } => {
            (address.to_canonical(), *is_certified)
        }
        ConnectionKind::Unix => (IpAddr::V4(Ipv4Addr::LOCALHOST), false),
        ConnectionKind::Worker { worker, principal, secret } => {
            if !has_worker_secret(headers, secret) {
                telemetry::refused(SURFACE, "secret");
                tracing::warn!(worker.id = %worker, "call without the worker's secret on its listener");
                let message = "this line is a worker's that shows its secret, and this call came without it; after its \
                             program was replaced by one without the SDK, restart the server";
                return Err(Status::unauthenticated(message).into());
            }
            let grants = GrantSet::NONE.with(Grant::Converse).with(Grant::Inspect);
            return Ok(ClientIdentity::new(principal.clone(), grants));
        }
    };
    let bridge = &peer.bridge.0;
    if let Some(identity) = bridge.gate.identify(address, ShownToken::in_header(headers), Surface::Bridge).await? {
        return Ok(identity);
    }
    let is_local = is_loopback_address(address);
    let anonymous = bridge.gate.anonymous().filter(|_| is_local || is_certified);
    // Monitoring on this machine may check the health without a token.
    let monitor_identity = || {
        let is_health_check = target == RpcTarget::HealthCheck && is_local;
        is_health_check.then(|| ClientIdentity::new(Principal::Local, GrantSet::NONE))
    };
    match anonymous {
        Some(identity) if is_certified => Ok(ClientIdentity { principal: Principal::Certificate, ..identity }),
        Some(identity) => Ok(identity),
        None => monitor_identity().ok_or_else(|| TokenRefusal::Unauthenticated.into()),
    }
}

/// Whether the call carries the worker's secret, or the secret is not required yet. A correct secret makes it required
/// on every further call.
fn has_worker_secret(headers: &HeaderMap, secret: &WorkerSecret) -> bool {
    let Some(presented) = headers.get(WORKER_SECRET_HEADER) else { return !secret.is_required() };
    let is_correct = bool::from(presented.as_bytes().ct_eq(secret.expose().as_bytes()));
    if is_correct {
        secret.require();
    }
    is_correct
}

fn caller(peer: &PeerConnection, identity: ClientIdentity) -> Caller {
    Caller {
        // The operator's client has the same rights as the command line.
        surface: if identity.grants.has(Grant::Operate) { Surface::Cli } else { Surface::Bridge },
        principal: identity.principal,
        connection: peer.connection,
        grants: identity.grants,
    }
}
