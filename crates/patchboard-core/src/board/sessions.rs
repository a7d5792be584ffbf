//! Ownership: channels that clients may not name, and sessions and runs of other callers.

use crate::access::{self, ChannelUse, Guarded};
use crate::caller::{Caller, Grant, Surface};
use crate::command::{RunRef, SessionRef};
use crate::conversation::ConversationOrigin;
use crate::error::BoardError;
use crate::event::Topic;
use crate::id::{Seq, SessionKey};
use crate::reply::RunSummary;
use crate::store::{RunRow, RunState};

use super::Board;

impl Board {
    /// Refuses a command whose channel this caller may not name. Only gateway clients name their channel; other
    /// surfaces set it.
    pub(super) fn check_channels(&self, caller: &Caller, command: &impl Guarded) -> Result<(), BoardError> {
        match command.channel_use() {
            Some((channel, usage)) if caller.surface == Surface::Gateway => self.check_channel(caller, &channel, usage),
            Some(_) | None => Ok(()),
        }
    }

    fn check_channel(&self, caller: &Caller, channel: &str, usage: ChannelUse) -> Result<(), BoardError> {
        let is_operator = caller.grants.has(Grant::Operate);
        let may_read_all = usage == ChannelUse::Read && caller.grants.has(Grant::Oversee);
        if channel == access::OPERATOR_CHANNEL && !is_operator && !may_read_all {
            let message = format!("channel `{channel}` is the operator's: it takes the operator's token");
            return Err(BoardError::forbidden(message));
        }
        let is_reserved = access::RESERVED_CHANNELS.contains(&channel) || self.0.channels.channel(channel).is_some();
        if is_reserved && !may_read_all {
            let message = format!("channel `{channel}` is reserved for conversations of another surface: name another");
            return Err(BoardError::forbidden(message));
        }
        Ok(())
    }

    /// Refuses a session of another owner. A session that does not exist yet is open to every caller.
    pub(super) async fn check_session(&self, caller: &Caller, session: &SessionKey) -> Result<(), BoardError> {
        // A service's webhooks use sessions of its own channel, which clients cannot name.
        if caller.surface == Surface::Webhook || caller.grants.has(Grant::Operate) {
            return Ok(());
        }
        match self.0.store.session(session).await? {
            Some(row) if !access::owns_session(caller, row.owner.as_deref()) => Err(BoardError::forbidden(
                "this conversation belongs to another caller: take another account or peer, or the operator's token",
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses to read a session of another owner, but for overseers.
    pub(super) async fn check_session_read(&self, caller: &Caller, session: &SessionKey) -> Result<(), BoardError> {
        if access::may_read_session(caller, None) { Ok(()) } else { self.check_session(caller, session).await }
    }

    pub(super) async fn find_run(&self, caller: &Caller, run: RunRef) -> Result<RunSummary, BoardError> {
        let named = if let RunRef::Id(run) = &run { Some(*run) } else { None };
        let row: Option<RunRow> = match run {
            RunRef::Id(run) => self.0.store.run(run).await?,
            RunRef::ClientId { id, within } => {
                let within = within.map(|session| self.session_key(session)).transpose()?;
                let found = self.0.store.latest_run_by_client_id(&caller.principal.text(), &id).await?;
                found.filter(|row| within.is_none_or(|session| session == row.session))
            }
            RunRef::Session(session) => {
                let session = self.session_key(session)?;
                self.0.store.latest_run_of_session(&session).await?
            }
        };
        let row = row
            .filter(|row| access::can_control(caller, &row.principal))
            .ok_or_else(|| BoardError::not_found("run expired or unknown"))?;
        // An id that the server made for the run cannot be guessed either.
        let is_own_id = named.is_some() || row.client_id.contains(&row.run.to_string());
        if is_own_id && row.state == RunState::Running {
            self.0.inputs.audience().note_joined(row.run, caller.connection);
        }
        let last_seq = self.0.store.last_seq(&Topic::Run(row.run)).await?;
        // The hub's routing model works in runs without events.
        if last_seq == Seq(0) {
            return Err(BoardError::not_found("run expired or unknown"));
        }
        Ok(RunSummary { run: row.run, session: row.session, client_id: row.client_id, last_seq })
    }

    pub(super) fn session_key(&self, session: SessionRef) -> Result<SessionKey, BoardError> {
        match session {
            SessionRef::Key(key) => Ok(key),
            SessionRef::Origin(origin) => self.routed_session_key(&origin),
        }
    }

    fn routed_session_key(&self, origin: &ConversationOrigin) -> Result<SessionKey, BoardError> {
        Ok(origin.session_key(&self.0.agents.get().route(origin)?.name))
    }
}
