//! Notices on the desktop: `org.freedesktop.Notifications` on the user's session bus.
//!
//! [`address`] finds the bus, [`wire`] encodes and decodes messages without I/O, [`connection`] performs one exchange.
//! A connection is used for one notice: notices are rare, and an idle connection would have to be read all the time.

mod address;
mod connection;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use patchboard_core::app::{NoticePriority, UserNotice};
use patchboard_core::port::NoticeSink;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

pub use address::SessionBus;
use connection::{BusConnection, MarkupSupport};
use wire::NotifyArguments;

/// Covers everything, including the start of a notification service.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Application name of the hub's own notices.
const OWN_NAME: &str = "Patchboard";

/// Shows notices on the session bus. Without a bus it does nothing, and logs that once.
#[derive(Debug)]
pub struct DesktopSink {
    bus: SessionBus,
    absence_logged: AtomicBool,
}

impl DesktopSink {
    pub fn new(bus: SessionBus) -> Self {
        Self { bus, absence_logged: AtomicBool::new(false) }
    }

    /// Logs if there is no bus now. One may appear later, when the user logs in.
    pub fn log_if_absent(&self) {
        if !self.bus.seems_present() {
            self.log_absence();
        }
    }

    fn log_absence(&self) {
        if !self.absence_logged.swap(true, Ordering::Relaxed) {
            tracing::info!("there is no session bus; notices are not shown on the desktop");
        }
    }

    async fn deliver(&self, notice: &UserNotice) -> Result<(), String> {
        let Some(stream) = self.connect().await else {
            self.log_absence();
            return Ok(());
        };
        self.absence_logged.store(false, Ordering::Relaxed);
        let mut link = BusConnection::open(stream, rustix::process::geteuid().as_raw()).await?;
        let body = match link.markup().await? {
            MarkupSupport::Supported => escaped(&notice.body),
            MarkupSupport::Unsupported => notice.body.to_string(),
        };
        let urgency = match notice.priority {
            NoticePriority::Low => 0,
            NoticePriority::Normal => 1,
            NoticePriority::High => 2,
        };
        let app = notice.app.as_deref().unwrap_or(OWN_NAME);
        link.notify(&NotifyArguments { app, title: &notice.title, body: &body, urgency }).await
    }

    /// Connects to the first of the bus's addresses that accepts connections.
    async fn connect(&self) -> Option<UnixStream> {
        for socket in self.bus.sockets() {
            match UnixStream::connect(&socket).await {
                Ok(stream) => return Some(stream),
                Err(error) => tracing::debug!(%error, "the session bus does not listen at one of its addresses"),
            }
        }
        None
    }
}

impl NoticeSink for DesktopSink {
    fn name(&self) -> &'static str {
        "desktop"
    }

    fn show(&self, notice: Arc<UserNotice>, stop: CancellationToken) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => Err("the server stopped before the desktop had it".to_owned()),
                done = tokio::time::timeout(DELIVERY_TIMEOUT, self.deliver(&notice)) => {
                    done.unwrap_or_else(|_| Err(format!("the desktop did not answer in {DELIVERY_TIMEOUT:?}")))
                }
            }
        })
    }
}

/// Escapes text for the markup of notification bodies.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
