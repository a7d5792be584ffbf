//! Connected apps, and known apps of the past.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;

use crate::app::AppProfile;
use crate::app::KnownApp;
use crate::id::ConnectionId;
use crate::reply::InboxEvent;

/// Inbox capacity of an app; a delivery that does not fit is retried by the message's actor.
pub(super) const INBOX_CAPACITY: usize = 256;
/// Most known apps; past it the one seen longest ago is forgotten.
const MAX_KNOWN: usize = 256;
/// How long after a suitable app was last seen messages wait for it.
const EXPECTED_BACK_WITHIN: SignedDuration = SignedDuration::from_hours(24 * 7);

/// A connected app. Its name is its identity, whatever connection it uses.
#[derive(Debug)]
pub(crate) struct ConnectedApp {
    pub(crate) profile: Arc<AppProfile>,
    pub(crate) connection: ConnectionId,
    pub(crate) since: Timestamp,
    pub(crate) inbox: mpsc::Sender<InboxEvent>,
    /// The receiver, for the connection to read from; one reader at a time.
    pub(crate) inbox_receiver: Arc<tokio::sync::Mutex<mpsc::Receiver<InboxEvent>>>,
    /// Number of liveness probes answered.
    pub(crate) liveness: tokio::sync::watch::Sender<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// In the order of registration.
    connected: Vec<ConnectedApp>,
    known: Vec<KnownApp>,
}

impl Roster {
    pub(crate) fn restore(&mut self, known: Vec<KnownApp>) {
        self.known = known;
    }

    pub(crate) fn known(&self) -> &[KnownApp] {
        &self.known
    }

    pub(crate) fn connected(&self) -> &[ConnectedApp] {
        &self.connected
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<&ConnectedApp> {
        self.connected.iter().find(|app| app.profile.name.eq_ignore_ascii_case(name))
    }

    pub(crate) fn by_connection(&self, connection: ConnectionId) -> Option<&ConnectedApp> {
        self.connected.iter().find(|app| app.connection == connection)
    }

    pub(crate) fn known_app(&self, name: &str) -> Option<&KnownApp> {
        self.known.iter().find(|known| known.profile.name.eq_ignore_ascii_case(name))
    }

    pub(crate) fn join(&mut self, app: ConnectedApp) {
        self.remember(&app.profile, app.since);
        self.connected.push(app);
    }

    /// Removes the connection's app.
    pub(crate) fn leave(&mut self, connection: ConnectionId, now: Timestamp) -> Option<ConnectedApp> {
        let index = self.connected.iter().position(|app| app.connection == connection)?;
        let removed = self.connected.remove(index);
        if let Some(known) = self.known.iter_mut().find(|known| has_name(known, &removed.profile.name)) {
            known.seen_at = now;
        }
        Some(removed)
    }

    /// Remembers an unknown app that asked to register.
    pub(crate) fn remember_applicant(&mut self, name: &str, now: Timestamp) {
        if self.known_app(name).is_none() {
            let description = Arc::from("");
            let profile = AppProfile { name: name.into(), description, version: None, capabilities: Vec::new() };
            self.remember(&Arc::new(profile), now);
        }
    }

    /// Changes a known app, adding it if it is unknown.
    pub(crate) fn update_known(&mut self, name: &str, now: Timestamp, change: impl FnOnce(&mut KnownApp)) {
        self.remember_applicant(name, now);
        if let Some(known) = self.known.iter_mut().find(|known| has_name(known, name)) {
            change(known);
        }
    }

    pub(crate) fn forget(&mut self, name: &str) {
        self.known.retain(|known| !has_name(known, name));
    }

    /// Disconnected apps that are likely to reconnect.
    pub(crate) fn expected_back(&self, now: Timestamp) -> Vec<Arc<AppProfile>> {
        let is_expected = |known: &&KnownApp| now.duration_since(known.seen_at) < EXPECTED_BACK_WITHIN;
        self.disconnected_known().filter(is_expected).map(|known| known.profile.clone()).collect()
    }

    /// All known apps that are not connected.
    pub(crate) fn disconnected(&self) -> Vec<Arc<AppProfile>> {
        self.disconnected_known().map(|known| known.profile.clone()).collect()
    }

    fn disconnected_known(&self) -> impl Iterator<Item = &KnownApp> {
        let is_away =
            |known: &&KnownApp| !known.profile.description.is_empty() && self.by_name(&known.profile.name).is_none();
        self.known.iter().filter(is_away)
    }

    fn remember(&mut self, profile: &Arc<AppProfile>, now: Timestamp) {
        if let Some(known) = self.known.iter_mut().find(|known| has_name(known, &profile.name)) {
            known.profile = profile.clone();
            known.seen_at = now;
            return;
        }
        if self.known.len() >= MAX_KNOWN {
            let is_disconnected =
                |known: &&KnownApp| self.connected.iter().all(|app| !has_name(known, &app.profile.name));
            // Apps that the operator approved or paired are evicted last, whatever other apps register.
            let rank = |known: &&KnownApp| (known.is_approved || known.token.is_some(), known.seen_at);
            let oldest = self.known.iter().filter(is_disconnected).min_by_key(rank);
            if let Some(name) = oldest.map(|known| known.profile.name.clone()) {
                self.forget(&name);
            }
        }
        self.known.push(KnownApp { profile: profile.clone(), seen_at: now, is_approved: false, token: None });
    }
}

fn has_name(known: &KnownApp, name: &str) -> bool {
    known.profile.name.eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests;
