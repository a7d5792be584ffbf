//! Apps come, prove that they live, and go.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{Hub, Pairing};
use crate::access::Caller;
use crate::app::AppProfile;
use crate::app::matcher::{Matcher, NO_APP};
use crate::app::roster::{Connected, INBOX};
use crate::app::steward::Input;
use crate::command::{RegisterApp, TokenHash};
use crate::error::{BoardError, ErrorKind};
use crate::id::{ConnId, MessageId};
use crate::port::{Batch, Durability, Space, StoreError, Write};
use crate::record;
use crate::reply::{AppSummary, InboxItem, Reply, Unregistered};

/// Where what is known of apps is kept.
const KNOWN_KEY: &str = "hub/apps";
/// A connection that gives no sign of life for this long loses its name to whoever asks for it.
const PROOF_PATIENCE: Duration = Duration::from_secs(2);
/// Of all capabilities together; what is named after these is not looked at. Profiles are kept and compared for long.
const MAX_CAPABILITY_BYTES: usize = 4096;
/// How long the next message waits for one that came before it.
const ONE_AFTER_THE_OTHER: Duration = Duration::from_secs(1);
/// Where what was learned about one app is kept.
fn learned_key(app: &str) -> Arc<str> {
    format!("hub/learned/{}", app.to_ascii_lowercase()).into()
}

impl Hub {
    pub(super) async fn restore_apps(&self) -> Result<(), BoardError> {
        let Some(bytes) = self.0.store.kept(&Space::Server, KNOWN_KEY).await? else { return Ok(()) };
        let known = match record::decode_known_apps(&bytes) {
            Ok(known) => known,
            Err(error) => {
                tracing::error!(%error, "what is known of apps cannot be read back; they are known again when they register");
                return Ok(());
            }
        };
        let mut matcher = Matcher::new();
        for name in known.iter().map(|app| &*app.profile.name).chain([NO_APP]) {
            let Some(bytes) = self.0.store.kept(&Space::Server, &learned_key(name)).await? else { continue };
            if let Err(error) = matcher.restore(name, &bytes) {
                tracing::error!(app = %name, %error, "what was learned about an app cannot be read back");
            }
        }
        self.publish(matcher);
        self.roster().restore(known);
        Ok(())
    }

    pub(crate) async fn register(&self, caller: &Caller, wanted: RegisterApp) -> Result<Reply, BoardError> {
        let RegisterApp { mut profile, token, origin } = wanted;
        let mut room = MAX_CAPABILITY_BYTES;
        profile.capabilities.retain(|capability| {
            room = room.saturating_sub(capability.len());
            room > 0
        });
        if self.roster().by_connection(caller.connection).is_some() {
            return Ok(Reply::NotRegistered(Unregistered::Already));
        }
        if let Err(refused) = self.check_pairing(&profile.name, token) {
            tracing::info!(app = %profile.name, ?origin, ?refused, "an app was not let in");
            return Ok(Reply::NotRegistered(refused));
        }
        let client = self.0.ids.next();
        let profile = Arc::new(profile);
        if let Err(refused) = self.claim(caller.connection, &profile).await {
            return Ok(Reply::NotRegistered(refused));
        }
        tracing::info!(app = %profile.name, conn.id = %caller.connection, "app registered");
        // Not waited for: whoever asked may be gone before the store has answered.
        self.0.tracker.spawn(self.clone().welcome(profile.name.clone(), caller.connection));
        if let Err(error) = self.keep_known().await {
            // The app is here all the same; only a restart would not know it.
            tracing::warn!(app = %profile.name, %error, "a registration could not be stored");
        }
        Ok(Reply::Registered { client })
    }

    /// Tells the messages that wait that an app is there, one after the other, so that they come in the order in which
    /// they were said.
    async fn welcome(self, app: Arc<str>, connection: ConnId) {
        let mut waiting: Vec<MessageId> = self.stewards().by_message.keys().copied().collect();
        waiting.sort_unstable();
        for message in waiting {
            if self.roster().by_connection(connection).is_none() {
                return;
            }
            let (heard, done) = oneshot::channel();
            if self.tell_if_open(message, Input::Joined { app: app.clone(), heard: Some(heard) }) {
                // One that is busy with something else is not waited for long.
                drop(tokio::time::timeout(ONE_AFTER_THE_OTHER, done).await);
            }
        }
    }

