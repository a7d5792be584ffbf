//! One request: may it come in, who asks, and what is it for? The order matters: what a web page could send is refused
//! before anything else is looked at, and nobody's message is read before it is known whose it is.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use patchboard_core::access::{Caller, Grant, Grants, Surface};
use patchboard_core::bridge::WorkerSecret;
use patchboard_proto::WORKER_SECRET_HEADER;
use patchboard_proto::pb::bridge_service_server::BridgeServiceServer;
use subtle::ConstantTimeEq;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tower::{Service, ServiceExt};

use super::SURFACE;
use super::connection::{Door, Visitor};
use super::counts::{Counts, Method as Rpc, Outcome};
use super::service::Turn;
use super::upload::{Charge, Download, Upload};
use crate::auth::{self, Identity, Verdict};
use crate::guard::Refusal;
use crate::telemetry;

/// A client has little to say to streams that go both ways.
const MAX_CONTROL: usize = 256 * 1024;

/// What a path stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    Bridge(Rpc),
    HealthCheck,
    Health,
    /// Which of the versions there are.
    Reflection(usize),
    Unknown,
}

/// Instead of an answer: the call is reset. Others on the same connection go on.
#[derive(Debug, thiserror::Error)]
#[error("reset without an answer")]
pub(super) struct Reset;

impl From<Infallible> for Reset {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Why a call is not let in.
enum NotIn {
    Refused(Status),
    Reset,
}

impl From<Status> for NotIn {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

pub(super) async fn answer(visitor: Arc<Visitor>, request: Request<Incoming>) -> Result<Response<Body>, Reset> {
    if let Err((http, status)) = examine(&visitor, &request) {
        let mut response = status.into_http();
        *response.status_mut() = http;
        return Ok(response);
    }
    let aim = Aim::of(request.uri().path());
    let identity = match identify(&visitor, request.headers(), aim).await {
        Ok(identity) => identity,
        Err(NotIn::Refused(status)) => return Ok(status.into_http()),
        Err(NotIn::Reset) => return Err(Reset),
    };
    visitor.admitted();
    let largest = visitor.bridge.0.limits.message;
    match aim {
        Aim::Bridge(rpc) => {
            let charge = Arc::new(Charge::new(visitor.bridge.0.uploads.clone()));
            let is_two_way = rpc == Rpc::StreamTelemetry;
            let request = request.map(|body| match is_two_way {
                true => Upload::stream(body),
                false => Upload::whole(body, charge.clone()),
            });
            let turn = Turn {
                bridge: visitor.bridge.clone(),
                caller: caller(&visitor, identity),
                worker: match &visitor.door {
                    Door::Private { worker, .. } => Some(worker.clone()),
                    Door::Public { .. } | Door::Unix => None,
                },
                charge: charge.clone(),
            };
            let mut service = BridgeServiceServer::new(turn)
                .max_decoding_message_size(if is_two_way { MAX_CONTROL.min(largest) } else { largest })
                .max_encoding_message_size(largest);
            let mut counted =
                Counted { counts: &visitor.bridge.0.counts, rpc, outcome: Outcome::Ended(Code::Cancelled) };
            let response = service.call(request).await?;
            counted.outcome = Outcome::of(response.headers(), rpc);
            drop(counted);
            match charge.is_large() {
                true => Ok(response.map(|body| Body::new(Download::new(body, charge)))),
                false => Ok(response),
            }
        }
        Aim::HealthCheck | Aim::Health => {
            let health = HealthServer::from_arc(visitor.bridge.0.health.clone()).max_decoding_message_size(MAX_CONTROL);
            Ok(health.oneshot(request.map(Upload::stream)).await?)
        }
        Aim::Reflection(version) => match visitor.reflection(version) {
            Some(reflection) => Ok(reflection.clone().oneshot(request.map(Upload::stream)).await?),
            None => Ok(unknown()),
        },
        Aim::Unknown => Ok(unknown()),
    }
}

/// Counts a call, however it ends.
struct Counted<'a> {
    counts: &'a Counts,
    rpc: Rpc,
    outcome: Outcome,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.counts.count(self.rpc, self.outcome);
    }
}

