//! Registration, liveness and departure of apps.

use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{Hub, PairingMode};
use crate::app::AppProfile;
use crate::app::TokenHash;
use crate::caller::Caller;
use crate::command::RegisterApp;
use crate::error::{BoardError, ErrorKind};
use crate::hub::message_actor::ActorInput;
use crate::hub::roster::{ConnectedApp, INBOX_CAPACITY};
use crate::id::{ConnectionId, MessageId};
use crate::record;
use crate::reply::{AppSummary, InboxEvent, RegistrationRefusal};
use crate::store::{KvNamespace, StoreError, StoreWrite, WriteBatch};
use patchboard_matcher::{Matcher, NO_APP};

/// Store key of the known apps.
const KNOWN_APPS_KEY: &str = "hub/apps";
/// A connection that does not prove liveness within this time loses its name to the app that requests it.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(2);
/// Total size of an app's capabilities; the rest is dropped. Profiles are stored and compared on every message.
const MAX_CAPABILITY_BYTES: usize = 4096;
/// How long the announcement waits for one message before it continues with the next.
const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(1);
/// Store key of one app's training data.
fn training_key(app: &str) -> Arc<str> {
    format!("hub/learned/{}", app.to_ascii_lowercase()).into()
}

impl Hub {
    pub(super) async fn restore_apps(&self) -> Result<(), BoardError> {
        let Some(bytes) = self.0.store.kv_get(&KvNamespace::Server, KNOWN_APPS_KEY).await? else { return Ok(()) };
        let known = match record::decode_known_apps(&bytes) {
            Ok(known) => known,
            Err(error) => {
                tracing::error!(%error, "the known apps cannot be read back; each is added again when it registers");
                return Ok(());
            }
        };
        let mut matcher = Matcher::new();
        for name in known.iter().map(|app| &*app.profile.name).chain([NO_APP]) {
            let Some(bytes) = self.0.store.kv_get(&KvNamespace::Server, &training_key(name)).await? else { continue };
            match record::decode_training_data(&bytes) {
                Ok(data) => matcher.import_training(name, data),
                Err(error) => tracing::error!(app = %name, %error, "what was learned about an app cannot be read back"),
            }
        }
        self.publish_matcher(matcher);
        self.roster().restore(known);
        Ok(())
    }

    pub(crate) async fn register(
        &self,
        caller: &Caller,
        request: RegisterApp,
    ) -> Result<Result<Uuid, RegistrationRefusal>, BoardError> {
        let RegisterApp { mut profile, token, origin } = request;
        let mut remaining = MAX_CAPABILITY_BYTES;
        profile.capabilities.retain(|capability| {
            remaining = remaining.saturating_sub(capability.len());
            remaining > 0
        });
        self.check_active()?;
        if self.roster().by_connection(caller.connection).is_some() {
            return Ok(Err(RegistrationRefusal::AlreadyRegistered));
        }
        if let Err(refused) = self.check_pairing(&profile.name, token) {
            tracing::info!(app = %profile.name, ?origin, ?refused, "an app's registration was refused");
            return Ok(Err(refused));
        }
        let client = self.0.ids.next();
        let profile = Arc::new(profile);
        if let Err(refused) = self.claim_name(caller.connection, &profile).await {
            return Ok(Err(refused));
        }
        tracing::info!(app = %profile.name, conn.id = %caller.connection, "app registered");
        // Not awaited: the caller may disconnect before the store has answered.
        self.0.foreground_tasks.spawn(self.clone().announce_app(profile.name.clone(), caller.connection));
        if let Err(error) = self.save_known_apps().await {
            // The app is connected all the same; only a restart would not know it.
            tracing::warn!(app = %profile.name, %error, "a registration could not be stored");
        }
        Ok(Ok(client))
    }

    /// Announces an app to the parked messages one after the other, so that it receives them in submission order.
    async fn announce_app(self, app: Arc<str>, connection: ConnectionId) {
        let mut messages: Vec<MessageId> = self.actors().by_message.keys().copied().collect();
        messages.sort_unstable();
        for message in messages {
            if self.roster().by_connection(connection).is_none() {
                return;
            }
            let (ack, acked) = oneshot::channel();
            if self.send_if_running(message, ActorInput::AppJoined { app: app.clone(), ack: Some(ack) }) {
                // An actor that is busy with something else must not delay the others.
                drop(tokio::time::timeout(ANNOUNCE_TIMEOUT, acked).await);
            }
        }
    }