    /// Makes the connection the app of that name, unless another one that has it lives.
    async fn claim(&self, connection: ConnId, profile: &Arc<AppProfile>) -> Result<(), Unregistered> {
        loop {
            let (holder, proofs, inbox) = {
                let mut roster = self.roster();
                // It may have asked twice before the first was answered.
                if roster.by_connection(connection).is_some() {
                    return Err(Unregistered::Already);
                }
                match roster.by_name(&profile.name) {
                    Some(app) => (app.connection, app.proofs.subscribe(), app.inbox.clone()),
                    None => {
                        roster.join(self.connected(connection, profile));
                        self.0.tools.changed(&roster);
                        return Ok(());
                    }
                }
            };
            if proves_alive(proofs, inbox).await {
                return Err(Unregistered::NameTaken);
            }
            tracing::info!(app = %profile.name, conn.id = %holder, "an app's connection is dead; its name is taken over");
            self.dismiss_connection(holder);
        }
    }

    fn connected(&self, connection: ConnId, profile: &Arc<AppProfile>) -> Connected {
        let (inbox, taken) = mpsc::channel(INBOX);
        Connected {
            profile: profile.clone(),
            connection,
            since: self.0.clock.now(),
            inbox,
            taken: Arc::new(tokio::sync::Mutex::new(taken)),
            proofs: watch::Sender::new(0),
        }
    }

    fn check_pairing(&self, name: &str, shown: Option<TokenHash>) -> Result<(), Unregistered> {
        match self.0.options.pairing {
            Pairing::Open => Ok(()),
            Pairing::Approve => {
                let mut roster = self.roster();
                if roster.known_app(name).is_some_and(|known| known.is_approved) {
                    return Ok(());
                }
                // Listed, so that the operator sees who asks.
                roster.asks(name, self.0.clock.now());
                Err(Unregistered::NotApproved)
            }
            Pairing::Token => {
                let wanted = self.roster().known_app(name).and_then(|known| known.token);
                // Hashes of random tokens: how long a comparison takes tells nothing about the token.
                match (wanted, shown) {
                    (Some(wanted), Some(shown)) if wanted == shown => Ok(()),
                    (Some(_) | None, Some(_) | None) => Err(Unregistered::WrongToken),
                }
            }
        }
    }

    /// The next thing for the asking connection's app.
    pub(crate) async fn take(&self, caller: &Caller, stop: &CancellationToken) -> Result<Reply, BoardError> {
        let lost = || BoardError::new(ErrorKind::Conflict, "this connection is not, or no longer, an app");
        let taken = self.roster().by_connection(caller.connection).map(|app| app.taken.clone()).ok_or_else(lost)?;
        let mut taken = taken.lock().await;
        tokio::select! {
            biased;
            () = self.0.closing.cancelled() => Err(BoardError::shutting_down()),
            () = stop.cancelled() => Err(BoardError::cancelled()),
            item = taken.recv() => item.map(Reply::Inbox).ok_or_else(lost),
        }
    }

    pub(crate) fn prove(&self, caller: &Caller) -> Reply {
        if let Some(app) = self.roster().by_connection(caller.connection) {
            app.proofs.send_modify(|proofs| *proofs += 1);
        }
        Reply::Done
    }

    pub(crate) async fn leave(&self, caller: &Caller) -> Result<Reply, BoardError> {
        if self.dismiss_connection(caller.connection) {
            // Not waited for by anybody who cares; when it was last seen is a hint.
            if let Err(error) = self.keep_known().await {
                tracing::debug!(%error, "an app's leaving could not be stored");
            }
        }
        Ok(Reply::Done)
    }

