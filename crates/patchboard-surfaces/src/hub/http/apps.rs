//! Apps, called clients in the API: listing, approval, pairing and removal.

use axum::http::StatusCode;
use axum::response::Response;
use patchboard_core::command::{ApproveApp, ForgetApp, ListApps, PairApp};
use uuid::Uuid;

use super::client::Client;
use super::json;
use super::requests::{ApiBody, AppPath, ForgetBody, Ignored, LabelPath};
use crate::hub::error::ApiError;
use crate::hub::map;
use crate::hub::wire::{self, report};

pub(super) async fn list(client: Client) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, map::clients(&client.ask(ListApps).await?)))
}

pub(super) async fn approve(
    client: Client,
    AppPath(app): AppPath,
    ApiBody(Ignored): ApiBody<Ignored>,
) -> Result<Response, ApiError> {
    client.ask(ApproveApp { app: app.into() }).await?;
    Ok(done())
}

pub(super) async fn pair(
    client: Client,
    AppPath(app): AppPath,
    ApiBody(Ignored): ApiBody<Ignored>,
) -> Result<Response, ApiError> {
    let Pairing { command, token } = Pairing::with_fresh_token(app);
    client.ask(command).await?;
    Ok(json(StatusCode::OK, wire::encode(&report::PairingToken { token: &token })))
}

pub(super) async fn forget(
    client: Client,
    LabelPath(app): LabelPath,
    ApiBody(ForgetBody { unpair }): ApiBody<ForgetBody>,
) -> Result<Response, ApiError> {
    client.ask(ForgetApp { app: app.into(), unpair }).await?;
    Ok(done())
}

fn done() -> Response {
    json(StatusCode::OK, wire::encode(&report::DoneBody { ok: true }))
}

/// The token is shown once, in the response; the board stores its hash.
struct Pairing {
    command: PairApp,
    token: String,
}

impl Pairing {
    /// The token has 244 random bits.
    fn with_fresh_token(app: String) -> Self {
        let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        Self { command: PairApp { app: app.into(), token: map::hash_token(&token) }, token }
    }
}

#[cfg(test)]
mod tests;
