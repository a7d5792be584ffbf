//! What is stored of accounts, their deletion, forks, and the search over turns.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::tables::{StoreTables, StoredFact, StoredSession};
use super::{InMemoryStore, MAX_ITEMS, number, page, pair};
use crate::event::Topic;
use crate::id::{MemoryOwner, RunId, SessionKey};
use crate::model::ModelMessage;
use crate::store::{
    AccountContents, AccountRow, AccountStore, AccountTurn, AuditSubject, EraseExtent, FactListQuery, FactRecord,
    FoundTurn, KvNamespace, MAX_FORKED_TURNS, NewFork, PageCursor, ResultPage, RunRow, SessionRow, StoreError, TurnRow,
    TurnSearch, TurnSearchQuery,
};
use crate::text::cut_chars;
use crate::webhook::DeliveryId;

/// The session of usage whose session was forgotten.
const FORGOTTEN_SESSION: &str = "forgotten:";

pub(super) fn is_forgotten(session: &SessionKey) -> bool {
    session.as_str() == FORGOTTEN_SESSION
}

impl AccountStore for InMemoryStore {
    fn accounts(
        &self,
        owners: Option<Vec<Arc<str>>>,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<AccountRow>, StoreError>> {
        self.with_tables(|state| {
            let after = cursor.map(|cursor| MemoryOwner::parse(&cursor.0).ok_or(StoreError::BadCursor)).transpose()?;
            let mut rows: BTreeMap<MemoryOwner, AccountRow> = BTreeMap::new();
            let empty = |account: &MemoryOwner| AccountRow {
                account: account.clone(),
                sessions: 0,
                turns: 0,
                facts: 0,
                used_at: None,
            };
            for (key, session) in &state.sessions {
                let Some(account) = key.memory_owner() else { continue };
                let row = rows.entry(account.clone()).or_insert_with(|| empty(&account));
                row.sessions += 1;
                row.turns += session.turns.len() as u64;
                row.used_at = row.used_at.max(Some(session.used_at));
            }
            for fact in state.facts.iter().filter(|fact| fact.superseded.is_none()) {
                rows.entry(fact.owner.clone()).or_insert_with(|| empty(&fact.owner)).facts += 1;
            }
            let is_visible = |account: &MemoryOwner| {
                let Some(owners) = &owners else { return true };
                let creators = state.contents(account).session_owners;
                let is_own = |creator: &Option<Arc<str>>| creator.as_ref().is_some_and(|name| owners.contains(name));
                !creators.is_empty() && creators.iter().all(is_own)
            };
            let rows = rows.into_iter().filter(|(account, _)| after.as_ref().is_none_or(|after| account > after));
            let rows: Vec<_> = rows.filter(|(account, _)| is_visible(account)).collect();
            Ok(page(rows.into_iter(), limit, |account| account.to_string()))
        })
    }

    fn account_contents(&self, account: &MemoryOwner) -> BoxFuture<'_, Result<AccountContents, StoreError>> {
        let account = account.clone();
        self.with_tables(move |state| Ok(state.contents(&account)))
    }

