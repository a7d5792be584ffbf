//! The table of sessions. Pure: whoever asks says who they are and what time it is.
//!
//! A session that is over leaves its name behind until what is kept for it elsewhere is gone too: whoever takes the name
//! next begins with nothing, and nothing of theirs goes with the one before.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{SessionConfig, WorkerId, WorkerTool, session_key};
use crate::command::OpenSession;
use crate::error::{BoardError, ErrorKind};
use crate::id::{MemoryOwner, SessionKey};
use crate::port::FolderGrant;
use crate::run::CallChain;
use crate::text::cut;
use crate::tool::ToolSpec;

mod quota;
mod transitions;

pub(super) use quota::SessionOpener;
use quota::SessionQuota;

/// Longest id of a session in bytes.
const MAX_ID: usize = 512;
/// Tools one session may have.
const MAX_TOOLS: usize = 1000;
/// Sessions of the server's own making (those of agents and workers); those used longest ago go first.
const MAX_INTERNAL_SESSIONS: usize = 10_000;
/// What a session says about itself.
const MAX_METADATA: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct SessionTable {
    ttl: Duration,
    max_client_sessions: usize,
    by_id: HashMap<Arc<str>, BridgeSession>,
    /// How many of them are of clients, which are counted.
    client_sessions: usize,
    quota: SessionQuota,
    /// Which session stands for a conversation among workers.
    agent_sessions: HashMap<SessionKey, Arc<str>>,
    /// Which session is a worker's own.
    worker_sessions: HashMap<WorkerId, Arc<str>>,
    /// Names of sessions that are over. `None`: somebody is cleaning up.
    ending: HashMap<Arc<str>, Option<EndedSession>>,
    opened: u64,
}

#[derive(Debug)]
struct BridgeSession {
    kind: SessionKind,
    /// Of a client's session.
    opener: Option<SessionOpener>,
    scope: SessionScope,
    /// Beneath which run those calls stand that its workers make.
    call_chain: Option<CallChain>,
    metadata: BTreeMap<String, String>,
    config: SessionConfig,
    created_at: Timestamp,
    used_at: Instant,
    /// Calls under way of those whose use counts; for as long as there are any, it does not grow old.
    active_calls: usize,
    serial: SessionSerial,
    tasks: Arc<SessionTasks>,
    tools: BTreeMap<Arc<str>, RegisteredTool>,
}

/// One session among all there were, those of the same name included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionSerial(u64);

#[derive(Debug, Clone, PartialEq, Eq)]
enum SessionKind {
    Client,
    /// A worker's own.
    Worker(WorkerId),
    /// Stands for a conversation whose agent calls workers.
    Agent,
}

/// Who asks. Sessions of the server's own making are for workers only, whoever comes to know their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BridgeCaller<'a> {
    Client,
    /// By its id.
    Worker(&'a str),
}

/// For whom and where calls of a session work.
#[derive(Debug, Clone)]
pub(crate) struct SessionScope {
    pub(crate) session: SessionKey,
    pub(crate) owner: MemoryOwner,
    pub(crate) folder: Option<Arc<Path>>,
    pub(crate) folder_grant: Option<FolderGrant>,
}

/// What ends with the session: calls of the server's own tools, which might leave something behind in it.
#[derive(Debug, Default)]
pub(super) struct SessionTasks {
    pub(super) stop: CancellationToken,
    pub(super) tracker: TaskTracker,
}

/// A tool of a program that nobody can call back.
#[derive(Debug, Clone)]
pub(super) struct RegisteredTool {
    pub(super) spec: ToolSpec,
    /// What the program calls itself.
    pub(super) registered_by: Arc<str>,
}

/// A session as one call sees it.
#[derive(Debug, Clone)]
pub(super) struct SessionSnapshot {
    pub(super) id: Arc<str>,
    pub(super) serial: SessionSerial,
    pub(super) scope: SessionScope,
    pub(super) call_chain: Option<CallChain>,
    pub(super) tasks: Arc<SessionTasks>,
}

/// What came of the wish to open a session.
#[derive(Debug)]
pub(super) enum SessionTransition {
    Done,
    /// Not before this one is cleaned up.
    CleanUpFirst(EndedSession),
    /// Not before somebody else is done with cleaning up.
    WaitForCleanup,
}

/// A session that is over and has to be cleaned up.
#[derive(Debug)]
pub(super) struct EndedSession {
    pub(super) id: Arc<str>,
    /// Of its own, with itself.
    pub(super) resources: usize,
    /// A conversation's stay with the conversation.
    pub(super) has_variables: bool,
    pub(super) tasks: Option<Arc<SessionTasks>>,
}

