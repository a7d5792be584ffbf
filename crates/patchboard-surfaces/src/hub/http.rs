//! The hub's HTTP API: its routes and error format. The extractors of `requests` parse each request; a handler in
//! `messages` or `apps` answers it on behalf of a `client`.

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};

use self::client::Client;
use self::requests::{AppPath, LabelPath, MessagePath};
use super::Hub;
use super::error::ApiError;
use super::wire::{self, report};

mod answer_watch;
mod apps;
mod client;
mod messages;
mod requests;

/// Paths with this prefix are the API; all others are for WebSockets.
const API_PREFIX: &str = "/v1/";

pub(super) fn routes() -> Router<Hub> {
    Router::new()
        .route("/v1/messages", only::<()>("GET, POST").get(messages::list).post(messages::submit))
        .route("/v1/messages/{message}", only::<MessagePath>("GET").get(messages::read))
        .route("/v1/messages/{message}/resend", only::<MessagePath>("POST").post(messages::resend))
        .route("/v1/messages/{message}/route", only::<MessagePath>("POST").post(messages::send_to))
        .route("/v1/messages/{message}/cancel", only::<MessagePath>("POST").post(messages::cancel))
        .route("/v1/route", only::<()>("POST").post(messages::explain))
        .route("/v1/clients", only::<()>("GET").get(apps::list))
        .route("/v1/clients/{name}/approve", only::<AppPath>("POST").post(apps::approve))
        .route("/v1/clients/{name}/pair", only::<AppPath>("POST").post(apps::pair))
        .route("/v1/clients/{name}/forget", only::<LabelPath>("POST").post(apps::forget))
        .fallback(unmatched)
}

/// Fallback of a path: other methods get 405 with the allowed ones. The extractors run first, so a wrong token or an
/// invalid name in the path is reported for every method.
fn only<P: FromRequestParts<Hub> + Send + 'static>(allow: &'static str) -> MethodRouter<Hub> {
    let refuse = move |_: Client, _: P| async move { ApiError::method_not_allowed(allow) };
    // axum routes HEAD to GET handlers; this API rejects it.
    any(refuse).head(refuse)
}

async fn unmatched(State(hub): State<Hub>, request: Request) -> Response {
    let (mut head, _) = request.into_parts();
    if !head.uri.path().starts_with(API_PREFIX) {
        return outside_api(&head.method);
    }
    match Client::from_request_parts(&mut head, &hub).await {
        Ok(_) => ApiError::not_found("there is nothing at this path").into_response(),
        Err(refused) => refused,
    }
}

/// A plain request to a path that serves only WebSockets.
fn outside_api(method: &Method) -> Response {
    if method != Method::GET {
        return ApiError::method_not_allowed("GET").into_response();
    }
    let text = "apps connect here with a WebSocket; utterances go to POST /v1/messages\n";
    // The client intended to open a WebSocket, so no further request is expected on this connection.
    let headers = [(header::UPGRADE, "websocket"), (header::CONNECTION, "close")];
    (StatusCode::UPGRADE_REQUIRED, headers, text).into_response()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let fault = report::ErrorDetail { code: self.code, message: &self.message };
        let mut response = json(self.status, wire::encode(&report::ErrorBody { error: fault }));
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(methods) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(methods));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

fn json(status: StatusCode, text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, text).into_response()
}