    fn account_facts(&self, query: FactListQuery) -> BoxFuture<'_, Result<ResultPage<FactRecord>, StoreError>> {
        self.with_tables(|state| {
            let before = query.cursor.map(|cursor| number::<u64>(&cursor.0)).transpose()?.unwrap_or(u64::MAX);
            let facts = state.facts.iter().rev().filter(|stored| stored.owner == query.owner);
            let facts = facts.filter(|stored| query.with_superseded || stored.superseded.is_none());
            let facts = facts.filter(|stored| stored.fact.number < before);
            let facts = facts.map(|stored| (stored.fact.number, state.fact_record(stored)));
            Ok(page(facts, query.limit, |number| number.to_string()))
        })
    }

    fn account_fact(&self, account: &MemoryOwner, fact: u64) -> BoxFuture<'_, Result<Option<FactRecord>, StoreError>> {
        let account = account.clone();
        self.with_tables(move |state| {
            let found = state.facts.iter().find(|stored| stored.owner == account && stored.fact.number == fact);
            Ok(found.map(|stored| state.fact_record(stored)))
        })
    }

    fn account_sessions(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<SessionRow>, StoreError>> {
        let account = account.clone();
        self.with_tables(move |state| {
            let after = cursor.map(|cursor| number::<u64>(&cursor.0)).transpose()?.unwrap_or(0);
            let sessions = state.sessions_of(&account).into_iter().filter(|(_, session)| session.number > after);
            let rows = sessions.map(|(key, session)| (session.number, session.row(key)));
            Ok(page(rows, limit, |number| number.to_string()))
        })
    }

    fn account_turns(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<AccountTurn>, StoreError>> {
        let account = account.clone();
        self.with_tables(move |state| {
            let after = cursor.as_ref().map(pair::<u64, u64>).transpose()?.unwrap_or((0, 0));
            let sessions = state.sessions_of(&account).into_iter();
            let turns = sessions.flat_map(|(key, session)| {
                let turn = |turn: &TurnRow| AccountTurn { session: key.clone(), turn: turn.clone() };
                session.turns.iter().map(move |row| ((session.number, row.number), turn(row)))
            });
            let turns = turns.filter(|(position, _)| *position > after);
            Ok(page(turns, limit, |(session, turn)| format!("{session}.{turn}")))
        })
    }

    fn account_runs(
        &self,
        account: &MemoryOwner,
        limit: usize,
        cursor: Option<PageCursor>,
    ) -> BoxFuture<'_, Result<ResultPage<RunRow>, StoreError>> {
        let account = account.clone();
        self.with_tables(move |state| {
            let after = cursor.map(|cursor| number::<u64>(&cursor.0)).transpose()?.unwrap_or(0);
            let of_account = |session: &SessionKey| session.memory_owner().as_ref() == Some(&account);
            let mut runs: Vec<_> = state.runs.values().filter(|run| of_account(&run.row.session)).collect();
            runs.retain(|run| run.number > after);
            runs.sort_by_key(|run| run.number);
            Ok(page(runs.into_iter().map(|run| (run.number, run.row.clone())), limit, |number| number.to_string()))
        })
    }

    fn forget_account(
        &self,
        account: &MemoryOwner,
        deliveries: Vec<DeliveryId>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let account = account.clone();
        self.with_tables(move |state| {
            state.forget_account(&account, &deliveries);
            Ok(false)
        })
    }

    fn erase_remains(&self, _extent: EraseExtent) -> BoxFuture<'_, Result<(), StoreError>> {
        self.with_tables(|_| Ok(()))
    }
}

impl TurnSearch for InMemoryStore {
    fn index_turns(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.with_tables(|_| Ok(false))
    }

    fn search_turns(&self, query: TurnSearchQuery) -> BoxFuture<'_, Result<ResultPage<FoundTurn>, StoreError>> {
        self.with_tables(|state| {
            let before = query.cursor.as_ref().map(pair::<u64, u64>).transpose()?.unwrap_or((u64::MAX, u64::MAX));
            let words: Vec<String> = words(&query.text).collect();
            let is_own = |session: &StoredSession| match &query.owners {
                Some(owners) => session.owner.as_ref().is_some_and(|owner| owners.contains(owner)),
                None => true,
            };
            let mut found = Vec::new();
            for (key, session) in state.sessions.iter().filter(|(_, session)| !session.cleared && is_own(session)) {
                for turn in session.visible() {
                    let text = spoken_text(turn);
                    let contained: HashSet<String> = self::words(&text).collect();
                    let position = (session.number, turn.number);
                    if position < before && !words.is_empty() && words.iter().all(|word| contained.contains(word)) {
                        found.push((
                            position,
                            FoundTurn {
                                session: key.clone(),
                                title: session.title.clone(),
                                turn: turn.number,
                                run: turn.run,
                                at: turn.at,
                                excerpt: cut_chars(&text, 200).into_owned(),
                            },
                        ));
                    }
                }
            }
            found.sort_by_key(|(position, _)| std::cmp::Reverse(*position));
            Ok(page(found.into_iter(), query.limit.min(MAX_ITEMS), |(session, turn)| format!("{session}.{turn}")))
        })
    }
}

impl StoreTables {
    fn sessions_of(&self, account: &MemoryOwner) -> Vec<(&SessionKey, &StoredSession)> {
        let of_account = |key: &SessionKey| key.memory_owner().as_ref() == Some(account);
        let mut sessions: Vec<_> = self.sessions.iter().filter(|(key, _)| of_account(key)).collect();
        sessions.sort_by_key(|(_, session)| session.number);
        sessions
    }

