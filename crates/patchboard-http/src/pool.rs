//! Shared clients with pooled connections, each built on first use.

use std::fmt;
use std::sync::Arc;

use reqwest::Client;
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

use crate::client::{ClientKind, ClientOptions, ConnectionReuse};

/// Shared by all providers. Cheap to clone; builds nothing before the first request.
#[derive(Clone, Default)]
pub struct ClientPool {
    clients: Arc<PooledClients>,
}

#[derive(Default)]
struct PooledClients {
    /// Without proxy or trust store.
    loopback: OnceCell<Client>,
    /// Without trust store: plain `http://` to other hosts.
    plain: OnceCell<Client>,
    tls: OnceCell<Client>,
    loopback_tls: OnceCell<Client>,
    drain_tasks: TaskTracker,
}

impl ClientPool {
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until the tasks that drain bodies have ended, which takes a second at most.
    pub async fn close(&self) {
        self.clients.drain_tasks.close();
        self.clients.drain_tasks.wait().await;
    }

    pub async fn client(&self, kind: ClientKind) -> Result<&Client, reqwest::Error> {
        let cell = match kind {
            ClientKind::Loopback => &self.clients.loopback,
            ClientKind::Plain => &self.clients.plain,
            ClientKind::Tls => &self.clients.tls,
            ClientKind::LoopbackTls => &self.clients.loopback_tls,
        };
        let options = ClientOptions::new(kind).reuse(ConnectionReuse::LongLived);
        cell.get_or_try_init(|| options.build()).await
    }

    /// Tasks that read the rest of a body so that its connection can be reused.
    pub fn drain_tasks(&self) -> &TaskTracker {
        &self.clients.drain_tasks
    }
}

impl fmt::Debug for ClientPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientPool").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
