//! Who may answer what a run waits for.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::InputOrigin;
use crate::access;
use crate::caller::{Caller, Principal};
use crate::id::{ConnectionId, RunId};
use crate::store::InputRow;

/// Whose an input is.
#[derive(Debug, Clone)]
pub(super) struct Answerer {
    run: RunId,
    principal: Principal,
    /// The connection that started the work; none after a restart.
    started_by: Option<ConnectionId>,
    /// Runs that wait for the asking run; who may answer for them may answer for it.
    pub(super) ancestor_runs: Arc<[RunId]>,
}

impl Answerer {
    pub(super) fn of(origin: &InputOrigin<'_>) -> Self {
        let connection = origin.caller.connection;
        Self {
            run: origin.run,
            principal: origin.caller.principal.clone(),
            started_by: (connection != ConnectionId::NONE).then_some(connection),
            ancestor_runs: origin.call_chain.ancestors.clone(),
        }
    }

    pub(super) fn of_row(row: &InputRow) -> Self {
        Self {
            run: row.run,
            principal: Principal::from(&*row.principal),
            started_by: None,
            ancestor_runs: Arc::default(),
        }
    }
}

/// Connections that follow runs: the ones that started them, and those that joined by the run's id.
#[derive(Debug, Clone, Default)]
pub struct RunAudience(Arc<Mutex<HashMap<RunId, AudienceOfRun>>>);

#[derive(Debug, Default)]
struct AudienceOfRun {
    /// How often each connection follows the run at present.
    following: HashMap<ConnectionId, usize>,
    /// Those that named the run by its own id, which cannot be guessed.
    joined: HashSet<ConnectionId>,
}

/// A connection follows a run for as long as this lives.
#[derive(Debug)]
pub struct FollowGuard {
    audience: RunAudience,
    run: RunId,
    connection: ConnectionId,
}

impl RunAudience {
    pub fn follow(&self, run: RunId, connection: ConnectionId) -> FollowGuard {
        *self.runs().entry(run).or_default().following.entry(connection).or_default() += 1;
        FollowGuard { audience: self.clone(), run, connection }
    }

    /// The connection has named the run by its id.
    pub fn note_joined(&self, run: RunId, connection: ConnectionId) {
        self.runs().entry(run).or_default().joined.insert(connection);
    }

    /// The run has ended.
    pub fn forget(&self, run: RunId) {
        let mut runs = self.runs();
        if runs.get(&run).is_some_and(|audience| audience.following.is_empty()) {
            runs.remove(&run);
        }
    }

    fn is_following(&self, run: RunId, connection: ConnectionId) -> bool {
        self.runs().get(&run).is_some_and(|audience| audience.following.contains_key(&connection))
    }

    /// Has the connection joined by the run's id, and does it follow the run now?
    fn has_joined(&self, run: RunId, connection: ConnectionId) -> bool {
        let runs = self.runs();
        let audience = runs.get(&run);
        audience.is_some_and(|audience| {
            audience.joined.contains(&connection) && audience.following.contains_key(&connection)
        })
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, AudienceOfRun>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FollowGuard {
    fn drop(&mut self) {
        let mut runs = self.audience.runs();
        let Some(audience) = runs.get_mut(&self.run) else { return };
        if let Some(count) = audience.following.get_mut(&self.connection) {
            *count -= 1;
            if *count == 0 {
                audience.following.remove(&self.connection);
                audience.joined.remove(&self.connection);
            }
        }
        if audience.following.is_empty() {
            runs.remove(&self.run);
        }
    }
}

/// The connection that started the run; any connection of the same principal if that is a key, a token or a sign-in;
/// overseers and the operator. A local user, a channel, a program or an app identifies nobody: once the connection that
/// started the run is gone, one that joined the run by its id answers for it. Workers and plugins never do.
pub(super) fn may_answer(caller: &Caller, answerer: &Answerer, audience: &RunAudience) -> bool {
    if matches!(caller.principal, Principal::Worker(_) | Principal::Plugin(_)) {
        return false;
    }
    if access::may_oversee(caller) || answerer.started_by == Some(caller.connection) {
        return true;
    }
    let identifies = match &answerer.principal {
        Principal::Key(_) | Principal::Token | Principal::SignIn(_) | Principal::Certificate => true,
        Principal::Local
        | Principal::Operator
        | Principal::App(_)
        | Principal::Worker(_)
        | Principal::Program(_)
        | Principal::Plugin(_)
        | Principal::Channel(_)
        | Principal::Schedule(_)
        | Principal::Node(_)
        | Principal::Account(_) => false,
    };
    if identifies {
        return caller.principal == answerer.principal;
    }
    let runs = || std::iter::once(&answerer.run).chain(answerer.ancestor_runs.iter());
    let starter_is_here =
        answerer.started_by.is_some_and(|starter| runs().any(|run| audience.is_following(*run, starter)));
    caller.principal == answerer.principal
        && !starter_is_here
        && runs().any(|run| audience.has_joined(*run, caller.connection))
}

#[cfg(test)]
mod tests;
