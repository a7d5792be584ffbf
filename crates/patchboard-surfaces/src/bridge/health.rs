//! `grpc.health.v1`: reports `SERVING` until shutdown.

use std::pin::Pin;

use futures_util::{Stream, StreamExt, stream};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// The server as a whole, and its only service.
const SERVICES: [&str; 2] = ["", "snakepit.bridge.BridgeService"];

/// Shared through an `Arc`.
#[derive(Debug)]
pub(super) struct HealthService {
    pub(super) draining: CancellationToken,
}

impl HealthService {
    fn serving_status(&self) -> ServingStatus {
        if self.draining.is_cancelled() { ServingStatus::NotServing } else { ServingStatus::Serving }
    }
}

fn health_response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl health_server::Health for HealthService {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if !SERVICES.contains(&request.get_ref().service.as_str()) {
            return Err(Status::not_found("there is no such service here"));
        }
        Ok(Response::new(health_response(self.serving_status())))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// Ends at shutdown, after the change of status.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let is_known = SERVICES.contains(&request.get_ref().service.as_str());
        let first = if is_known { self.serving_status() } else { ServingStatus::ServiceUnknown };
        let draining = self.draining.clone();
        let rest = stream::once(async move {
            draining.cancelled().await;
            Ok(health_response(if is_known { ServingStatus::NotServing } else { ServingStatus::ServiceUnknown }))
        });
        let is_over = first == ServingStatus::NotServing;
        let first = stream::once(std::future::ready(Ok(health_response(first))));
        let watching: Self::WatchStream = if is_over { Box::pin(first) } else { Box::pin(first.chain(rest)) };
        Ok(Response::new(watching))
    }
}