impl SessionTable {
    pub(super) fn new(ttl: Duration, max: usize) -> Self {
        Self {
            ttl,
            max_client_sessions: max,
            by_id: HashMap::new(),
            client_sessions: 0,
            quota: SessionQuota::default(),
            agent_sessions: HashMap::new(),
            worker_sessions: HashMap::new(),
            ending: HashMap::new(),
            opened: 0,
        }
    }

    /// Opens or goes on. The quota is for new ones only.
    pub(super) fn open(
        &mut self,
        wanted: &OpenSession,
        opener: &SessionOpener,
        at: Timestamp,
        now: Instant,
    ) -> Result<SessionTransition, BoardError> {
        let OpenSession { id, metadata, .. } = wanted;
        if id.trim().is_empty() || id.len() > MAX_ID {
            let message = format!("invalid_id: a session id has 1 to {MAX_ID} bytes");
            return Err(BoardError::invalid(message));
        }
        let size: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
        if size > MAX_METADATA {
            return Err(BoardError::invalid(format!(
                "the session's metadata is too long: at most {MAX_METADATA} bytes"
            )));
        }
        match &wanted.worker {
            Some(worker) => self.open_for_worker(wanted, worker, at, now).map(|()| SessionTransition::Done),
            None => self.open_for_client(wanted, opener, at, now),
        }
    }

    fn open_for_client(
        &mut self,
        wanted: &OpenSession,
        opener: &SessionOpener,
        at: Timestamp,
        now: Instant,
    ) -> Result<SessionTransition, BoardError> {
        let id = &wanted.id;
        match self.by_id.get_mut(id) {
            Some(session) if session.is_alive(now, self.ttl) => {
                if session.kind != SessionKind::Client {
                    let message = "invalid_id: the server has a session of that id itself";
                    return Err(BoardError::new(ErrorKind::Conflict, message));
                }
                session.refresh(wanted, now);
                return Ok(SessionTransition::Done);
            }
            Some(_) => self.remove_session(id),
            None => {}
        }
        match self.ending.get_mut(id).map(Option::take) {
            None => {}
            Some(Some(ended)) => return Ok(SessionTransition::CleanUpFirst(ended)),
            Some(None) => return Ok(SessionTransition::WaitForCleanup),
        }
        if self.client_sessions >= self.max_client_sessions
            || self.quota.check(opener, self.max_client_sessions).is_err()
        {
            self.expire(now);
        }
        // Those that are being cleaned up hold memory too.
        if self.client_sessions >= self.max_client_sessions
            || self.ending.len() >= self.max_client_sessions.saturating_add(MAX_INTERNAL_SESSIONS)
        {
            let message =
                format!("session_quota_exceeded: {} sessions are open, no more are taken", self.max_client_sessions);
            return Err(BoardError::new(ErrorKind::Exhausted, message));
        }
        self.quota.check(opener, self.max_client_sessions)?;
        let place = SessionScope {
            session: session_key(id),
            owner: MemoryOwner::account("bridge", id),
            folder: None,
            folder_grant: None,
        };
        self.quota.add(opener);
        let session = self.insert(id, SessionKind::Client, place, at, now);
        session.opener = Some(opener.clone());
        session.refresh(wanted, now);
        Ok(SessionTransition::Done)
    }

    /// Workers open every session they are called in, on every call. They make one, which is their own: a session that
    /// is over does not come back because a worker is late.
    fn open_for_worker(
        &mut self,
        wanted: &OpenSession,
        worker: &WorkerId,
        at: Timestamp,
        now: Instant,
    ) -> Result<(), BoardError> {
        let id = &wanted.id;
        if let Some(session) = self.by_id.get_mut(id) {
            let is_own = matches!(&session.kind, SessionKind::Worker(owner) if owner == worker);
            if is_own {
                session.refresh(wanted, now);
            }
            let is_there = is_own
                || (session.is_accessible_to(BridgeCaller::Worker(&worker.0)) && session.is_alive(now, self.ttl));
            return if is_there { Ok(()) } else { Err(not_found(id)) };
        }
        if self.worker_sessions.contains_key(worker) || self.ending.contains_key(id) {
            return Err(not_found(id));
        }
        self.evict_idle();
        let place = SessionScope {
            session: session_key(id),
            owner: MemoryOwner::account("bridge", id),
            folder: None,
            folder_grant: None,
        };
        self.insert(id, SessionKind::Worker(worker.clone()), place, at, now).refresh(wanted, now);
        self.worker_sessions.insert(worker.clone(), id.clone());
        Ok(())
    }

