//! The table of sessions. Pure: the caller passes its identity and the time.
//!
//! An ended session keeps its id reserved until its data elsewhere is deleted: the next session of that id starts
//! empty, and the cleanup cannot delete the new session's data.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::session_key;
use crate::budget::call_chain::CallChain;
use crate::command::OpenSession;
use crate::error::{BoardError, ErrorKind};
use crate::id::{MemoryOwner, SessionKey};
use crate::port::FolderGrant;

use crate::text::cut;
use crate::tool::ToolSpec;
use crate::worker::{SessionConfig, WorkerId, WorkerTool};

mod quota;
mod transitions;

pub(super) use quota::SessionOpener;
use quota::SessionQuota;

/// Longest session id in bytes.
const MAX_ID: usize = 512;
/// Most tools registered in one session.
const MAX_TOOLS: usize = 1000;
/// Most sessions created by the server itself (for agents and workers); past it those unused the longest are ended.
const MAX_INTERNAL_SESSIONS: usize = 10_000;
/// Most bytes of a session's metadata.
const MAX_METADATA: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct SessionTable {
    ttl: Duration,
    max_client_sessions: usize,
    by_id: HashMap<Arc<str>, BridgeSession>,
    /// Number of client sessions, which alone are subject to the quota.
    client_sessions: usize,
    quota: SessionQuota,
    /// The session that represents a conversation to workers.
    agent_sessions: HashMap<SessionKey, Arc<str>>,
    /// A worker's own session.
    worker_sessions: HashMap<WorkerId, Arc<str>>,
    /// Ids of ended sessions. `None`: a cleanup is in progress.
    ending: HashMap<Arc<str>, Option<EndedSession>>,
    opened: u64,
}

#[derive(Debug)]
struct BridgeSession {
    kind: SessionKind,
    /// Set for client sessions.
    opener: Option<SessionOpener>,
    scope: SessionScope,
    /// The call chain that calls by its workers belong to.
    call_chain: Option<CallChain>,
    metadata: BTreeMap<String, String>,
    config: SessionConfig,
    created_at: Timestamp,
    used_at: Instant,
    /// Calls in progress by callers whose use counts; while there are any, the session does not expire.
    active_calls: usize,
    serial: SessionSerial,
    tasks: Arc<SessionTasks>,
    tools: BTreeMap<Arc<str>, ClientTool>,
}

/// Identifies one session among all that had the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionSerial(u64);

#[derive(Debug, Clone, PartialEq, Eq)]
enum SessionKind {
    Client,
    /// A worker's own session.
    Worker(WorkerId),
    /// Represents a conversation whose agent calls workers.
    Agent,
}

/// The caller. Sessions created by the server are accessible to workers only, even to a client that knows the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BridgeCaller<'a> {
    Client,
    /// By worker id.
    Worker(&'a str),
}

/// The session, owner and folder that calls in a bridge session run with.
#[derive(Debug, Clone)]
pub(crate) struct SessionScope {
    pub(crate) session: SessionKey,
    pub(crate) owner: MemoryOwner,
    pub(crate) folder: Option<Arc<Path>>,
    pub(crate) folder_grant: Option<FolderGrant>,
}

/// Calls of built-in tools in the session. They are cancelled when it ends, or they might leave data behind in it.
#[derive(Debug, Default)]
pub(super) struct SessionTasks {
    pub(super) stop: CancellationToken,
    pub(super) tracker: TaskTracker,
}

/// A tool registered by a client that the server cannot call back.
#[derive(Debug, Clone)]
pub(super) struct ClientTool {
    pub(super) spec: ToolSpec,
    /// The name the client gives itself.
    pub(super) registered_by: Arc<str>,
}

/// A session as seen by one call.
#[derive(Debug, Clone)]
pub(super) struct SessionSnapshot {
    pub(super) id: Arc<str>,
    pub(super) serial: SessionSerial,
    pub(super) scope: SessionScope,
    pub(super) call_chain: Option<CallChain>,
    pub(super) tasks: Arc<SessionTasks>,
}

