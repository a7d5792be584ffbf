//! Keeps a worker in every slot of a pool: starts it, starts its replacement before it is retired, and restarts it after
//! a crash.

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

/// Time between the request to stop and the kill.
const STOP_GRACE: Duration = Duration::from_secs(6);
/// A retired worker has this long to finish its calls, which have deadlines of their own.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The first restart is immediate, so that a rare crash costs no availability.
const RESTART_BACKOFF: BackoffSchedule =
    BackoffSchedule::doubling(Duration::from_millis(200), Duration::from_secs(30)).with_immediate_first();
/// A worker that ran for this long resets the backoff of its slot.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// Runs one supervisor per slot until `stop`.
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
    /// Whether the slot's next worker replaces another, which is reported as a restart.
    is_restart: bool,
}

/// The result of replacing a worker.
enum ReplaceOutcome {
    Replaced(Box<RunningWorker>),
    /// The replacement did not start; the old worker continues.
    OldContinues(Box<RunningWorker>, WorkerFailure),
    /// The replacement did not start and the old worker has ended.
    NoWorker(WorkerFailure),
    Stopped,
}

/// Why a running worker is replaced.
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

    /// Retries until a worker has started; `None` on shutdown.
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

    /// Starts the replacement before it stops the old worker.
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
                    // The replacement is starting already.
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

    /// Handles the exit of the slot's worker.
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
    /// Asks it to stop, and kills it after [`STOP_GRACE`].
    Graceful,
    Kill,
}

/// Waits until its calls have ended, then stops it.
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

/// Removes a worker from the pool and ends it with its whole process tree.
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
