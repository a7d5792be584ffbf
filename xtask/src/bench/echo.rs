//! The baseline of everything that speaks WebSocket: the least a WebSocket server can do with the same library and the same settings.

use anyhow::Context;
use axum::Router;
use axum::extract::WebSocketUpgrade;
use axum::extract::ws::WebSocket;
use axum::routing::get;
use axum::serve::ListenerExt;

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
    let router = Router::new().route("/ws", get(upgrade));
    axum::serve(listener, router).await.context("cannot serve")
}

async fn upgrade(upgrade: WebSocketUpgrade) -> axum::response::Response {
    upgrade.read_buffer_size(SOCKET_BUFFER).write_buffer_size(SOCKET_BUFFER).on_upgrade(echo)
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if socket.send(message).await.is_err() {
            return;
        }
    }
}