/// The result of trying to open or close a session.
#[derive(Debug)]
pub(super) enum SessionTransition {
    Done,
    /// The caller must clean up this session first.
    CleanUpFirst(EndedSession),
    /// The caller must wait until another task has cleaned up.
    WaitForCleanup,
}

/// An ended session that must be cleaned up.
#[derive(Debug)]
pub(super) struct EndedSession {
    pub(super) id: Arc<str>,
    /// Number of its tools, plus one for itself.
    pub(super) resources: usize,
    /// `false` for an agent's session: its variables belong to the conversation.
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

    /// Opens a session or refreshes an existing one. The quota applies to new ones only.
    pub(super) fn open(
        &mut self,
        request: &OpenSession,
        opener: &SessionOpener,
        at: Timestamp,
        now: Instant,
    ) -> Result<SessionTransition, BoardError> {
        let OpenSession { id, metadata, .. } = request;
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
        match &request.worker {
            Some(worker) => self.open_for_worker(request, worker, at, now).map(|()| SessionTransition::Done),
            None => self.open_for_client(request, opener, at, now),
        }
    }

    fn open_for_client(
        &mut self,
        request: &OpenSession,
        opener: &SessionOpener,
        at: Timestamp,
        now: Instant,
    ) -> Result<SessionTransition, BoardError> {
        let id = &request.id;
        match self.by_id.get_mut(id) {
            Some(session) if session.is_alive(now, self.ttl) => {
                if session.kind != SessionKind::Client {
                    let message = "invalid_id: the server has a session of that id itself";
                    return Err(BoardError::new(ErrorKind::Conflict, message));
                }
                session.refresh(request, now);
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
        // Sessions in cleanup hold memory too.
        if self.client_sessions >= self.max_client_sessions
            || self.ending.len() >= self.max_client_sessions.saturating_add(MAX_INTERNAL_SESSIONS)
        {
            let message =
                format!("session_quota_exceeded: {} sessions are open, no more are taken", self.max_client_sessions);
            return Err(BoardError::new(ErrorKind::Exhausted, message));
        }
        self.quota.check(opener, self.max_client_sessions)?;
        let scope = SessionScope {
            session: session_key(id),
            owner: MemoryOwner::account("bridge", id),
            folder: None,
            folder_grant: None,
        };
        self.quota.add(opener);
        let session = self.insert(id, SessionKind::Client, scope, at, now);
        session.opener = Some(opener.clone());
        session.refresh(request, now);
        Ok(SessionTransition::Done)
    }

    /// Opens a session for a worker. Workers open every session they are called in, on every call, but may create only
    /// their own: an ended session must not return because a worker is late.
    fn open_for_worker(
        &mut self,
        request: &OpenSession,
        worker: &WorkerId,
        at: Timestamp,
        now: Instant,
    ) -> Result<(), BoardError> {
        let id = &request.id;
        if let Some(session) = self.by_id.get_mut(id) {
            let is_own = matches!(&session.kind, SessionKind::Worker(owner) if owner == worker);
            if is_own {
                session.refresh(request, now);
            }
            let is_available = is_own
                || (session.is_accessible_to(BridgeCaller::Worker(&worker.0)) && session.is_alive(now, self.ttl));
            return if is_available { Ok(()) } else { Err(not_found(id)) };
        }
        if self.worker_sessions.contains_key(worker) || self.ending.contains_key(id) {
            return Err(not_found(id));
        }
        self.evict_idle();
        let scope = SessionScope {
            session: session_key(id),
            owner: MemoryOwner::account("bridge", id),
            folder: None,
            folder_grant: None,
        };
        self.insert(id, SessionKind::Worker(worker.clone()), scope, at, now).refresh(request, now);
        self.worker_sessions.insert(worker.clone(), id.clone());
        Ok(())
    }

    /// Returns the session that represents a conversation to workers, creating it if it has expired. Its id is random
    /// and reveals nothing about the conversation. It counts as in use until [`end_call`](Self::end_call).
    pub(super) fn agent_session(
        &mut self,
        scope: SessionScope,
        call_chain: Option<CallChain>,
        new_id: impl FnOnce() -> Arc<str>,
        at: Timestamp,
        now: Instant,
    ) -> (Arc<str>, SessionSerial) {
        let known = self.agent_sessions.get(&scope.session).cloned();
        if let Some(id) = known
            && let Some(session) = self.by_id.get_mut(&id)
        {
            session.used_at = now;
            session.active_calls += 1;
            session.scope = scope;
            session.call_chain = call_chain;
            return (id, session.serial);
        }
        self.evict_idle();
        let id = new_id();
        self.agent_sessions.insert(scope.session.clone(), id.clone());
        let session = self.insert(&id, SessionKind::Agent, scope, at, now);
        session.active_calls = 1;
        session.call_chain = call_chain;
        (id, session.serial)
    }

    /// Records a momentary use of the session.
    pub(super) fn touch(&mut self, id: &str, caller: BridgeCaller<'_>, now: Instant) -> Option<SessionScope> {
        let (_, session) = self.find_accessible(id, caller, now)?;
        session.record_use(caller, now);
        Some(session.scope.clone())
    }

    /// Begins a call in the session. A client's call keeps the session alive until [`end_call`](Self::end_call); a
    /// worker's does not.
    pub(super) fn begin_call(&mut self, id: &str, caller: BridgeCaller<'_>, now: Instant) -> Option<SessionSnapshot> {
        let (id, session) = self.find_accessible(id, caller, now)?;
        session.record_use(caller, now);
        if caller == BridgeCaller::Client {
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

    /// Ends a call.
    pub(super) fn end_call(&mut self, id: &str, serial: SessionSerial, now: Instant) {
        let Some(session) = self.by_id.get_mut(id).filter(|session| session.serial == serial) else { return };
        session.active_calls = session.active_calls.saturating_sub(1);
        session.used_at = now;
        if session.active_calls == 0 {
            session.call_chain = None;
        }
    }

    /// The session's configuration, and the serial of the session it belongs to.
    pub(super) fn config(&self, id: &str) -> Option<(SessionConfig, SessionSerial)> {
        let session = self.by_id.get(id)?;
        let telemetry = session.config.telemetry || session.kind == SessionKind::Agent;
        Some((SessionConfig { telemetry, ..session.config }, session.serial))
    }

    /// Whether the id still belongs to that session.
    pub(super) fn is_current(&self, id: &str, serial: SessionSerial) -> bool {
        self.by_id.get(id).is_some_and(|session| session.serial == serial)
    }

    pub(super) fn describe(
        &mut self,
        id: &str,
        caller: BridgeCaller<'_>,
        now: Instant,
    ) -> Option<(BTreeMap<String, String>, Timestamp)> {
        let (_, session) = self.find_accessible(id, caller, now)?;
        session.record_use(caller, now);
        Some((session.metadata.clone(), session.created_at))
    }

    /// Registers all of the tools or none.
    pub(super) fn register(
        &mut self,
        id: &str,
        tools: Vec<WorkerTool>,
        registered_by: &Arc<str>,
        now: Instant,
    ) -> Result<(), BoardError> {
        let (_, session) = self.find_accessible(id, BridgeCaller::Client, now).ok_or_else(|| not_found(id))?;
        session.used_at = now;
        let mut names = HashSet::new();
        for tool in &tools {
            if session.tools.contains_key(&tool.name) || !names.insert(tool.name.clone()) {
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
            session
                .tools
                .insert(tool.name.clone(), ClientTool { spec: tool.spec(), registered_by: registered_by.clone() });
        }
        Ok(())
    }

    pub(super) fn tool(&self, id: &str, name: &str) -> Option<&ClientTool> {
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

/// Ids come from clients and are echoed in error messages.
pub(crate) fn clipped(name: &str) -> &str {
    cut(name, MAX_ID)
}

#[cfg(test)]
mod tests;
