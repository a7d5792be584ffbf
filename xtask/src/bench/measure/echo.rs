//! The baseline of everything that speaks WebSocket: the least a WebSocket server can do with the same library and the same settings.

use anyhow::Context;
use axum::Router;
use axum::extract::ws::{Message, WebSocket};
use axum::extract::{State, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use tokio::sync::broadcast;

use super::helper;
use crate::output;

/// As large as the product's, so that memory can be compared too.
const SOCKET_BUFFER: usize = 4 * 1024;

/// Serves until it is killed.
pub(super) fn run() -> anyhow::Result<()> {
    helper::runtime()?.block_on(serve())
}

async fn serve() -> anyhow::Result<()> {
    let listener = helper::listen().await?.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            output::complain(&format!("cannot set TCP_NODELAY: {error}"));
        }
    });
    let (said, _) = broadcast::channel(64);
    let router = Router::new()
        .route("/ws", get(upgrade))
        .route("/listen", get(listen))
        .route("/say", post(say))
        .with_state(said);
    axum::serve(listener, router).await.context("cannot serve")
}

async fn upgrade(upgrade: WebSocketUpgrade) -> axum::response::Response {
    upgrade.read_buffer_size(SOCKET_BUFFER).write_buffer_size(SOCKET_BUFFER).on_upgrade(echo)
}

type Said = broadcast::Sender<String>;

/// Whatever is said, to whoever listens: the least that brings a request's body to another connection.
async fn listen(State(said): State<Said>, upgrade: WebSocketUpgrade) -> axum::response::Response {
    let mut heard = said.subscribe();
    upgrade.on_upgrade(|mut socket| async move {
        while let Ok(text) = heard.recv().await {
            if socket.send(Message::Text(text.into())).await.is_err() {
                return;
            }
        }
    })
}

async fn say(State(said): State<Said>, text: String) -> StatusCode {
    match said.send(text) {
        Ok(_) => StatusCode::ACCEPTED,
        Err(_nobody) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if socket.send(message).await.is_err() {
            return;
        }
    }
}
