//! Keeps every slot of a pool taken: starts workers, replaces them before they end where that is possible, and starts
//! them again where it is not.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events;
use super::pool::Pool;
use super::start::{Failure, Life, start as start_worker};
use super::watch::{Event, watch};

/// Asked to end, a worker has this long.
const GRACE: Duration = Duration::from_secs(6);
/// A worker that has had its time may finish what it has within this one; calls have deadlines of their own.
const DRAIN: Duration = Duration::from_secs(15 * 60);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A slot whose worker was well for this long starts the next one at once again.
const WELL: Duration = Duration::from_secs(60);

/// Until `stop`.
pub(super) fn start(pool: &Arc<Pool>, stop: &CancellationToken) {
    let keepers = (0..pool.options.count).map(|slot| {
        let (pool, stop) = (pool.clone(), stop.clone());
        Keeper { pool, slot, stop, patience: Patience::default(), is_restart: false }.keep().boxed()
    });
    let (pool, keepers) = (pool.clone(), join_all(keepers));
    pool.common.tasks.clone().spawn(async move {
        keepers.await;
        pool.close();
        pool.warm.end().await;
    });
}

#[derive(Debug)]
struct Keeper {
    pool: Arc<Pool>,
    slot: u32,
    stop: CancellationToken,
    patience: Patience,
    /// Is the next worker of the slot one that takes the place of another?
    is_restart: bool,
}

/// What came of replacing a worker.
enum Replaced {
    By(Box<Life>),
    /// There is no other one; the old one goes on.
    Not(Box<Life>, Failure),
    /// There is no other one, and the old one is gone.
    Lost(Failure),
    Stopped,
}

/// Why a worker is replaced while it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    WornOut(&'static str),
    Unresponsive,
}

impl Keeper {
    async fn keep(mut self) {
        let mut current: Option<Box<Life>> = None;
        let mut spared_until = None;
        loop {
            let mut life = match current.take() {
                Some(life) => life,
                None => {
                    let Some(life) = self.next().await else { return };
                    life
                }
            };
            let event = watch(&self.pool, &mut life, spared_until.take(), &self.stop).await;
            let replaced = match event {
                Event::Stopped => {
                    return end(&self.pool, life, Manner::Ask).await;
                }
                Event::Ended(how) => {
                    self.crashed(life, &how).await;
                    continue;
                }
                Event::Unresponsive(reason) => {
                    self.report_crash(&life, &reason);
                    self.replace(life, Cause::Unresponsive).await
                }
                Event::WornOut(why) => self.replace(life, Cause::WornOut(why)).await,
            };
            match replaced {
                Replaced::By(life) => current = Some(life),
                Replaced::Not(life, failure) => {
                    self.report_failure(&failure);
                    spared_until = Some(Instant::now() + self.patience.next());
                    current = Some(life);
                }
                Replaced::Lost(failure) => {
                    self.is_restart = true;
                    self.report_failure(&failure);
                    self.pause().await;
                }
                Replaced::Stopped => return,
            }
        }
    }