    /// Registers the connection under the name, unless the current holder proves that it is alive.
    async fn claim_name(&self, connection: ConnectionId, profile: &Arc<AppProfile>) -> Result<(), RegistrationRefusal> {
        loop {
            let (holder, proofs, inbox) = {
                let mut roster = self.roster();
                // The connection may have sent a second request before the first was answered.
                if roster.by_connection(connection).is_some() {
                    return Err(RegistrationRefusal::AlreadyRegistered);
                }
                match roster.by_name(&profile.name) {
                    Some(app) => (app.connection, app.liveness.subscribe(), app.inbox.clone()),
                    None => {
                        roster.join(self.connected(connection, profile));
                        self.0.tools.rebuild(&roster);
                        return Ok(());
                    }
                }
            };
            if probe_liveness(proofs, inbox).await {
                return Err(RegistrationRefusal::NameTaken);
            }
            tracing::info!(app = %profile.name, conn.id = %holder, "an app's connection is dead; its name is taken over");
            self.disconnect_app(holder);
        }
    }

    fn connected(&self, connection: ConnectionId, profile: &Arc<AppProfile>) -> ConnectedApp {
        let (inbox, receiver) = mpsc::channel(INBOX_CAPACITY);
        ConnectedApp {
            profile: profile.clone(),
            connection,
            since: self.0.clock.now(),
            inbox,
            inbox_receiver: Arc::new(tokio::sync::Mutex::new(receiver)),
            liveness: watch::Sender::new(0),
        }
    }

    fn check_pairing(&self, name: &str, token: Option<TokenHash>) -> Result<(), RegistrationRefusal> {
        match self.0.options.pairing {
            PairingMode::Open => Ok(()),
            PairingMode::Approve => {
                let mut roster = self.roster();
                if roster.known_app(name).is_some_and(|known| known.is_approved) {
                    return Ok(());
                }
                // Listed, so that the operator sees the request.
                roster.remember_applicant(name, self.0.clock.now());
                Err(RegistrationRefusal::NotApproved)
            }
            PairingMode::Token => {
                let expected = self.roster().known_app(name).and_then(|known| known.token);
                // Hashes of random tokens: comparison time reveals nothing about the token.
                match (expected, token) {
                    (Some(expected), Some(token)) if expected == token => Ok(()),
                    (Some(_) | None, Some(_) | None) => Err(RegistrationRefusal::WrongToken),
                }
            }
        }
    }

    /// The next inbox event of the calling connection's app.
    pub(crate) async fn next_inbox_item(
        &self,
        caller: &Caller,
        stop: &CancellationToken,
    ) -> Result<InboxEvent, BoardError> {
        let not_an_app = || BoardError::new(ErrorKind::Conflict, "this connection is not, or no longer, an app");
        let receiver = self
            .roster()
            .by_connection(caller.connection)
            .map(|app| app.inbox_receiver.clone())
            .ok_or_else(not_an_app)?;
        let mut receiver = receiver.lock().await;
        tokio::select! {
            biased;
            () = self.0.shutdown.cancelled() => Err(BoardError::shutting_down()),
            () = stop.cancelled() => Err(BoardError::cancelled()),
            item = receiver.recv() => item.ok_or_else(not_an_app),
        }
    }

    pub(crate) fn confirm_alive(&self, caller: &Caller) -> Result<(), BoardError> {
        if let Some(app) = self.roster().by_connection(caller.connection) {
            app.liveness.send_modify(|proofs| *proofs += 1);
        }
        Ok(())
    }

    pub(crate) async fn unregister(&self, caller: &Caller) -> Result<(), BoardError> {
        if self.disconnect_app(caller.connection) {
            // A failure is not reported: `seen_at` is only a hint.
            if let Err(error) = self.save_known_apps().await {
                tracing::debug!(%error, "an app's departure could not be stored");
            }
        }
        Ok(())
    }

    fn disconnect_app(&self, connection: ConnectionId) -> bool {
        let app = {
            let mut roster = self.roster();
            let app = roster.leave(connection, self.0.clock.now());
            if app.is_some() {
                self.0.tools.rebuild(&roster);
            }
            app
        };
        let Some(app) = app else { return false };
        tracing::info!(app = %app.profile.name, conn.id = %connection, "app left");
        let name = app.profile.name.clone();
        self.broadcast_to_actors(|| ActorInput::AppLeft { app: name.clone(), connection });
        true
    }

