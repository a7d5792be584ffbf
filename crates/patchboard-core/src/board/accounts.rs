//! What is stored of accounts: who may see it, correct it, take it along and have it deleted.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Board;
use super::handlers::{BoardCommand, CommandFuture, handlers};
use crate::access;
use crate::caller::{Caller, Grant};
use crate::command::{
    AccountRef, CorrectFact, DescribeAccount, ExportAccount, ExportPage, ExportSection, ForgetAccount, ForgetFact,
    ListAccounts, ListFacts, PageRequest,
};
use crate::error::{BoardError, ErrorKind, RetryHint};
use crate::id::{MemoryOwner, RunId, SessionKey};
use crate::reply::{AccountReport, ForgottenAccount};
use crate::store::{
    AccountContents, AccountRow, AuditRow, AuditSubject, EraseExtent, FactListQuery, FactRecord, NewFact, ResultPage,
    StoreWrite, WriteBatch,
};

/// The longest text that a fact is corrected to: facts are part of prompts.
const MAX_OBJECT_CHARS: usize = 2000;
/// How long forgetting an account waits for its cancelled runs to end; then it is refused, and nothing was deleted.
const RUN_END_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it looks.
const RUN_END_INTERVAL: Duration = Duration::from_millis(50);

handlers! {
    ListAccounts(board, caller, ListAccounts(page), _) => board.list_accounts(caller, page).await;
    DescribeAccount(board, caller, request, _) => board.describe_account(caller, &request.account).await;
    ListFacts(board, caller, request, _) => board.list_facts(caller, request).await;
    CorrectFact(board, caller, request, stop) => board.correct_fact(caller, request, &stop).await;
    ForgetFact(board, caller, request, _) => board.forget_fact(caller, request).await;
    ExportAccount(board, caller, request, _) => board.export_account(caller, request).await;
}

impl BoardCommand for ForgetAccount {
    /// Goes on when the client disconnects, so that a deletion once begun is completed.
    fn execute(self, board: &Board, caller: &Caller, _stop: CancellationToken) -> CommandFuture<Self> {
        let (board, caller) = (board.clone(), caller.clone());
        Box::pin(async move {
            let task = board.clone();
            let forgetting = board.0.tracker.spawn(async move { task.forget_account(&caller, &self.account).await });
            forgetting.await.unwrap_or_else(|_| Err(BoardError::new(ErrorKind::Internal, "forgetting broke off")))
        })
    }
}

impl Board {
    async fn list_accounts(&self, caller: &Caller, page: PageRequest) -> Result<ResultPage<AccountRow>, BoardError> {
        let owners = (!caller.grants.has(Grant::Operate)).then(|| access::session_owners(caller));
        Ok(self.0.store.accounts(owners, page.limit, page.cursor).await?)
    }

    /// The account, if this caller may see it. Others get the same error as for one that does not exist.
    async fn own_account(
        &self,
        caller: &Caller,
        named: &AccountRef,
    ) -> Result<(MemoryOwner, AccountContents), BoardError> {
        let owner = MemoryOwner::account(&named.channel, &named.account);
        let contents = self.0.store.account_contents(&owner).await?;
        let is_operator = caller.grants.has(Grant::Operate);
        let is_owned = !contents.session_owners.is_empty()
            && contents.session_owners.iter().all(|creator| access::owns_session(caller, creator.as_deref()));
        // What is left to do after a crash is the operator's business.
        let exists = if is_operator { !contents.is_empty() || contents.has_remains } else { is_owned };
        if exists { Ok((owner, contents)) } else { Err(unknown_account(named)) }
    }

    async fn describe_account(&self, caller: &Caller, named: &AccountRef) -> Result<AccountReport, BoardError> {
        let (owner, contents) = self.own_account(caller, named).await?;
        let live_runs = self.unfinished_runs_of(&owner).await?.len() as u64;
        Ok(AccountReport { contents, live_runs })
    }