    fn contents(&self, account: &MemoryOwner) -> AccountContents {
        let sessions = self.sessions_of(account);
        let facts = || self.facts.iter().filter(|stored| stored.owner == *account);
        let current = facts().filter(|stored| stored.superseded.is_none()).count() as u64;
        let mut session_owners: Vec<_> = sessions.iter().map(|(_, session)| session.owner.clone()).collect();
        session_owners.sort();
        session_owners.dedup();
        let runs = self.runs.values().filter(|run| run.row.session.memory_owner().as_ref() == Some(account));
        AccountContents {
            sessions: sessions.len() as u64,
            turns: sessions.iter().map(|(_, session)| session.turns.len() as u64).sum(),
            runs: runs.count() as u64,
            facts: current,
            superseded_facts: facts().count() as u64 - current,
            session_owners,
            names: 0,
            has_remains: false,
        }
    }

    fn fact_record(&self, stored: &StoredFact) -> FactRecord {
        let number = stored.fact.number;
        let replaced = |other: &&StoredFact| other.superseded.is_some_and(|superseded| superseded.by == Some(number));
        FactRecord {
            fact: stored.fact.clone(),
            run: stored.run,
            supersedes: self.facts.iter().find(replaced).map(|other| other.fact.number),
            superseded: stored.superseded,
        }
    }

    /// Deletes the fact with everything it superseded.
    pub(super) fn forget_fact(&mut self, owner: &MemoryOwner, fact: u64) {
        let mut next = Some(fact);
        while let Some(number) = next {
            self.facts.retain(|stored| stored.owner != *owner || stored.fact.number != number);
            let replaced = |stored: &&StoredFact| {
                stored.owner == *owner && stored.superseded.is_some_and(|superseded| superseded.by == Some(number))
            };
            next = self.facts.iter().find(replaced).map(|stored| stored.fact.number);
        }
    }

    pub(super) fn fork_session(&mut self, fork: NewFork) {
        let Some(source) = self.sessions.get(&fork.from) else { return };
        let kept = source.visible().iter().filter(|turn| turn.number <= fork.through);
        let kept: Vec<_> = kept.filter(|turn| turn.number + MAX_FORKED_TURNS > fork.through).cloned().collect();
        let number = self.next_number();
        let turns = kept.into_iter().zip(1..).map(|(turn, number)| TurnRow { number, ..turn }).collect();
        let session = StoredSession {
            number,
            owner: Some(fork.owner),
            created_at: fork.at,
            used_at: fork.at,
            cleared: false,
            hidden_turns: 0,
            turns,
            title: fork.title,
            is_hidden: false,
        };
        self.sessions.insert(fork.into, session);
    }

    fn forget_account(&mut self, account: &MemoryOwner, deliveries: &[DeliveryId]) {
        let of_account = |key: &SessionKey| key.memory_owner().as_ref() == Some(account);
        let mut ended: Vec<RunId> = Vec::new();
        for run in self.runs.values_mut().filter(|run| of_account(&run.row.session)) {
            run.delete_at_end = true;
            ended.extend(run.ended_at.map(|_| run.row.run));
        }
        for run in ended {
            self.delete_run(run);
            self.events.remove(&Topic::Run(run));
        }
        self.sessions.retain(|key, _| !of_account(key));
        self.kv.retain(|namespace, _| !matches!(namespace, KvNamespace::Session(key) if of_account(key)));
        self.facts.retain(|stored| stored.owner != *account);
        self.deliveries.retain(|delivery, _| !deliveries.contains(delivery));
        self.spent.retain(|scope, _| {
            let session = scope.strip_prefix("session/").and_then(SessionKey::parse);
            !session.is_some_and(|session| of_account(&session))
        });
        if let Some(forgotten) = SessionKey::parse(FORGOTTEN_SESSION) {
            for usage in self.usage.iter_mut().filter(|usage| of_account(&usage.session)) {
                usage.session = forgotten.clone();
            }
        }
        for row in &mut self.audit {
            let is_forgotten = match &row.subject {
                AuditSubject::Session(key) => of_account(key),
                AuditSubject::Account(owner) => owner == account,
                AuditSubject::Text(_) | AuditSubject::Forgotten => false,
            };
            if is_forgotten {
                row.subject = AuditSubject::Forgotten;
            }
        }
    }
}

/// What the user and the agent said in a turn.
fn spoken_text(turn: &TurnRow) -> String {
    turn.messages.iter().map(ModelMessage::text).collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}
