//! What a server says unasked: progress of a call, a changed list of tools, log lines.
#![expect(deprecated, reason = "newer versions of the protocol drop log lines, but servers of today still send them")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, LoggingMessageNotificationParam, ProgressNotificationParam,
    ProgressToken, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RoleClient};
use tokio::sync::{Notify, mpsc};

use crate::words::clipped;

/// Progress that nobody has listened to yet; more is dropped, for it is old news by then.
const UNHEARD: usize = 16;
const MAX_PROGRESS: usize = 2 * 1024;
const MAX_LOG: usize = 500;

/// The client's ear. Nothing here waits: the server may talk faster than anybody listens.
#[derive(Debug)]
pub(super) struct Notices {
    server: Arc<str>,
    progress: Mutex<HashMap<ProgressToken, mpsc::Sender<String>>>,
    pub(super) list_changed: Notify,
    /// Something went wrong on the way to the server; worth a look.
    pub(super) suspicion: Notify,
}

impl Notices {
    pub(super) fn new(server: Arc<str>) -> Arc<Self> {
        Arc::new(Self { server, progress: Mutex::default(), list_changed: Notify::new(), suspicion: Notify::new() })
    }

    /// Progress told under that token, until `forget`.
    pub(super) fn listen(&self, token: ProgressToken) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(UNHEARD);
        self.listeners().insert(token, sender);
        receiver
    }

    pub(super) fn forget(&self, token: &ProgressToken) {
        self.listeners().remove(token);
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<ProgressToken, mpsc::Sender<String>>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the protocol library calls; it wants to own its handler.
#[derive(Debug, Clone)]
pub(super) struct Ear(pub(super) Arc<Notices>);

impl rmcp::ClientHandler for Ear {
    async fn on_progress(&self, told: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        let listener = self.0.listeners().get(&told.progress_token).cloned();
        if let Some(listener) = listener {
            // A listener that is behind misses this one.
            drop(listener.try_send(sentence(&told)));
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.list_changed.notify_one();
    }

    async fn on_logging_message(&self, said: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        tracing::debug!(mcp.server = &*self.0.server, "says: {}", clipped(&said.data, MAX_LOG));
    }

    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new("patchboard", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), name)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

fn sentence(told: &ProgressNotificationParam) -> String {
    match (&told.message, told.total) {
        (Some(message), _) => clipped(message, MAX_PROGRESS),
        (None, Some(total)) => format!("{} of {total}", told.progress),
        (None, None) => told.progress.to_string(),
    }
}
