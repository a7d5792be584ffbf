//! Messages: submitted, shown, sent again or cancelled, and how one would be routed.

use axum::http::StatusCode;
use axum::response::Response;
use patchboard_core::command::{Command, SubmitMessage};
use patchboard_core::id::MessageId;
use patchboard_core::reply::BoardReply;

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
    let report = client.ask_message(Command::SubmitMessage(message)).await?;
    let report = client.wait_for(report, wait).await?;
    Ok(json(StatusCode::ACCEPTED, map::message(&report)))
}

pub(super) async fn list(
    client: Client,
    ApiQuery(ListQuery { state, page }): ApiQuery<ListQuery>,
) -> Result<Response, ApiError> {
    let BoardReply::MessageList(page) = client.ask(Command::ListMessages { state, page }).await? else {
        return Err(ApiError::unexpected_reply());
    };
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
    change(&client, message, Command::ResendMessage { message, app: None }).await
}

pub(super) async fn send_to(
    client: Client,
    MessagePath(message): MessagePath,
    ApiBody(SendToBody { app }): ApiBody<SendToBody>,
) -> Result<Response, ApiError> {
    change(&client, message, Command::ResendMessage { message, app: Some(app.into()) }).await
}

pub(super) async fn cancel(
    client: Client,
    MessagePath(message): MessagePath,
    ApiBody(Ignored): ApiBody<Ignored>,
) -> Result<Response, ApiError> {
    change(&client, message, Command::CancelMessage(message)).await
}

pub(super) async fn explain(
    client: Client,
    ApiBody(ExplainBody { text }): ApiBody<ExplainBody>,
) -> Result<Response, ApiError> {
    let BoardReply::RoutingExplained(decision) = client.ask(Command::ExplainRouting { text: text.into() }).await?
    else {
        return Err(ApiError::unexpected_reply());
    };
    Ok(json(StatusCode::OK, map::decision(&decision)))
}

/// The answer shows the message as it is after the command.
async fn change(client: &Client, message: MessageId, command: Command) -> Result<Response, ApiError> {
    // Some commands report the message themselves.
    let report = if let BoardReply::Message(report) = client.ask(command).await? {
        report
    } else {
        client.read_message(message).await?
    };
    Ok(json(StatusCode::ACCEPTED, map::message(&report)))
}
