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
use crate::run::Nesting;
use crate::tool::ToolSpec;

mod shares;
mod table;

pub(super) use shares::Opener;
use shares::Shares;

/// Longest id of a session in bytes.
const MAX_ID: usize = 512;
/// Tools one session may have.
const MAX_TOOLS: usize = 1000;
/// Sessions of the server's own making (those of agents and workers); those used longest ago go first.
const MAX_INNER: usize = 10_000;
/// What a session says about itself.
const MAX_METADATA: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Sessions {
    ttl: Duration,
    max: usize,
    by_id: HashMap<Arc<str>, Session>,
    /// How many of them are of clients, which are counted.
    clients: usize,
    shares: Shares,
    /// Which session stands for a conversation among workers.
    stand_ins: HashMap<SessionKey, Arc<str>>,
    /// Which session is a worker's own.
    own: HashMap<WorkerId, Arc<str>>,
    /// Names of sessions that are over. `None`: somebody is cleaning up.
    ending: HashMap<Arc<str>, Option<Ended>>,
    opened: u64,
}

#[derive(Debug)]
struct Session {
    kind: Kind,
    /// Of a client's session.
    opener: Option<Opener>,
    place: Place,
    /// Beneath which run those calls stand that its workers make.
    nesting: Option<Nesting>,
    metadata: BTreeMap<String, String>,
    config: SessionConfig,
    created_at: Timestamp,
    used_at: Instant,
    /// Calls under way of those whose use counts; for as long as there are any, it does not grow old.
    busy: usize,
    number: SessionNo,
    gate: Arc<Gate>,
    tools: BTreeMap<Arc<str>, Registered>,
}

/// One session among all there were, those of the same name included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionNo(u64);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Client,
    /// A worker's own.
    Worker(WorkerId),
    /// Stands for a conversation whose agent calls workers.
    Agent,
}

/// Who asks. Sessions of the server's own making are for workers only, whoever comes to know their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who<'a> {
    Client,
    /// By its id.
    Worker(&'a str),
}

/// For whom and where calls of a session work.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) session: SessionKey,
    pub(crate) owner: MemoryOwner,
    pub(crate) folder: Option<Arc<Path>>,
    pub(crate) folder_grant: Option<FolderGrant>,
}

/// What ends with the session: calls of the server's own tools, which might leave something behind in it.
#[derive(Debug, Default)]
pub(super) struct Gate {
    pub(super) stop: CancellationToken,
    pub(super) calls: TaskTracker,
}

/// A tool of a program that nobody can call back.
#[derive(Debug, Clone)]
pub(super) struct Registered {
    pub(super) spec: ToolSpec,
    /// What the program calls itself.
    pub(super) by: Arc<str>,
}

/// A session as one call sees it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) id: Arc<str>,
    pub(super) number: SessionNo,
    pub(super) place: Place,
    pub(super) nesting: Option<Nesting>,
    pub(super) gate: Arc<Gate>,
}

/// What came of the wish to open a session.
#[derive(Debug)]
pub(super) enum Opening {
    Done,
    /// Not before this one is cleaned up.
    After(Ended),
    /// Not before somebody else is done with cleaning up.
    Wait,
}

/// A session that is over and has to be cleaned up.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) id: Arc<str>,
    /// Of its own, with itself.
    pub(super) resources: usize,
    /// A conversation's stay with the conversation.
    pub(super) has_variables: bool,
    pub(super) gate: Option<Arc<Gate>>,
}

impl Sessions {
    pub(super) fn new(ttl: Duration, max: usize) -> Self {
        Self {
            ttl,
            max,
            by_id: HashMap::new(),
            clients: 0,
            shares: Shares::default(),
            stand_ins: HashMap::new(),
            own: HashMap::new(),
            ending: HashMap::new(),
            opened: 0,
        }
    }

