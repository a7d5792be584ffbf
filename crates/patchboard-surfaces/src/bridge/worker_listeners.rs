//! The listeners that workers connect back to: a loopback port per worker, which identifies the worker. No TLS and no
//! token are needed; only processes of the server's own user may connect, and once a worker has sent its secret, calls
//! without it are refused.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use patchboard_core::bridge::WorkerSecret;
use patchboard_core::worker::WorkerId;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connection::{self, ConnectionKind, PeerConnection, TransportStream};
use super::{Bridge, SURFACE, accept_next};
use crate::local_users::LocalUsers;
use crate::telemetry;

/// Concurrent connections per worker, which needs one or two.
const MAX_CONNECTIONS: usize = 64;

/// Opens listeners for workers. Cheap to clone. May be shared before the bridge exists: opening a listener waits for
/// it.
#[derive(Debug, Clone)]
pub struct WorkerListeners(Arc<watch::Sender<Option<Bridge>>>);

impl Default for WorkerListeners {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl WorkerListeners {
    pub fn attach(&self, bridge: &Bridge) {
        self.0.send_replace(Some(bridge.clone()));
    }

    /// Opens the listener of one worker. It is closed together with its connections when the guard is dropped. Port 0
    /// selects a free port.
    pub async fn open(
        &self,
        worker: &WorkerId,
        port: u16,
        secret: &WorkerSecret,
    ) -> io::Result<(SocketAddr, DropGuard)> {
        let bridge = {
            let mut known = self.0.subscribe();
            let found = known.wait_for(Option::is_some).await.map_err(io::Error::other)?;
            found.clone()
        };
        let bridge = bridge.ok_or_else(|| io::Error::other("the bridge was never attached"))?;
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = socket.local_addr()?;
        let stop = CancellationToken::new();
        let tracker = bridge.0.tracker.clone();
        let line = WorkerLine { worker: worker.clone(), secret: secret.clone() };
        tracker.spawn(serve_worker(bridge, socket, line, stop.clone()));
        Ok((address, stop.drop_guard()))
    }
}

/// The worker of a listener.
#[derive(Debug, Clone)]
struct WorkerLine {
    worker: WorkerId,
    secret: WorkerSecret,
}

async fn serve_worker(bridge: Bridge, socket: TcpListener, line: WorkerLine, stop: CancellationToken) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // The operator's `trusted_users` apply to the public listener only.
    let users = LocalUsers::new([]);
    loop {
        let stream = tokio::select! {
            stream = accept_next(|| socket.accept()) => stream,
            () = stop.cancelled() => return,
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            telemetry::refused(SURFACE, "capacity");
            continue;
        };
        let tracker = bridge.0.tracker.clone();
        if let Err(rejection) = users.check(SURFACE, &stream) {
            tracing::debug!(worker.id = %line.worker, stranger = ?rejection, "a process of another user tried a worker's listener");
            continue;
        }
        let (bridge, line, stop) = (bridge.clone(), line.clone(), stop.clone());
        tracker.spawn(async move {
            let peer = PeerConnection::new(bridge, ConnectionKind::worker(line.worker, line.secret), None);
            // The worker has ended, so its pending calls are dropped.
            tokio::select! {
                () = connection::serve(TransportStream::tcp(stream), peer, CancellationToken::new()) => {}
                () = stop.cancelled() => {}
            }
            drop(permit);
        });
    }
}