    async fn list_facts(&self, caller: &Caller, request: ListFacts) -> Result<ResultPage<FactRecord>, BoardError> {
        let (owner, _) = self.own_account(caller, &request.account).await?;
        let ListFacts { with_superseded, page, .. } = request;
        let query = FactListQuery { owner, with_superseded, limit: page.limit, cursor: page.cursor };
        Ok(self.0.store.account_facts(query).await?)
    }

    async fn fact(&self, owner: &MemoryOwner, number: u64) -> Result<FactRecord, BoardError> {
        let found = self.0.store.account_fact(owner, number).await?;
        found.ok_or_else(|| {
            BoardError::not_found(format!("the account has no fact {number}; `patchboard memory list` shows them"))
        })
    }

    async fn correct_fact(
        &self,
        caller: &Caller,
        request: CorrectFact,
        stop: &CancellationToken,
    ) -> Result<FactRecord, BoardError> {
        let object = request.object.trim();
        if object.is_empty() {
            return Err(BoardError::invalid("a fact needs a text; `patchboard memory forget` deletes one"));
        }
        if object.chars().count() > MAX_OBJECT_CHARS {
            return Err(BoardError::invalid(format!("a fact has at most {MAX_OBJECT_CHARS} characters")));
        }
        let (owner, _) = self.own_account(caller, &request.account).await?;
        let FactRecord { fact, superseded, .. } = self.fact(&owner, request.fact).await?;
        if let Some(superseded) = superseded {
            let by = superseded.by.map_or_else(|| "a later one".to_owned(), |number| format!("fact {number}"));
            let message = format!("fact {} was superseded by {by}: correct that", request.fact);
            return Err(BoardError::new(ErrorKind::Conflict, message));
        }
        let sentence = format!("{} {} {object}", fact.subject, fact.predicate);
        let corrected = NewFact {
            owner: owner.clone(),
            subject: fact.subject.clone(),
            predicate: fact.predicate.clone(),
            object: object.to_owned(),
            // A person's own word.
            confidence: 1.0,
            session: fact.session.clone(),
            run: None,
            learned_at: self.0.clock.now(),
            embedding: self.0.run_deps.memory.embed_one(&sentence, stop).await,
        };
        let audit = self.account_audit(caller, "fact.correct", &owner, &format!("fact {}", request.fact));
        self.0.store.commit(WriteBatch::boundary(vec![StoreWrite::LearnFact(corrected), audit])).await?;
        // The same text again changes nothing.
        let newest = FactListQuery { owner: owner.clone(), with_superseded: false, limit: 1, cursor: None };
        let newest = self.0.store.account_facts(newest).await?.items.pop();
        match newest.filter(|found| found.supersedes == Some(request.fact)) {
            Some(corrected) => Ok(corrected),
            None => self.fact(&owner, request.fact).await,
        }
    }

    async fn forget_fact(&self, caller: &Caller, request: ForgetFact) -> Result<(), BoardError> {
        let (owner, _) = self.own_account(caller, &request.account).await?;
        self.fact(&owner, request.fact).await?;
        let audit = self.account_audit(caller, "fact.forget", &owner, &format!("fact {}", request.fact));
        let forget = StoreWrite::ForgetFact { owner, fact: request.fact };
        self.0.store.commit(WriteBatch::boundary(vec![forget, audit])).await?;
        Ok(self.0.store.erase_remains(EraseExtent::Log).await?)
    }

    async fn export_account(&self, caller: &Caller, request: ExportAccount) -> Result<ExportPage, BoardError> {
        let (owner, _) = self.own_account(caller, &request.account).await?;
        let PageRequest { limit, cursor } = request.page;
        let store = &self.0.store;
        Ok(match request.section {
            ExportSection::Facts => {
                let query = FactListQuery { owner, with_superseded: true, limit, cursor };
                ExportPage::Facts(store.account_facts(query).await?)
            }
            ExportSection::Sessions => ExportPage::Sessions(store.account_sessions(&owner, limit, cursor).await?),
            ExportSection::Turns => ExportPage::Turns(store.account_turns(&owner, limit, cursor).await?),
            ExportSection::Runs => ExportPage::Runs(store.account_runs(&owner, limit, cursor).await?),
        })
    }

