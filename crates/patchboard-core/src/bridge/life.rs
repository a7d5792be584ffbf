//! Sessions from their beginning to their end, with all that is kept for them elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::sessions::{Ended, Gate, Opener, Opening, Place, SessionNo, Who};
use super::{Bridge, Measure, Signal, WorkerId, WorkerTool, session_key, session_not_found};
use crate::access::Caller;
use crate::command::OpenSession;
use crate::error::BoardError;
use crate::run::Nesting;
use crate::tool::ToolSpec;

/// Sessions that nobody used for too long are looked for this often.
const SWEEP: Duration = Duration::from_secs(5);
/// The server's own tools are stopped when their session ends; whoever does not hear of it in this time is not waited for.
const LAST_CALLS: Duration = Duration::from_secs(5);

/// A call in a session, for as long as it takes.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) place: Place,
    /// Beneath which run it stands.
    pub(crate) nesting: Option<Nesting>,
    _stay: Stay,
    gate: Arc<Gate>,
    /// Who ends the session waits for this.
    at_work: Option<TaskTrackerToken>,
}

/// Keeps a session from growing old; dropping it counts as a use.
#[derive(Debug)]
pub(crate) struct Stay {
    bridge: Bridge,
    id: Arc<str>,
    /// `None` for those whose use does not count.
    number: Option<SessionNo>,
}

impl Stay {
    pub(super) fn new(bridge: &Bridge, id: Arc<str>, number: SessionNo) -> Self {
        Self { bridge: bridge.clone(), id, number: Some(number) }
    }

    pub(super) fn session(&self) -> &Arc<str> {
        &self.id
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.bridge.sessions().leave(&self.id, number, Instant::now());
        }
    }
}

impl Visit {
    /// A worker's tool has a life of its own: it is told that the session is over and may go on.
    pub(crate) fn leave_to_worker(&mut self) {
        self.at_work = None;
    }

    /// Cancelled when the session ends.
    pub(crate) fn over(&self) -> &CancellationToken {
        &self.gate.stop
    }
}

impl Bridge {
    pub(crate) async fn open(&self, wanted: &OpenSession, caller: &Caller) -> Result<(), BoardError> {
        let opener = Opener::of(caller);
        loop {
            let cleaned_up = self.0.cleaned_up.notified();
            let opening = self.sessions().open(wanted, &opener, self.0.clock.now(), Instant::now())?;
            match opening {
                Opening::Done => return Ok(()),
                Opening::After(ended) => drop(self.clean_up(ended).await),
                Opening::Wait => cleaned_up.await,
            }
        }
    }

    /// Says how many things went with it: the session itself, its tools, its results, its variables.
    pub(crate) async fn close(&self, id: &str, who: Who<'_>) -> u32 {
        loop {
            let cleaned_up = self.0.cleaned_up.notified();
            let closing = self.sessions().close(id, who);
            match closing {
                Opening::Done => return 0,
                Opening::After(ended) => return u32::try_from(self.clean_up(ended).await).unwrap_or(u32::MAX),
                Opening::Wait => cleaned_up.await,
            }
        }
    }

    /// Says how many things went with it. Where this is dropped half-way, somebody else goes on.
    async fn clean_up(&self, ended: Ended) -> usize {
        let mut cleaning = Cleaning { bridge: self, ended: Some(ended) };
        let Some(ended) = &cleaning.ended else { return 0 };
        if let Some(workers) = &self.0.workers {
            workers.session_over(&ended.id);
        }
        if let Some(gate) = &ended.gate
            && tokio::time::timeout(LAST_CALLS, gate.calls.wait()).await.is_err()
        {
            tracing::warn!("tools go on in a session that is over");
        }
        let mut resources = ended.resources + self.cache().forget(&ended.id);
        if ended.has_variables {
            resources += self.0.variables.forget(&session_key(&ended.id)).await;
        }
        cleaning.is_done();
        resources
    }

    pub(crate) fn about(&self, id: &str, who: Who<'_>) -> Option<(BTreeMap<String, String>, Timestamp)> {
        self.sessions().about(id, who, Instant::now())
    }

    pub(crate) fn look(&self, id: &str, who: Who<'_>) -> Option<Place> {
        self.sessions().look(id, who, Instant::now())
    }

    pub(crate) fn enter(&self, id: &str, who: Who<'_>) -> Option<Visit> {
        let mut sessions = self.sessions();
        let seen = sessions.enter(id, who, Instant::now())?;
        // Under the lock: whoever ends the session now waits for this call.
        let at_work = Some(seen.gate.calls.token());
        drop(sessions);
        let number = (who == Who::Client).then_some(seen.number);
        let stay = Stay { bridge: self.clone(), id: seen.id, number };
        Some(Visit { place: seen.place, nesting: seen.nesting, _stay: stay, gate: seen.gate, at_work })
    }

    /// Tools of a pool's worker are that worker's; those of anybody else are the session's.
    pub(crate) fn register(
        &self,
        session: &str,
        tools: Vec<WorkerTool>,
        by: &Arc<str>,
        worker: Option<&WorkerId>,
    ) -> Result<(), BoardError> {
        match (worker, &self.0.workers) {
            (Some(worker), Some(workers)) => {
                self.look(session, Who::Worker(&worker.0)).ok_or_else(|| session_not_found(session))?;
                workers.registered(worker, tools);
                Ok(())
            }
            (Some(_), None) | (None, _) => self.sessions().register(session, tools, by, Instant::now()),
        }
    }

    /// A tool registered in the session, and by whom.
    pub(crate) fn registered(&self, session: &str, name: &str) -> Option<(ToolSpec, Arc<str>)> {
        self.sessions().tool(session, name).map(|tool| (tool.spec.clone(), tool.by.clone()))
    }

    pub(crate) fn registered_tools(&self, session: &str) -> Vec<ToolSpec> {
        self.sessions().tools(session)
    }

    /// Ends sessions that nobody used for too long, until `stop`.
    pub(crate) async fn keep_house(&self, stop: CancellationToken) {
        let mut sweep = tokio::time::interval(SWEEP.min(self.0.options.session_ttl).max(Duration::from_millis(100)));
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = sweep.tick() => {}
                () = stop.cancelled() => return,
            }
            let pruned = self.sessions().expire(Instant::now());
            if pruned > 0 {
                let count = i64::try_from(pruned).unwrap_or(i64::MAX);
                self.0.signals.tell(|| {
                    Signal::new("bridge.session.pruned", self.0.clock.now()).measure("count", Measure::Int(count))
                });
            }
            let over = self.sessions().over();
            for id in over {
                let ended = self.sessions().take_over(&id);
                if let Some(ended) = ended {
                    stop.run_until_cancelled(self.clean_up(ended)).await;
                }
            }
        }
    }
}

/// Somebody cleans up after a session. Left half-way, it is to be done again.
struct Cleaning<'a> {
    bridge: &'a Bridge,
    ended: Option<Ended>,
}

impl Cleaning<'_> {
    fn is_done(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.bridge.sessions().cleaned_up(&ended.id);
        }
    }
}

impl Drop for Cleaning<'_> {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.bridge.sessions().left_over(ended);
        }
        self.bridge.0.cleaned_up.notify_waiters();
    }
}
