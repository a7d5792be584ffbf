//! Messages: submit, read, resend, cancel, and explain routing.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use patchboard_core::app::message::MessageReport;
use patchboard_core::board::BoardCommand;
use patchboard_core::command::ExplainLocalRouting;
use patchboard_core::command::{CancelMessage, ExplainRouting, ListMessages, ResendMessage, SubmitMessage};

use super::client::Client;
use super::json;
use super::requests::{
    ApiBody, ApiQuery, ExplainBody, Ignored, ListQuery, MessagePath, ReadQuery, SendToBody, SubmitQuery,
};
use crate::hub::error::ApiError;
use crate::hub::map;

pub(super) async fn submit(
    client: Client,
    ApiQuery(SubmitQuery(wait)): ApiQuery<SubmitQuery>,
    ApiBody(message): ApiBody<SubmitMessage>,
) -> Result<Response, ApiError> {
    let report = client.ask(message).await?;
    let report = client.wait_for(report, wait).await?;
    Ok(json(StatusCode::ACCEPTED, map::message(&report)))
}

pub(super) async fn list(
    client: Client,
    ApiQuery(ListQuery { state, page }): ApiQuery<ListQuery>,
) -> Result<Response, ApiError> {
    let page = client.ask(ListMessages { state, page }).await?;
    Ok(json(StatusCode::OK, map::messages(&page)))
}

pub(super) async fn read(
    client: Client,
    MessagePath(message): MessagePath,
    ApiQuery(ReadQuery(wait)): ApiQuery<ReadQuery>,
) -> Result<Response, ApiError> {
    let report = client.read_message(message).await?;
    let report = client.wait_for(report, wait).await?;
    Ok(json(StatusCode::OK, map::message(&report)))
}

pub(super) async fn resend(
    client: Client,
    MessagePath(message): MessagePath,
    ApiBody(Ignored): ApiBody<Ignored>,
) -> Result<Response, ApiError> {
    change(&client, ResendMessage { message, app: None }).await
}

pub(super) async fn send_to(
    client: Client,
    MessagePath(message): MessagePath,
    ApiBody(SendToBody { app }): ApiBody<SendToBody>,
) -> Result<Response, ApiError> {
    change(&client, ResendMessage { message, app: Some(app.into()) }).await
}

pub(super) async fn cancel(
    client: Client,
    MessagePath(message): MessagePath,
    ApiBody(Ignored): ApiBody<Ignored>,
) -> Result<Response, ApiError> {
    change(&client, CancelMessage(message)).await
}

pub(super) async fn explain(
    client: Client,
    ApiBody(ExplainBody { text, local_only }): ApiBody<ExplainBody>,
) -> Result<Response, ApiError> {
    let decision = match local_only {
        true => client.ask(ExplainLocalRouting { text: text.into() }).await?,
        false => client.ask(ExplainRouting { text: text.into() }).await?,
    };
    Ok(json(StatusCode::OK, map::decision(&decision)))
}

/// Responds with the message's state after the command.
async fn change(client: &Client, command: impl BoardCommand<Reply = Arc<MessageReport>>) -> Result<Response, ApiError> {
    let report = client.ask(command).await?;
    Ok(json(StatusCode::ACCEPTED, map::message(&report)))
}
