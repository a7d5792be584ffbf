//! The stable address for clients: forwards bytes to the current process, starts a sleeping server, and lets clients
//! wait while no process is ready. It does not parse the stream; the server behind it checks the key.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::activity::ServerActivity;

/// Further connections wait in the kernel's accept queue.
const MAX_CONNECTIONS: usize = 64;
/// How long a client waits for a restart before it gets a 503 with `Retry-After`.
const RESTART_WAIT: Duration = Duration::from_secs(10);
/// How long a closed connection is drained, so that a reset does not discard the response.
const CLOSE_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a failed accept, which usually means that the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Content-Type: application/json\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 92\r\n\r\n\
    {\"error\":{\"message\":\"the local model is not available now\",\"type\":\"unavailable\",\"code\":503}}";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BackendState {
    /// No process; the next call starts one.
    Asleep,
    /// Loading its weights.
    Starting,
    Ready(SocketAddr),
    /// The process exited; a replacement is being started.
    Restarting,
    /// The start failed for all calls up to this number; a later call makes it try again.
    Failed {
        calls: u64,
        reason: Arc<str>,
    },
    Stopped,
}

pub(super) async fn serve(
    listener: TcpListener,
    upstream: watch::Receiver<BackendState>,
    activity: ServerActivity,
    stop: CancellationToken,
    tracker: TaskTracker,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((client, _)) => {
                let (upstream, activity, stop) = (upstream.clone(), activity.clone(), stop.clone());
                tracker.spawn(async move {
                    tokio::select! {
                        () = proxy_connection(client, upstream, &activity) => {}
                        () = stop.cancelled() => {}
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for the local model");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn proxy_connection(mut client: TcpStream, upstream: watch::Receiver<BackendState>, activity: &ServerActivity) {
    match connect(upstream, activity).await {
        Some(server) => relay(client, server).await,
        None => {
            if client.write_all(UNAVAILABLE).await.is_ok() {
                let (mut from_client, mut to_client) = client.split();
                close(&mut from_client, &mut to_client).await;
            }
        }
    }
}

/// `None` if the server does not start, has stopped for good, or takes too long to restart. Loading weights after a
/// sleep has a limit of its own.
///
/// Only connecting counts as use: clients keep idle connections open, which must not keep the server awake.
async fn connect(mut upstream: watch::Receiver<BackendState>, activity: &ServerActivity) -> Option<TcpStream> {
    let call = activity.acquire();
    let patience = Instant::now() + RESTART_WAIT;
    loop {
        let current = upstream.borrow_and_update().clone();
        match current {
            BackendState::Ready(address) => {
                if let Ok(server) = TcpStream::connect(address).await {
                    return Some(server);
                }
                // The process has just exited; the supervisor will publish that in a moment.
                tokio::time::timeout_at(patience, upstream.changed()).await.ok()?.ok()?;
            }
            BackendState::Restarting => tokio::time::timeout_at(patience, upstream.changed()).await.ok()?.ok()?,
            BackendState::Failed { calls, .. } if calls < call.number => upstream.changed().await.ok()?,
            BackendState::Asleep | BackendState::Starting => upstream.changed().await.ok()?,
            BackendState::Failed { .. } | BackendState::Stopped => return None,
        }
    }
}

async fn relay(mut client: TcpStream, mut server: TcpStream) {
    // Tokens are small and must not be delayed by Nagle's algorithm.
    for stream in [&client, &server] {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection of the local model keeps its delay");
        }
    }
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let ending = {
        let mut answering = std::pin::pin!(tokio::io::copy(&mut from_server, &mut to_client));
        tokio::select! {
            asked = tokio::io::copy(&mut from_client, &mut to_server) => match asked {
                // The client disconnected: closing the other side tells the server to stop computing.
                Ok(_) => return,
                // The server reads no more, but its response is still in transit.
                Err(_) => answering.await,
            },
            answered = &mut answering => answered,
        }
    };
    if ending.is_ok() {
        close(&mut from_client, &mut to_client).await;
    }
}

/// Closing with unread input would reset the connection and discard the response.
async fn close(from_client: &mut (impl AsyncReadExt + Unpin), to_client: &mut (impl AsyncWriteExt + Unpin)) {
    if to_client.shutdown().await.is_ok() {
        let mut sink = tokio::io::sink();
        if let Ok(Err(error)) = tokio::time::timeout(CLOSE_DRAIN_TIMEOUT, tokio::io::copy(from_client, &mut sink)).await
        {
            tracing::debug!(%error, "a client of the local model closed abruptly");
        }
    }
}
