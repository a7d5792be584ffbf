//! Whose a conversation is: channels that clients may not name, sessions that belong to whoever made them, and the runs
//! in them.

use crate::access;
use crate::caller::{Caller, Grant, Surface};
use crate::command::{CallTool, Command, RunRef, SessionRef, StartRun};
use crate::conversation::ConversationOrigin;
use crate::error::BoardError;
use crate::event::Topic;
use crate::id::{Seq, SessionKey};
use crate::reply::{BoardReply, RunSummary};
use crate::store::RunRow;

use super::Board;

/// What a caller wants of a channel that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChannelUse {
    Write,
    Read,
}

impl Board {
    /// Refuses channels that are not this caller's to name. Only clients of the gateway name theirs; the other surfaces
    /// set it.
    pub(super) fn check_channels(&self, caller: &Caller, command: &Command) -> Result<(), BoardError> {
        if caller.surface != Surface::Gateway {
            return Ok(());
        }
        if let Command::StartRun(StartRun { origin, .. }) | Command::CallTool(CallTool { origin, .. }) = command {
            return self.check_channel(caller, &origin.channel, ChannelUse::Write);
        }
        if let Command::SearchMemory { channel, .. } = command {
            return self.check_channel(caller, channel, ChannelUse::Read);
        }
        if let Command::ReadHistory { session, .. }
        | Command::ClearSession { session, .. }
        | Command::ReadMessages { session, .. }
        | Command::BudgetStatus { session: Some(session) } = command
        {
            return self.check_channel(caller, &channel_of(session), ChannelUse::Read);
        }
        Ok(())
    }

    fn check_channel(&self, caller: &Caller, channel: &str, usage: ChannelUse) -> Result<(), BoardError> {
        let is_operator = caller.grants.has(Grant::Operate);
        if channel == access::OPERATOR_CHANNEL && !is_operator {
            let message = format!("channel `{channel}` is the operator's: it takes the operator's token");
            return Err(BoardError::forbidden(message));
        }
        let is_reserved = access::RESERVED_CHANNELS.contains(&channel) || self.0.channels.channel(channel).is_some();
        if is_reserved && (usage == ChannelUse::Write || !is_operator) {
            let message = format!("channel `{channel}` is reserved for conversations of another surface: name another");
            return Err(BoardError::forbidden(message));
        }
        Ok(())
    }

    /// Refuses a session that somebody else made. A session that is not there yet is anybody's.
    pub(super) async fn check_session(&self, caller: &Caller, session: &SessionKey) -> Result<(), BoardError> {
        // What a service posts goes to its own channel's sessions; clients cannot name these.
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

    pub(super) async fn find_run(&self, caller: &Caller, wanted: RunRef) -> Result<BoardReply, BoardError> {
        let row: Option<RunRow> = match wanted {
            RunRef::ClientId { id, within } => {
                let within = within.map(|session| self.session_key(session)).transpose()?;
                let found = self.0.store.latest_run_by_client_id(&caller.principal, &id).await?;
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
        let last_seq = self.0.store.last_seq(&Topic::Run(row.run)).await?;
        // The run is remembered, its events are not.
        if last_seq == Seq(0) {
            return Err(BoardError::not_found("run expired"));
        }
        Ok(BoardReply::Run(RunSummary { run: row.run, session: row.session, client_id: row.client_id, last_seq }))
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

/// The channel that a session is filed under. Keys of another shape are those of programs on the bridge.
fn channel_of(session: &SessionRef) -> String {
    match session {
        SessionRef::Origin(origin) => origin.channel.clone(),
        SessionRef::Key(key) => {
            key.conversation_parts().map_or_else(|| Surface::Bridge.name().to_owned(), |parts| parts.channel)
        }
    }
}