    /// Opens or goes on. The quota is for new ones only.
    pub(super) fn open(
        &mut self,
        wanted: &OpenSession,
        opener: &Opener,
        at: Timestamp,
        now: Instant,
    ) -> Result<Opening, BoardError> {
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
            Some(worker) => self.open_for_worker(wanted, worker, at, now).map(|()| Opening::Done),
            None => self.open_for_client(wanted, opener, at, now),
        }
    }

    fn open_for_client(
        &mut self,
        wanted: &OpenSession,
        opener: &Opener,
        at: Timestamp,
        now: Instant,
    ) -> Result<Opening, BoardError> {
        let id = &wanted.id;
        match self.by_id.get_mut(id) {
            Some(session) if session.is_alive(now, self.ttl) => {
                if session.kind != Kind::Client {
                    let message = "invalid_id: the server has a session of that id itself";
                    return Err(BoardError::new(ErrorKind::Conflict, message));
                }
                session.go_on(wanted, now);
                return Ok(Opening::Done);
            }
            Some(_) => self.take_out(id),
            None => {}
        }
        match self.ending.get_mut(id).map(Option::take) {
            None => {}
            Some(Some(ended)) => return Ok(Opening::After(ended)),
            Some(None) => return Ok(Opening::Wait),
        }
        if self.clients >= self.max || self.shares.check(opener, self.max).is_err() {
            self.expire(now);
        }
        // Those that are being cleaned up hold memory too.
        if self.clients >= self.max || self.ending.len() >= self.max.saturating_add(MAX_INNER) {
            let message = format!("session_quota_exceeded: {} sessions are open, no more are taken", self.max);
            return Err(BoardError::new(ErrorKind::Exhausted, message));
        }
        self.shares.check(opener, self.max)?;
        let place = Place {
            session: session_key(id),
            owner: MemoryOwner::account("bridge", id),
            folder: None,
            folder_grant: None,
        };
        self.shares.add(opener);
        let session = self.insert(id, Kind::Client, place, at, now);
        session.opener = Some(opener.clone());
        session.go_on(wanted, now);
        Ok(Opening::Done)
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
            let is_own = matches!(&session.kind, Kind::Worker(owner) if owner == worker);
            if is_own {
                session.go_on(wanted, now);
            }
            let is_there = is_own || (session.is_for(Who::Worker(&worker.0)) && session.is_alive(now, self.ttl));
            return if is_there { Ok(()) } else { Err(not_found(id)) };
        }
        if self.own.contains_key(worker) || self.ending.contains_key(id) {
            return Err(not_found(id));
        }
        self.make_room();
        let place = Place {
            session: session_key(id),
            owner: MemoryOwner::account("bridge", id),
            folder: None,
            folder_grant: None,
        };
        self.insert(id, Kind::Worker(worker.clone()), place, at, now).go_on(wanted, now);
        self.own.insert(worker.clone(), id.clone());
        Ok(())
    }

    /// The session that stands for a conversation among workers: the same one for as long as it is used. Its name says
    /// nothing about the conversation and cannot be guessed. It is in use until `leave`.
    pub(super) fn stand_in(
        &mut self,
        place: Place,
        nesting: Option<Nesting>,
        fresh: impl FnOnce() -> Arc<str>,
        at: Timestamp,
        now: Instant,
    ) -> (Arc<str>, SessionNo) {
        let known = self.stand_ins.get(&place.session).cloned();
        if let Some(id) = known
            && let Some(session) = self.by_id.get_mut(&id)
        {
            session.used_at = now;
            session.busy += 1;
            session.place = place;
            session.nesting = nesting;
            return (id, session.number);
        }
        self.make_room();
        let id = fresh();
        self.stand_ins.insert(place.session.clone(), id.clone());
        let session = self.insert(&id, Kind::Agent, place, at, now);
        session.busy = 1;
        session.nesting = nesting;
        (id, session.number)
    }

    /// A use of the session that takes a moment.
    pub(super) fn look(&mut self, id: &str, who: Who<'_>, now: Instant) -> Option<Place> {
        let (_, session) = self.reach(id, who, now)?;
        session.use_by(who, now);
        Some(session.place.clone())
    }

    /// The beginning of a call in the session. A client's use of it lasts until `leave`; a worker's does not count.
    pub(super) fn enter(&mut self, id: &str, who: Who<'_>, now: Instant) -> Option<Seen> {
        let (id, session) = self.reach(id, who, now)?;
        session.use_by(who, now);
        if who == Who::Client {
            session.busy += 1;
        }
        Some(Seen {
            id,
            number: session.number,
            place: session.place.clone(),
            nesting: session.nesting.clone(),
            gate: session.gate.clone(),
        })
    }

    /// The end of a call.
    pub(super) fn leave(&mut self, id: &str, number: SessionNo, now: Instant) {
        let Some(session) = self.by_id.get_mut(id).filter(|session| session.number == number) else { return };
        session.busy = session.busy.saturating_sub(1);
        session.used_at = now;
        if session.busy == 0 {
            session.nesting = None;
        }
    }

    /// How calls in it are to be treated; says whose config it is.
    pub(super) fn config(&self, id: &str) -> Option<(SessionConfig, SessionNo)> {
        let session = self.by_id.get(id)?;
        let telemetry = session.config.telemetry || session.kind == Kind::Agent;
        Some((SessionConfig { telemetry, ..session.config }, session.number))
    }

    /// Is it still the same one?
    pub(super) fn is_there(&self, id: &str, number: SessionNo) -> bool {
        self.by_id.get(id).is_some_and(|session| session.number == number)
    }

    pub(super) fn about(
        &mut self,
        id: &str,
        who: Who<'_>,
        now: Instant,
    ) -> Option<(BTreeMap<String, String>, Timestamp)> {
        let (_, session) = self.reach(id, who, now)?;
        session.use_by(who, now);
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
        let (_, session) = self.reach(id, Who::Client, now).ok_or_else(|| not_found(id))?;
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
            session.tools.insert(tool.name.clone(), Registered { spec: tool.spec(), by: by.clone() });
        }
        Ok(())
    }

    pub(super) fn tool(&self, id: &str, name: &str) -> Option<&Registered> {
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
    name.get(..name.floor_char_boundary(MAX_ID)).unwrap_or(name)
}

#[cfg(test)]
mod tests;
