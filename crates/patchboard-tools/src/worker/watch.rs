//! Watches a running worker for the event that ends it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use patchboard_core::bridge::MeasuredValue;
use patchboard_proto::Timestamp;
use patchboard_proto::pb::{HeartbeatRequest, PingRequest};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status};

use super::pool::{ConnectedWorker, WorkerPool};
use super::start::{RunningWorker, initialize, status_text};

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_MISSES: u32 = 3;
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
const MEMORY_INTERVAL: Duration = Duration::from_secs(5);
/// A younger worker is not replaced for its memory use: its successor may need as much from the start.
const MIN_AGE_FOR_MEMORY: Duration = Duration::from_secs(30);
/// Lower bound of the configured maximum age.
const MIN_AGE: Duration = Duration::from_secs(1);
/// After a lost connection, the exit of a worker that ended is reported within this time.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// Why a worker has to be replaced or stopped.
#[derive(Debug)]
pub(super) enum WorkerEvent {
    /// The process exited.
    Ended(String),
    /// The process runs but does not respond.
    Unresponsive(String),
    /// A limit of the pool is reached.
    Retire(&'static str),
    /// The server is stopping.
    Stopped,
}

/// Returns the first event. Limits of the pool are not checked before `grace_until`.
pub(super) async fn watch(
    pool: &WorkerPool,
    running: &mut RunningWorker,
    grace_until: Option<Instant>,
    stop: &CancellationToken,
) -> WorkerEvent {
    let worker = running.worker.clone();
    let grace = async {
        if let Some(until) = grace_until {
            tokio::time::sleep_until(until).await;
        }
    };
    let limits = async {
        grace.await;
        retire_reason(pool, &worker).await
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => WorkerEvent::Stopped,
        status = running.process.wait() => WorkerEvent::Ended(format!("it ended with {status}")),
        () = worker.connection.closed() => {
            // Drained at once, so that no further call is assigned to it.
            pool.connection_lost(&worker);
            match tokio::time::timeout(EXIT_WAIT, running.process.wait()).await {
                Ok(status) => WorkerEvent::Ended(format!("it ended with {status}")),
                Err(_) => WorkerEvent::Unresponsive("it closed its connection".to_owned()),
            }
        }
        reason = heartbeats(pool, &worker) => WorkerEvent::Unresponsive(reason),
        reason = limits => WorkerEvent::Retire(reason),
        never = ping(&worker) => match never {},
    }
}

/// Returns after three missed heartbeats.
async fn heartbeats(pool: &WorkerPool, worker: &ConnectedWorker) -> String {
    let mut ticks = tokio::time::interval_at(Instant::now() + HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut misses = 0;
    let mut has_heartbeat = true;
    loop {
        ticks.tick().await;
        let reply = match has_heartbeat {
            true => send_heartbeat(pool, worker).await,
            false => HeartbeatReply::from_response(
                tokio::time::timeout(HEARTBEAT_TIMEOUT, send_ping(worker, "heartbeat")).await,
            ),
        };
        match reply {
            HeartbeatReply::Alive => misses = 0,
            HeartbeatReply::Unsupported => has_heartbeat = false,
            HeartbeatReply::Missed(reason) => {
                misses += 1;
                tracing::debug!(worker.id = %worker.id, misses, "no heartbeat: {reason}");
                pool.emit_event("heartbeat.timeout", Some(&worker.id), |event| {
                    event.with_measure("count", MeasuredValue::Int(i64::from(misses)))
                });
                if misses >= MAX_MISSES {
                    return format!("it did not answer {misses} heartbeats: {reason}");
                }
            }
        }
    }
}

/// Outcome of one heartbeat.
#[derive(Debug)]
enum HeartbeatReply {
    Alive,
    /// The worker has no heartbeats; a ping is used instead.
    Unsupported,
    Missed(String),
}

impl HeartbeatReply {
    /// An error reply counts as missed: the process runs but does not work.
    fn from_response<T>(reply: Result<Result<T, Status>, tokio::time::error::Elapsed>) -> Self {
        match reply {
            Ok(Ok(_)) => Self::Alive,
            Ok(Err(status)) if status.code() == Code::Unimplemented => Self::Unsupported,
            Ok(Err(status)) => Self::Missed(status_text(&status)),
            Err(_) => Self::Missed(format!("no answer within {} s", HEARTBEAT_TIMEOUT.as_secs())),
        }
    }
}

async fn send_heartbeat(pool: &WorkerPool, worker: &ConnectedWorker) -> HeartbeatReply {
    let now = pool.context.clock.now();
    let mut request = Request::new(HeartbeatRequest {
        session_id: worker.session.clone(),
        client_time: Some(Timestamp { seconds: now.as_second(), nanos: now.subsec_nanosecond() }),
    });
    request.set_timeout(HEARTBEAT_TIMEOUT);
    let reply = tokio::time::timeout(HEARTBEAT_TIMEOUT, worker.connection.client().heartbeat(request)).await;
    if let Ok(Ok(reply)) = &reply
        && !reply.get_ref().session_valid
        // The worker lost the server's session, without which it would not notice that the server is gone.
        && let Err(status) = initialize(pool, &worker.connection, &worker.session).await
    {
        tracing::debug!(worker.id = %worker.id, "cannot reopen its session: {}", status_text(&status));
    }
    HeartbeatReply::from_response(reply)
}

/// Pings the worker periodically, for the log.
async fn ping(worker: &ConnectedWorker) -> std::convert::Infallible {
    let message = format!("health_check_{}", worker.pid.unwrap_or_default());
    loop {
        tokio::time::sleep(PING_INTERVAL).await;
        match tokio::time::timeout(PING_TIMEOUT, send_ping(worker, &message)).await {
            Ok(Ok(())) => {}
            Ok(Err(status)) => tracing::warn!(worker.id = %worker.id, "answers a ping with: {}", status_text(&status)),
            Err(_) => tracing::warn!(worker.id = %worker.id, "does not answer a ping"),
        }
    }
}

async fn send_ping(worker: &ConnectedWorker, message: &str) -> Result<(), Status> {
    let mut request = Request::new(PingRequest { message: message.to_owned() });
    request.set_timeout(HEARTBEAT_TIMEOUT);
    worker.connection.client().ping(request).await.map(drop)
}

/// Returns the first limit of the pool that the worker reaches.
async fn retire_reason(pool: &WorkerPool, worker: &ConnectedWorker) -> &'static str {
    let options = &pool.options;
    let too_old = async {
        match options.max_age {
            // Jittered, so that workers started together are not replaced together.
            Some(age) => {
                tokio::time::sleep_until(worker.started_at + jittered(age, worker.number.0).max(MIN_AGE)).await;
            }
            None => std::future::pending().await,
        }
    };
    let too_many_calls = async {
        let Some(limit) = options.max_requests else { return std::future::pending().await };
        while worker.calls.load(Ordering::Relaxed) < limit {
            worker.retire.notified().await;
        }
    };
    tokio::select! {
        () = too_old => "max_age",
        () = too_many_calls => "max_requests",
        () = memory_exceeded(pool, worker) => "max_memory",
        () = worker.restart.notified() => "restart",
    }
}

/// Returns when the process tree exceeds its memory limit; records the usage until then.
async fn memory_exceeded(pool: &WorkerPool, worker: &ConnectedWorker) {
    let Some(pid) = worker.pid else { return std::future::pending().await };
    loop {
        let memory = pool.context.platform.memory(pid).await;
        pool.record_memory(worker.number, memory);
        if let (Some(memory), Some(limit)) = (memory, pool.options.max_memory)
            && memory > limit
        {
            return tokio::time::sleep_until(worker.started_at + MIN_AGE_FOR_MEMORY).await;
        }
        tokio::time::sleep(MEMORY_INTERVAL).await;
    }
}

/// Shortens `age` by up to a tenth, depending on the number.
fn jittered(age: Duration, number: u64) -> Duration {
    let permille = u32::try_from(number.wrapping_mul(37) % 100).unwrap_or_default();
    age.saturating_sub(age / 1000 * permille)
}

#[cfg(test)]
mod tests;
