//! Keeps every slot of a pool taken: starts workers, replaces them before they end where that is possible, and starts
//! them again where it is not.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use patchboard_core::backoff::{Backoff, BackoffSchedule};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events;
use super::pool::WorkerPool;
use super::start::{RunningWorker, WorkerFailure, start as start_worker};
use super::watch::{WorkerEvent, watch};

/// Asked to end, a worker has this long.
const STOP_GRACE: Duration = Duration::from_secs(6);
/// A worker that has had its time may finish what it has within this one; calls have deadlines of their own.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The first restart follows at once: a worker that ended by itself once in a while is replaced without a gap.
const RESTART_BACKOFF: BackoffSchedule =
    BackoffSchedule::doubling(Duration::from_millis(200), Duration::from_secs(30)).with_immediate_first();
/// A slot whose worker was well for this long starts the next one at once again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// Until `stop`.
pub(super) fn start(pool: &Arc<WorkerPool>, stop: &CancellationToken) {
    let keepers = (0..pool.options.count).map(|slot| {
        let (pool, stop) = (pool.clone(), stop.clone());
        SlotSupervisor { pool, slot, stop, backoff: Backoff::new(RESTART_BACKOFF), is_restart: false }.run().boxed()
    });
    let (pool, keepers) = (pool.clone(), join_all(keepers));
    pool.context.tasks.clone().spawn(async move {
        keepers.await;
        pool.close();
        pool.fork_server.shut_down().await;
    });
}

#[derive(Debug)]
struct SlotSupervisor {
    pool: Arc<WorkerPool>,
    slot: u32,
    stop: CancellationToken,
    backoff: Backoff,
    /// Is the next worker of the slot one that takes the place of another?
    is_restart: bool,
}

/// What came of replacing a worker.
enum ReplaceOutcome {
    Replaced(Box<RunningWorker>),
    /// There is no other one; the old one goes on.
    OldContinues(Box<RunningWorker>, WorkerFailure),
    /// There is no other one, and the old one is gone.
    NoWorker(WorkerFailure),
    Stopped,
}

/// Why a worker is replaced while it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplaceCause {
    Retire(&'static str),
    Unresponsive,
}

impl SlotSupervisor {
    async fn run(mut self) {
        let mut current: Option<Box<RunningWorker>> = None;
        let mut spared_until = None;
        loop {
            let mut life = match current.take() {
                Some(life) => life,
                None => {
                    let Some(life) = self.next_worker().await else { return };
                    life
                }
            };
            let event = watch(&self.pool, &mut life, spared_until.take(), &self.stop).await;
            let replaced = match event {
                WorkerEvent::Stopped => {
                    return stop_worker(&self.pool, life, StopMode::Graceful).await;
                }
                WorkerEvent::Ended(how) => {
                    self.handle_crash(life, &how).await;
                    continue;
                }
                WorkerEvent::Unresponsive(reason) => {
                    self.report_crash(&life, &reason);
                    self.replace(life, ReplaceCause::Unresponsive).await
                }
                WorkerEvent::Retire(why) => self.replace(life, ReplaceCause::Retire(why)).await,
            };
            match replaced {
                ReplaceOutcome::Replaced(life) => current = Some(life),
                ReplaceOutcome::OldContinues(life, failure) => {
                    self.report_failure(&failure);
                    spared_until = Some(Instant::now() + self.backoff.next_delay());
                    current = Some(life);
                }
                ReplaceOutcome::NoWorker(failure) => {
                    self.is_restart = true;
                    self.report_failure(&failure);
                    self.pause().await;
                }
                ReplaceOutcome::Stopped => return,
            }
        }
    }