impl Aim {
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

fn unknown() -> Response<Body> {
    Status::unimplemented("there is no such method here").into_http()
}

/// What a request has to be before it is anybody's.
fn examine(visitor: &Visitor, request: &Request<Incoming>) -> Result<(), (StatusCode, Status)> {
    let headers = request.headers();
    let guard = match &visitor.door {
        Door::Public { .. } => Some(&visitor.bridge.0.guard),
        Door::Private { .. } => Some(&visitor.bridge.0.private_guard),
        // No web page reaches a socket in the file system, and clients call it by all kinds of names.
        Door::Unix => None,
    };
    if let Some(guard) = guard {
        let authority = request.uri().authority().map(|authority| authority.as_str());
        let (reason, words) = match guard.check(authority, headers) {
            Ok(()) => ("", ""),
            Err(Refusal::Host) => {
                ("host", "this :authority is not served here; add it to allowed_hosts if it should be")
            }
            Err(Refusal::Origin) => ("origin", "web pages may not talk to this server"),
        };
        if !reason.is_empty() {
            telemetry::refused(SURFACE, reason);
            return Err((StatusCode::FORBIDDEN, Status::permission_denied(words)));
        }
    }
    let content = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    if request.method() != Method::POST || !content.starts_with(b"application/grpc") {
        let status = Status::new(Code::Unknown, "this server speaks gRPC only");
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, status));
    }
    Ok(())
}

async fn identify(visitor: &Visitor, headers: &HeaderMap, aim: Aim) -> Result<Identity, NotIn> {
    let (address, is_certified) = match &visitor.door {
        Door::Public { stranger: Some(stranger), .. } => {
            return Err(Status::permission_denied(stranger.text()).into());
        }
        Door::Public { address, is_certified, stranger: None } => (address.to_canonical(), *is_certified),
        Door::Unix => (IpAddr::V4(Ipv4Addr::LOCALHOST), false),
        Door::Private { worker, principal, secret } => {
            if !is_of_the_worker(headers, secret) {
                telemetry::refused(SURFACE, "secret");
                tracing::warn!(worker.id = %worker, "somebody without its secret called on a worker's line");
                let words = "this line is a worker's that shows its secret, and this call came without it; after its \
                             program was replaced by one without the SDK, restart the server";
                return Err(Status::unauthenticated(words).into());
            }
            let grants = Grants::NONE.with(Grant::Converse).with(Grant::Inspect);
            return Ok(Identity { principal: principal.clone(), grants });
        }
    };
    let bridge = &visitor.bridge.0;
    let Some(given) = headers.get(header::AUTHORIZATION) else {
        let is_open = address.is_loopback() || is_certified;
        let anonymous = bridge.gate.anonymous().filter(|_| is_open);
        // Whoever watches over the server on this machine needs no token to see that it is there.
        let watching = || {
            let is_watching = aim == Aim::HealthCheck && address.is_loopback();
            is_watching.then(|| Identity { principal: "local".into(), grants: Grants::NONE })
        };
        return match anonymous {
            Some(identity) if is_certified => Ok(Identity { principal: "certificate".into(), ..identity }),
            Some(identity) => Ok(identity),
            None => watching().ok_or_else(no_token),
        };
    };
    let token = auth::bearer(given).ok_or_else(no_token)?;
    match bridge.gate.check(address, token).await {
        Verdict::Accepted(identity) => Ok(identity),
        Verdict::Wrong => Err(no_token()),
        Verdict::Cut => Err(NotIn::Reset),
    }
}

fn no_token() -> NotIn {
    NotIn::Refused(Status::unauthenticated("missing or wrong token: send `authorization: Bearer <token>`"))
}

/// Does the call come with the worker's secret, or is the worker one that does not know of any? Whoever shows the right one
/// once shows it always.
fn is_of_the_worker(headers: &HeaderMap, secret: &WorkerSecret) -> bool {
    let Some(given) = headers.get(WORKER_SECRET_HEADER) else { return !secret.is_demanded() };
    let is_right = bool::from(given.as_bytes().ct_eq(secret.expose().as_bytes()));
    if is_right {
        secret.demand();
    }
    is_right
}

fn caller(visitor: &Visitor, identity: Identity) -> Caller {
    Caller {
        // The operator's own client is as good as the operator's command line.
        surface: if identity.grants.has(Grant::Operate) { Surface::Cli } else { Surface::Bridge },
        principal: identity.principal,
        connection: visitor.connection,
        grants: identity.grants,
    }
}