    fn dismiss_connection(&self, connection: ConnId) -> bool {
        let gone = {
            let mut roster = self.roster();
            let gone = roster.leave(connection, self.0.clock.now());
            if gone.is_some() {
                self.0.tools.changed(&roster);
            }
            gone
        };
        let Some(gone) = gone else { return false };
        tracing::info!(app = %gone.profile.name, conn.id = %connection, "app left");
        let name = gone.profile.name.clone();
        self.tell_all(|| Input::Left { app: name.clone(), connection });
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
            lessons: matcher.lessons(&profile.name),
        };
        let is_approved = |name: &str| {
            self.0.options.pairing == Pairing::Open || roster.known_app(name).is_some_and(|known| known.is_approved)
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
        for desk in self.stewards().by_message.values() {
            if let Some(report) = desk.report.borrow().as_ref() {
                for attempt in report.pending() {
                    *pending.entry(attempt.app.clone()).or_default() += 1;
                }
            }
        }
        pending
    }

    pub(crate) async fn approve(&self, caller: &Caller, name: &str) -> Result<Reply, BoardError> {
        self.roster().change(name, self.0.clock.now(), |known| known.is_approved = true);
        self.keep_known().await?;
        self.note(caller, "app.approve", name, "".into()).await?;
        Ok(Reply::Done)
    }

    pub(crate) async fn pair(&self, caller: &Caller, name: &str, token: TokenHash) -> Result<Reply, BoardError> {
        self.roster().change(name, self.0.clock.now(), |known| {
            known.token = Some(token);
            known.is_approved = true;
        });
        // Whoever has the name came by the token that no longer works.
        let holder = self.roster().by_name(name).map(|app| app.connection);
        if let Some(holder) = holder.filter(|_| self.0.options.pairing == Pairing::Token) {
            self.dismiss_connection(holder);
        }
        self.keep_known().await?;
        self.note(caller, "app.pair", name, "".into()).await?;
        Ok(Reply::Done)
    }

    pub(crate) async fn forget(&self, caller: &Caller, name: &str, unpair: bool) -> Result<Reply, BoardError> {
        let name = if name == NO_APP { NO_APP.into() } else { self.name_of(name)? };
        self.unlearn(name.clone()).await;
        self.save_lessons().await;
        if unpair {
            self.roster().forget(&name);
            let holder = self.roster().by_name(&name).map(|app| app.connection);
            // Where apps need the operator's leave, they lose it at once.
            if let Some(holder) = holder.filter(|_| self.0.options.pairing != Pairing::Open) {
                self.dismiss_connection(holder);
            }
            self.keep_known().await?;
        }
        let detail = if unpair { "unpaired" } else { "" };
        self.note(caller, "app.forget", &name, detail.into()).await?;
        Ok(Reply::Done)
    }

    /// Stores who is known. One writer at a time, each with the newest list.
    async fn keep_known(&self) -> Result<(), StoreError> {
        let _turn = self.0.roster_written.lock().await;
        let value = record::encode_known_apps(self.roster().known());
        let keep =
            Write::Keep { space: Space::Server, key: KNOWN_KEY.into(), value: Some(value), at: self.0.clock.now() };
        self.0.store.commit(Batch { durability: Durability::Delta, writes: vec![keep] }).await
    }

    pub(super) fn keep_learned(&self, app: &str, value: Option<Vec<u8>>) -> Write {
        Write::Keep { space: Space::Server, key: learned_key(app), value, at: self.0.clock.now() }
    }
}

/// Asks a connection for a sign of life.
async fn proves_alive(mut proofs: watch::Receiver<u64>, inbox: mpsc::Sender<InboxItem>) -> bool {
    proofs.borrow_and_update();
    // Full: it takes nothing, which is a sign too.
    if inbox.try_send(InboxItem::Prove).is_err() && inbox.is_closed() {
        return false;
    }
    // The sender goes with the connection: an error means that it left by itself.
    matches!(tokio::time::timeout(PROOF_PATIENCE, proofs.changed()).await, Ok(Ok(())))
}