    /// Tries until there is one; `None` when the server ends.
    async fn next_worker(&mut self) -> Option<Box<RunningWorker>> {
        loop {
            let started = tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                started = self.start() => started,
            };
            match started {
                Ok(life) => {
                    if std::mem::take(&mut self.is_restart) {
                        self.pool.emit_event("worker.restarted", Some(&life.worker.id), |signal| signal);
                    }
                    return Some(life);
                }
                Err(failure) => {
                    self.report_failure(&failure);
                    self.pause().await;
                }
            }
        }
    }

    async fn start(&self) -> Result<Box<RunningWorker>, WorkerFailure> {
        let life = start_worker(&self.pool, self.slot).await?;
        self.pool.context.tasks.spawn(events::forward_telemetry(self.pool.clone(), life.worker.clone()));
        tracing::info!(worker.id = %life.worker.id, pid = life.worker.pid, "worker is ready");
        Ok(Box::new(life))
    }

    /// Starts another one before the old one ends.
    async fn replace(&self, old: Box<RunningWorker>, cause: ReplaceCause) -> ReplaceOutcome {
        let worker = old.worker.clone();
        if cause == ReplaceCause::Unresponsive {
            self.pool.start_draining(worker.number);
        }
        let mut old = Some(old);
        let next = {
            let mut starting = std::pin::pin!(self.start());
            loop {
                let ended = async {
                    match &mut old {
                        Some(life) if cause != ReplaceCause::Unresponsive => {
                            watch(&self.pool, life, Some(far_future()), &self.stop).await
                        }
                        Some(_) | None => {
                            self.stop.cancelled().await;
                            WorkerEvent::Stopped
                        }
                    }
                };
                let event = tokio::select! {
                    biased;
                    event = ended => event,
                    started = &mut starting => break started,
                };
                let life = old.take();
                match (event, life) {
                    (WorkerEvent::Stopped, life) => {
                        if let Some(life) = life {
                            stop_worker(&self.pool, life, StopMode::Graceful).await;
                        }
                        return ReplaceOutcome::Stopped;
                    }
                    (WorkerEvent::Ended(how) | WorkerEvent::Unresponsive(how), Some(life)) => {
                        self.report_crash(&life, &how);
                        stop_worker(&self.pool, life, StopMode::Kill).await;
                    }
                    // It is being replaced already.
                    (WorkerEvent::Retire(_), life) => old = life,
                    (WorkerEvent::Ended(_) | WorkerEvent::Unresponsive(_), None) => {}
                }
            }
        };
        match (next, old, cause) {
            (Ok(life), Some(old), ReplaceCause::Retire(why)) => {
                self.pool.record_recycle(&worker.id, why);
                tracing::info!(worker.id = %worker.id, reason = why, successor = %life.worker.id, "worker is replaced");
                let (pool, stop) = (self.pool.clone(), self.stop.clone());
                self.pool.context.tasks.spawn(async move { drain_and_stop(&pool, old, &stop).await });
                ReplaceOutcome::Replaced(life)
            }
            (Ok(life), old, _) => {
                self.pool.emit_event("worker.restarted", Some(&life.worker.id), |signal| signal);
                if let Some(old) = old {
                    stop_worker(&self.pool, old, StopMode::Kill).await;
                }
                ReplaceOutcome::Replaced(life)
            }
            (Err(failure), Some(old), ReplaceCause::Retire(_)) => ReplaceOutcome::OldContinues(old, failure),
            (Err(failure), old, _) => {
                if let Some(old) = old {
                    stop_worker(&self.pool, old, StopMode::Kill).await;
                }
                ReplaceOutcome::NoWorker(failure)
            }
        }
    }

    /// Its worker ended by itself.
    async fn handle_crash(&mut self, life: Box<RunningWorker>, how: &str) {
        self.report_crash(&life, how);
        let was_well_for = life.worker.started_at.elapsed();
        stop_worker(&self.pool, life, StopMode::Kill).await;
        self.pool.reopen_slot(self.slot);
        if was_well_for >= HEALTHY_AFTER {
            self.backoff.reset();
        }
        self.is_restart = true;
        self.pause().await;
    }

    fn report_crash(&self, life: &RunningWorker, how: &str) {
        let (id, tail) = (&life.worker.id, life.process.output_tail());
        let failure = WorkerFailure::with_output(format!("the worker `{id}` had to be replaced: {how}"), &tail);
        self.pool.record_crash(id, &failure);
        tracing::warn!(worker.id = %id, "worker is replaced: {how}");
        tracing::debug!(worker.id = %id, "it said last: {}", tail.text().escape_debug());
    }

    fn report_failure(&self, failure: &WorkerFailure) {
        let pool = &**self.pool.name();
        let sentence = failure.full_message();
        if self.pool.record_start_failure(self.slot, failure) {
            tracing::warn!(pool, "a worker could not be started: {sentence}");
        } else {
            tracing::debug!(pool, "a worker could not be started again: {sentence}");
        }
    }

    async fn pause(&mut self) {
        let pause = self.backoff.next_delay();
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopMode {
    /// It may say good-bye.
    Graceful,
    Kill,
}

/// Lets it finish what it has, then ends it.
async fn drain_and_stop(pool: &WorkerPool, mut life: Box<RunningWorker>, stop: &CancellationToken) {
    let worker = life.worker.clone();
    pool.start_draining(worker.number);
    let finished = async {
        loop {
            let ended = worker.call_ended.notified();
            if pool.in_flight(&worker) == 0 {
                return;
            }
            ended.await;
        }
    };
    let is_there = tokio::select! {
        () = finished => true,
        () = stop.cancelled() => true,
        () = tokio::time::sleep(DRAIN_TIMEOUT) => true,
        _ = life.process.wait() => false,
    };
    stop_worker(pool, life, if is_there { StopMode::Graceful } else { StopMode::Kill }).await;
}

/// Takes a worker out of the pool and ends it, with everything it started.
async fn stop_worker(pool: &WorkerPool, mut life: Box<RunningWorker>, manner: StopMode) {
    pool.remove_worker(life.worker.number);
    if manner == StopMode::Graceful {
        life.process.request_stop().await;
        if tokio::time::timeout(STOP_GRACE, life.process.wait()).await.is_ok() {
            return;
        }
        tracing::debug!(worker.id = %life.worker.id, "does not end when asked");
    }
    life.process.kill().await;
}

fn far_future() -> Instant {
    Instant::now() + Duration::from_secs(365 * 24 * 60 * 60)
}

#[cfg(test)]
mod tests;
