//! Conversations as a user keeps them: named, hidden, searched, continued from an earlier turn.

use super::Board;
use super::handlers::{BoardCommand, CommandFuture, handlers};
use crate::access;
use crate::caller::{Caller, Grant};
use crate::command::{ForkPoint, ForkSession, HideSession, RenameSession, SearchTurns, SessionRef};
use crate::conversation::{MAX_TITLE_CHARS, chosen_title};
use crate::error::BoardError;
use crate::id::{RunId, SessionKey};
use crate::store::{
    FoundTurn, NewFork, PageCursor, ResultPage, SessionRow, StoreWrite, TurnQuery, TurnSearchQuery, WriteBatch,
};
use tokio_util::sync::CancellationToken;

/// Longest text of a search.
const MAX_QUERY_BYTES: usize = 8 * 1024;
/// Steps in which a search indexes turns that are not indexed yet, each of some hundred turns; housekeeping indexes the
/// rest.
const INDEX_STEPS_PER_SEARCH: usize = 20;
/// Turns read to find that of a run, the newest.
const FORK_LOOKUP_PAGE: usize = 200;
const FORK_LOOKUP_PAGES: usize = 50;

handlers! {
    RenameSession(board, caller, request, _) => board.rename_session(caller, request).await;
    HideSession(board, caller, request, _) => board.hide_session(caller, request).await;
    SearchTurns(board, caller, request, _) => board.search_turns(caller, request).await;
    ForkSession(board, caller, request, _) => board.fork_session(caller, request).await;
}

impl Board {
    /// A stored session that this caller owns.
    async fn own_session(&self, caller: &Caller, session: SessionRef) -> Result<SessionRow, BoardError> {
        let session = self.session_key(session)?;
        self.check_session(caller, &session).await?;
        let stored = self.0.store.session(&session).await?;
        stored
            .ok_or_else(|| BoardError::not_found("there is no such conversation; `patchboard sessions list` shows all"))
    }

    async fn rename_session(&self, caller: &Caller, request: RenameSession) -> Result<String, BoardError> {
        let title = chosen_title(&request.title)
            .ok_or_else(|| BoardError::invalid(format!("a title has 1 to {MAX_TITLE_CHARS} characters")))?;
        let session = self.own_session(caller, request.session).await?.key;
        let rename = StoreWrite::RenameSession { session, title: title.clone() };
        self.0.store.commit(WriteBatch::boundary(vec![rename])).await?;
        Ok(title.to_string())
    }

    async fn hide_session(&self, caller: &Caller, request: HideSession) -> Result<(), BoardError> {
        let session = self.own_session(caller, request.session).await?.key;
        let hide = StoreWrite::HideSession { session, hidden: request.hidden };
        Ok(self.0.store.commit(WriteBatch::boundary(vec![hide])).await?)
    }

    async fn search_turns(&self, caller: &Caller, request: SearchTurns) -> Result<ResultPage<FoundTurn>, BoardError> {
        let SearchTurns { text, page } = request;
        if text.len() > MAX_QUERY_BYTES {
            return Err(BoardError::invalid(format!("the query is too long: at most {MAX_QUERY_BYTES} bytes")));
        }
        for _ in 0..INDEX_STEPS_PER_SEARCH {
            if !self.0.store.index_turns().await? {
                break;
            }
        }
        let owners = (!caller.grants.has(Grant::Operate)).then(|| access::session_owners(caller));
        let query = TurnSearchQuery { text, owners, limit: page.limit, cursor: page.cursor };
        Ok(self.0.store.search_turns(query).await?)
    }

    async fn fork_session(&self, caller: &Caller, request: ForkSession) -> Result<SessionKey, BoardError> {
        let from = self.own_session(caller, request.session).await?;
        let Some(parts) = from.key.conversation_parts() else {
            return Err(BoardError::invalid("sessions of programs have no turns to continue from"));
        };
        let through = match request.after {
            ForkPoint::Turn(number) => self.turn_number(&from.key, |turn, _| turn == number).await?,
            ForkPoint::Run(run) => self.turn_number(&from.key, |_, of| of == run).await?,
            ForkPoint::LastTurn => self.turn_number(&from.key, |_, _| true).await?,
        };
        let through = through.ok_or_else(|| {
            BoardError::not_found("the conversation has no such turn; `patchboard sessions show` shows its turns")
        })?;
        let peer = format!("fork-{}", self.0.ids.next().simple());
        let into = SessionKey::conversation(&parts.agent, &parts.channel, &parts.account, &peer);
        if into.as_str().len() > SessionKey::MAX_BYTES {
            return Err(BoardError::invalid("the name of the new conversation would be too long"));
        }
        let fork = NewFork {
            from: from.key,
            through,
            into: into.clone(),
            owner: caller.principal.text(),
            title: from.title,
            at: self.0.clock.now(),
        };
        self.0.store.commit(WriteBatch::boundary(vec![StoreWrite::ForkSession(fork)])).await?;
        Ok(into)
    }

    /// The newest visible turn that matches, among the newest ten thousand.
    async fn turn_number(
        &self,
        session: &SessionKey,
        is_wanted: impl Fn(u64, RunId) -> bool,
    ) -> Result<Option<u64>, BoardError> {
        let mut before: Option<PageCursor> = None;
        for _ in 0..FORK_LOOKUP_PAGES {
            let query = TurnQuery { session: session.clone(), limit: FORK_LOOKUP_PAGE, before };
            let page = self.0.store.turns(query).await?;
            let wanted = page.items.iter().rev().find(|turn| is_wanted(turn.number, turn.run));
            if let Some(turn) = wanted {
                return Ok(Some(turn.number));
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        Ok(None)
    }
}