    /// Tries until there is one; `None` when the server ends.
    async fn next(&mut self) -> Option<Box<Life>> {
        loop {
            let started = tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                started = self.start() => started,
            };
            match started {
                Ok(life) => {
                    if std::mem::take(&mut self.is_restart) {
                        self.pool.tell("worker.restarted", Some(&life.worker.id), |signal| signal);
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

    async fn start(&self) -> Result<Box<Life>, Failure> {
        let life = start_worker(&self.pool, self.slot).await?;
        self.pool.common.tasks.spawn(events::relay(self.pool.clone(), life.worker.clone()));
        tracing::info!(worker.id = %life.worker.id, pid = life.worker.pid, "worker is ready");
        Ok(Box::new(life))
    }

    /// Starts another one before the old one ends.
    async fn replace(&self, old: Box<Life>, cause: Cause) -> Replaced {
        let worker = old.worker.clone();
        if cause == Cause::Unresponsive {
            self.pool.draining(worker.no);
        }
        let mut old = Some(old);
        let next = {
            let mut starting = std::pin::pin!(self.start());
            loop {
                let ended = async {
                    match &mut old {
                        Some(life) if cause != Cause::Unresponsive => {
                            watch(&self.pool, life, Some(far_future()), &self.stop).await
                        }
                        Some(_) | None => {
                            self.stop.cancelled().await;
                            Event::Stopped
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
                    (Event::Stopped, life) => {
                        if let Some(life) = life {
                            end(&self.pool, life, Manner::Ask).await;
                        }
                        return Replaced::Stopped;
                    }
                    (Event::Ended(how) | Event::Unresponsive(how), Some(life)) => {
                        self.report_crash(&life, &how);
                        end(&self.pool, life, Manner::Kill).await;
                    }
                    // It is being replaced already.
                    (Event::WornOut(_), life) => old = life,
                    (Event::Ended(_) | Event::Unresponsive(_), None) => {}
                }
            }
        };
        match (next, old, cause) {
            (Ok(life), Some(old), Cause::WornOut(why)) => {
                self.pool.recycled(&worker.id, why);
                tracing::info!(worker.id = %worker.id, reason = why, successor = %life.worker.id, "worker is replaced");
                let (pool, stop) = (self.pool.clone(), self.stop.clone());
                self.pool.common.tasks.spawn(async move { retire(&pool, old, &stop).await });
                Replaced::By(life)
            }
            (Ok(life), old, _) => {
                self.pool.tell("worker.restarted", Some(&life.worker.id), |signal| signal);
                if let Some(old) = old {
                    end(&self.pool, old, Manner::Kill).await;
                }
                Replaced::By(life)
            }
            (Err(failure), Some(old), Cause::WornOut(_)) => Replaced::Not(old, failure),
            (Err(failure), old, _) => {
                if let Some(old) = old {
                    end(&self.pool, old, Manner::Kill).await;
                }
                Replaced::Lost(failure)
            }
        }
    }

    /// Its worker ended by itself.
    async fn crashed(&mut self, life: Box<Life>, how: &str) {
        self.report_crash(&life, how);
        let was_well_for = life.worker.born.elapsed();
        end(&self.pool, life, Manner::Kill).await;
        self.pool.vacant(self.slot);
        if was_well_for >= WELL {
            self.patience = Patience::default();
        }
        self.is_restart = true;
        self.pause().await;
    }

    fn report_crash(&self, life: &Life, how: &str) {
        let (id, tail) = (&life.worker.id, life.process.tail());
        let failure = Failure::with(format!("the worker `{id}` had to be replaced: {how}"), &tail);
        self.pool.crashed(id, &failure);
        tracing::warn!(worker.id = %id, "worker is replaced: {how}");
        tracing::debug!(worker.id = %id, "it said last: {}", tail.text().escape_debug());
    }

    fn report_failure(&self, failure: &Failure) {
        let pool = &**self.pool.name();
        let sentence = failure.sentence();
        if self.pool.failed(self.slot, failure) {
            tracing::warn!(pool, "a worker could not be started: {sentence}");
        } else {
            tracing::debug!(pool, "a worker could not be started again: {sentence}");
        }
    }

    async fn pause(&mut self) {
        let pause = self.patience.next();
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// How long to wait before the next attempt: not at all the first time.
#[derive(Debug, Default)]
struct Patience(Option<Duration>);

impl Patience {
    fn next(&mut self) -> Duration {
        let pause = self.0.unwrap_or_default();
        self.0 = Some((pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE));
        pause
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It may say good-bye.
    Ask,
    Kill,
}

/// Lets it finish what it has, then ends it.
async fn retire(pool: &Pool, mut life: Box<Life>, stop: &CancellationToken) {
    let worker = life.worker.clone();
    pool.draining(worker.no);
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
        () = tokio::time::sleep(DRAIN) => true,
        _ = life.process.ended() => false,
    };
    end(pool, life, if is_there { Manner::Ask } else { Manner::Kill }).await;
}

/// Takes a worker out of the pool and ends it, with everything it started.
async fn end(pool: &Pool, mut life: Box<Life>, manner: Manner) {
    pool.gone(life.worker.no);
    if manner == Manner::Ask {
        life.process.ask_to_end().await;
        if tokio::time::timeout(GRACE, life.process.ended()).await.is_ok() {
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