    /// The session that stands for a conversation among workers: the same one for as long as it is used. Its name says
    /// nothing about the conversation and cannot be guessed. It is in use until `leave`.
    pub(super) fn agent_session(
        &mut self,
        place: SessionScope,
        nesting: Option<CallChain>,
        fresh: impl FnOnce() -> Arc<str>,
        at: Timestamp,
        now: Instant,
    ) -> (Arc<str>, SessionSerial) {
        let known = self.agent_sessions.get(&place.session).cloned();
        if let Some(id) = known
            && let Some(session) = self.by_id.get_mut(&id)
        {
            session.used_at = now;
            session.active_calls += 1;
            session.scope = place;
            session.call_chain = nesting;
            return (id, session.serial);
        }
        self.evict_idle();
        let id = fresh();
        self.agent_sessions.insert(place.session.clone(), id.clone());
        let session = self.insert(&id, SessionKind::Agent, place, at, now);
        session.active_calls = 1;
        session.call_chain = nesting;
        (id, session.serial)
    }

    /// A use of the session that takes a moment.
    pub(super) fn touch(&mut self, id: &str, who: BridgeCaller<'_>, now: Instant) -> Option<SessionScope> {
        let (_, session) = self.find_accessible(id, who, now)?;
        session.record_use(who, now);
        Some(session.scope.clone())
    }

    /// The beginning of a call in the session. A client's use of it lasts until `leave`; a worker's does not count.
    pub(super) fn begin_call(&mut self, id: &str, who: BridgeCaller<'_>, now: Instant) -> Option<SessionSnapshot> {
        let (id, session) = self.find_accessible(id, who, now)?;
        session.record_use(who, now);
        if who == BridgeCaller::Client {
            session.active_calls += 1;
        }
        Some(SessionSnapshot {
            id,
            serial: session.serial,
            scope: session.scope.clone(),
            call_chain: session.call_chain.clone(),
            tasks: session.tasks.clone(),
        })
    }

    /// The end of a call.
    pub(super) fn end_call(&mut self, id: &str, number: SessionSerial, now: Instant) {
        let Some(session) = self.by_id.get_mut(id).filter(|session| session.serial == number) else { return };
        session.active_calls = session.active_calls.saturating_sub(1);
        session.used_at = now;
        if session.active_calls == 0 {
            session.call_chain = None;
        }
    }

    /// How calls in it are to be treated; says whose config it is.
    pub(super) fn config(&self, id: &str) -> Option<(SessionConfig, SessionSerial)> {
        let session = self.by_id.get(id)?;
        let telemetry = session.config.telemetry || session.kind == SessionKind::Agent;
        Some((SessionConfig { telemetry, ..session.config }, session.serial))
    }

    /// Is it still the same one?
    pub(super) fn is_current(&self, id: &str, number: SessionSerial) -> bool {
        self.by_id.get(id).is_some_and(|session| session.serial == number)
    }

    pub(super) fn describe(
        &mut self,
        id: &str,
        who: BridgeCaller<'_>,
        now: Instant,
    ) -> Option<(BTreeMap<String, String>, Timestamp)> {
        let (_, session) = self.find_accessible(id, who, now)?;
        session.record_use(who, now);
        Some((session.metadata.clone(), session.created_at))
    }

    /// All of them or none.
    pub(super) fn register(
        &mut self,
        id: &str,
        tools: Vec<WorkerTool>,
        by: &Arc<str>,
        now: Instant,
    ) -> Result<(), BoardError> {
        let (_, session) = self.find_accessible(id, BridgeCaller::Client, now).ok_or_else(|| not_found(id))?;
        session.used_at = now;
        let mut named = HashSet::new();
        for tool in &tools {
            if session.tools.contains_key(&tool.name) || !named.insert(tool.name.clone()) {
                let message = format!("duplicate_tool: {} is registered in session {id} already", tool.name);
                return Err(BoardError::new(ErrorKind::Conflict, message));
            }
        }
        if session.tools.len() + tools.len() > MAX_TOOLS {
            return Err(BoardError::new(
                ErrorKind::Exhausted,
                format!("too many tools: a session has at most {MAX_TOOLS}"),
            ));
        }
        for tool in tools {
            session.tools.insert(tool.name.clone(), RegisteredTool { spec: tool.spec(), registered_by: by.clone() });
        }
        Ok(())
    }

    pub(super) fn tool(&self, id: &str, name: &str) -> Option<&RegisteredTool> {
        self.by_id.get(id)?.tools.get(name)
    }

    pub(super) fn tools(&self, id: &str) -> Vec<ToolSpec> {
        let session = self.by_id.get(id);
        session.map(|session| session.tools.values().map(|tool| tool.spec.clone()).collect()).unwrap_or_default()
    }
}

pub(super) fn not_found(id: &str) -> BoardError {
    BoardError::not_found(format!("Session not found: {}", clipped(id)))
}

/// Names come from clients and go back to them in words.
pub(crate) fn clipped(name: &str) -> &str {
    cut(name, MAX_ID)
}

#[cfg(test)]
mod tests;
