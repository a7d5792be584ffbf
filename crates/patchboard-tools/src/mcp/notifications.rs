//! Messages that a server sends on its own: progress of a call, a changed list of tools, log lines.
#![expect(deprecated, reason = "newer versions of the protocol drop log lines, but servers of today still send them")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, LoggingMessageNotificationParam, ProgressNotificationParam,
    ProgressToken, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RoleClient};
use tokio::sync::{Notify, mpsc};

use crate::text::clipped;

/// Progress messages per call that are not forwarded yet; further ones are dropped, because they would be outdated.
const PROGRESS_QUEUE: usize = 16;
const MAX_PROGRESS: usize = 2 * 1024;
const MAX_LOG: usize = 500;

/// Receives a server's notifications. Never blocks: a server may send faster than they are consumed.
#[derive(Debug)]
pub(super) struct ServerNotifications {
    server: Arc<str>,
    progress_senders: Mutex<HashMap<ProgressToken, mpsc::Sender<String>>>,
    pub(super) list_changed: Notify,
    /// Notified after a transport error: the supervisor should ping the server.
    pub(super) health_check: Notify,
}

impl ServerNotifications {
    pub(super) fn new(server: Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            server,
            progress_senders: Mutex::default(),
            list_changed: Notify::new(),
            health_check: Notify::new(),
        })
    }

    /// Returns the progress reported under the token, until `unsubscribe_progress`.
    pub(super) fn subscribe_progress(&self, token: ProgressToken) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(PROGRESS_QUEUE);
        self.progress_senders().insert(token, sender);
        receiver
    }

    pub(super) fn unsubscribe_progress(&self, token: &ProgressToken) {
        self.progress_senders().remove(token);
    }

    fn progress_senders(&self) -> MutexGuard<'_, HashMap<ProgressToken, mpsc::Sender<String>>> {
        self.progress_senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The handler that the protocol library calls; it must be owned, hence the wrapper.
#[derive(Debug, Clone)]
pub(super) struct ClientHandler(pub(super) Arc<ServerNotifications>);

impl rmcp::ClientHandler for ClientHandler {
    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        let listener = self.0.progress_senders().get(&params.progress_token).cloned();
        if let Some(listener) = listener {
            // Dropped if the listener lags behind.
            drop(listener.try_send(progress_text(&params)));
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.list_changed.notify_one();
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        tracing::debug!(mcp.server = &*self.0.server, "log message: {}", clipped(&params.data, MAX_LOG));
    }

    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new("patchboard", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), name)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

fn progress_text(params: &ProgressNotificationParam) -> String {
    match (&params.message, params.total) {
        (Some(message), _) => clipped(message, MAX_PROGRESS),
        (None, Some(total)) => format!("{} of {total}", params.progress),
        (None, None) => params.progress.to_string(),
    }
}