    pub(crate) fn apps(&self) -> Vec<AppSummary> {
        let pending = self.pending_by_app();
        let matcher = self.matcher();
        let roster = self.roster();
        let summary = |profile: &Arc<AppProfile>, is_connected, is_approved, since| AppSummary {
            profile: (**profile).clone(),
            is_connected,
            is_approved,
            since,
            pending: pending.get(&profile.name).copied().unwrap_or(0),
            training_examples: matcher.label_count(&profile.name),
        };
        let is_approved = |name: &str| {
            self.0.options.pairing == PairingMode::Open || roster.known_app(name).is_some_and(|known| known.is_approved)
        };
        let connected =
            roster.connected().iter().map(|app| summary(&app.profile, true, is_approved(&app.profile.name), app.since));
        let mut known: Vec<AppSummary> = roster
            .known()
            .iter()
            .filter(|known| roster.by_name(&known.profile.name).is_none())
            .map(|known| summary(&known.profile, false, is_approved(&known.profile.name), known.seen_at))
            .collect();
        known.sort_by_key(|app| std::cmp::Reverse(app.since));
        connected.chain(known).collect()
    }

    fn pending_by_app(&self) -> std::collections::HashMap<Arc<str>, usize> {
        let mut pending = std::collections::HashMap::new();
        for handle in self.actors().by_message.values() {
            if let Some(report) = handle.report.borrow().as_ref() {
                for attempt in report.pending() {
                    *pending.entry(attempt.app.clone()).or_default() += 1;
                }
            }
        }
        pending
    }

    pub(crate) async fn approve(&self, caller: &Caller, name: &str) -> Result<(), BoardError> {
        self.roster().update_known(name, self.0.clock.now(), |known| known.is_approved = true);
        self.save_known_apps().await?;
        self.record_audit(caller, "app.approve", name, "".into()).await?;
        Ok(())
    }

    pub(crate) async fn pair(&self, caller: &Caller, name: &str, token: TokenHash) -> Result<(), BoardError> {
        self.roster().update_known(name, self.0.clock.now(), |known| {
            known.token = Some(token);
            known.is_approved = true;
        });
        // The current holder registered with the token that no longer works.
        let holder = self.roster().by_name(name).map(|app| app.connection);
        if let Some(holder) = holder.filter(|_| self.0.options.pairing == PairingMode::Token) {
            self.disconnect_app(holder);
        }
        self.save_known_apps().await?;
        self.record_audit(caller, "app.pair", name, "".into()).await?;
        Ok(())
    }

    pub(crate) async fn forget(&self, caller: &Caller, name: &str, unpair: bool) -> Result<(), BoardError> {
        let name = if name == NO_APP { NO_APP.into() } else { self.canonical_name(name)? };
        self.forget_training(name.clone()).await;
        self.save_training().await;
        if unpair {
            self.roster().forget(&name);
            let holder = self.roster().by_name(&name).map(|app| app.connection);
            // Where pairing is required, unpairing takes effect at once.
            if let Some(holder) = holder.filter(|_| self.0.options.pairing != PairingMode::Open) {
                self.disconnect_app(holder);
            }
            self.save_known_apps().await?;
        }
        let detail = if unpair { "unpaired" } else { "" };
        self.record_audit(caller, "app.forget", &name, detail.into()).await?;
        Ok(())
    }

    /// Stores the known apps. One writer at a time, each with the newest list.
    async fn save_known_apps(&self) -> Result<(), StoreError> {
        let _guard = self.0.roster_write_lock.lock().await;
        let value = record::encode_known_apps(self.roster().known());
        let write = StoreWrite::put(KvNamespace::Server, KNOWN_APPS_KEY.into(), Some(value), self.0.clock.now());
        self.0.store.commit(WriteBatch::delta(vec![write])).await
    }

    pub(super) fn training_write(&self, app: &str, value: Option<Vec<u8>>) -> StoreWrite {
        StoreWrite::put(KvNamespace::Server, training_key(app), value, self.0.clock.now())
    }
}

/// Sends a liveness probe to a connection and waits for the response.
async fn probe_liveness(mut proofs: watch::Receiver<u64>, inbox: mpsc::Sender<InboxEvent>) -> bool {
    proofs.borrow_and_update();
    // A full inbox is not an error: the connection may still prove that it is alive.
    if inbox.try_send(InboxEvent::ProveAlive).is_err() && inbox.is_closed() {
        return false;
    }
    // The sender is dropped with the connection: an error means that it has closed.
    matches!(tokio::time::timeout(LIVENESS_TIMEOUT, proofs.changed()).await, Ok(Ok(())))
}