    async fn forget_account(&self, caller: &Caller, named: &AccountRef) -> Result<ForgottenAccount, BoardError> {
        let inner = &self.0;
        let (owner, contents) = self.own_account(caller, named).await?;
        // Nobody's runs are cancelled before it is certain that the store accepts writes. Written first, because its
        // subject is one of the names that are deleted last.
        if !contents.is_empty() {
            let audit = self.account_audit(caller, "account.forget", &owner, "");
            inner.store.commit(WriteBatch::boundary(vec![audit])).await?;
        }
        let deliveries = inner.channels.abandon(&owner).await?;
        let cancelled_runs =
            self.end_runs_of(&owner).await.inspect_err(|_| inner.channels.resume_abandoned(&deliveries))?;
        self.delete_variables_of(&owner).await?;
        while inner.store.forget_account(&owner, deliveries.clone()).await? {
            tokio::task::yield_now().await;
        }
        inner.store.erase_remains(EraseExtent::WholeStore).await?;
        Ok(ForgottenAccount { contents, deliveries: deliveries.len() as u64, cancelled_runs })
    }

    /// Cancels the account's runs and waits until the store has their ends.
    async fn end_runs_of(&self, owner: &MemoryOwner) -> Result<u64, BoardError> {
        let deadline = tokio::time::Instant::now() + RUN_END_TIMEOUT;
        let first = self.cancel_runs_of(owner).await?;
        let mut remaining = first;
        while remaining > 0 {
            if tokio::time::Instant::now() >= deadline {
                let message = format!("nothing was deleted: {remaining} runs of the account have not ended yet");
                let retry = RetryHint::After(RUN_END_TIMEOUT);
                return Err(BoardError::new(ErrorKind::Unavailable, message).retry(retry));
            }
            tokio::time::sleep(RUN_END_INTERVAL).await;
            // Also those that were queued behind a cancelled one.
            remaining = self.cancel_runs_of(owner).await?;
        }
        Ok(first)
    }

    /// Cancels the account's unfinished runs and counts them.
    async fn cancel_runs_of(&self, owner: &MemoryOwner) -> Result<u64, BoardError> {
        let unfinished = self.unfinished_runs_of(owner).await?;
        let live: Vec<_> = {
            let live_runs = self.live_runs();
            unfinished.iter().filter_map(|run| live_runs.get(run).cloned()).collect()
        };
        for live in live {
            live.control.cancel.cancel();
        }
        Ok(unfinished.len() as u64)
    }

    async fn unfinished_runs_of(&self, owner: &MemoryOwner) -> Result<Vec<RunId>, BoardError> {
        let unfinished = self.0.store.unfinished_runs().await?;
        let of_account = unfinished.iter().filter(|unfinished| is_of(&unfinished.run.session, owner));
        Ok(of_account.map(|unfinished| unfinished.run.run).collect())
    }

    /// Variables of programs are held in memory too.
    async fn delete_variables_of(&self, owner: &MemoryOwner) -> Result<(), BoardError> {
        let mut cursor = None;
        loop {
            let page = self.0.store.account_sessions(owner, PageRequest::MAX_LIMIT, cursor).await?;
            for session in page.items {
                self.0.bridge.variables().delete_all(&session.key).await;
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    fn account_audit(&self, caller: &Caller, action: &str, owner: &MemoryOwner, detail: &str) -> StoreWrite {
        StoreWrite::Audit(AuditRow {
            at: self.0.clock.now(),
            principal: caller.principal.text(),
            surface: caller.surface.name().into(),
            action: action.into(),
            subject: AuditSubject::Account(owner.clone()),
            run: None,
            detail: Arc::from(detail),
        })
    }
}

/// Does the session belong to that account?
fn is_of(session: &SessionKey, owner: &MemoryOwner) -> bool {
    session.memory_owner().as_ref() == Some(owner)
}

fn unknown_account(named: &AccountRef) -> BoardError {
    let AccountRef { channel, account } = named;
    BoardError::not_found(format!(
        "nothing of yours is stored under `{channel}/{account}`; `patchboard memory accounts` lists what is"
    ))
}
