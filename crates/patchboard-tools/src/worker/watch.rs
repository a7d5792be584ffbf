//! What may happen to a worker that takes calls.

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
/// A worker is not replaced before this age because it is heavy: the next one may be as heavy from its first moment.
const MIN_AGE_FOR_MEMORY: Duration = Duration::from_secs(30);
/// Nor earlier than this because it is old, whatever the configuration says.
const MIN_AGE: Duration = Duration::from_secs(1);
/// After its connection is lost, a worker that ended is heard of within this time.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// Why a worker does not go on as it did.
#[derive(Debug)]
pub(super) enum WorkerEvent {
    /// It ended by itself.
    Ended(String),
    /// It is there and does not answer.
    Unresponsive(String),
    /// It has had its time.
    Retire(&'static str),
    /// The server ends.
    Stopped,
}

/// Returns with the first of these. It is not worn out before `spared_until`.
pub(super) async fn watch(
    pool: &WorkerPool,
    life: &mut RunningWorker,
    spared_until: Option<Instant>,
    stop: &CancellationToken,
) -> WorkerEvent {
    let worker = life.worker.clone();
    let spared = async {
        if let Some(until) = spared_until {
            tokio::time::sleep_until(until).await;
        }
    };
    let wearing = async {
        spared.await;
        retire_reason(pool, &worker).await
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => WorkerEvent::Stopped,
        status = life.process.wait() => WorkerEvent::Ended(format!("it ended with {status}")),
        () = worker.connection.closed() => {
            // What it was given in this very moment goes to others.
            pool.connection_lost(&worker);
            match tokio::time::timeout(EXIT_WAIT, life.process.wait()).await {
                Ok(status) => WorkerEvent::Ended(format!("it ended with {status}")),
                Err(_) => WorkerEvent::Unresponsive("it closed its connection".to_owned()),
            }
        }
        reason = heartbeats(pool, &worker) => WorkerEvent::Unresponsive(reason),
        why = wearing => WorkerEvent::Retire(why),
        never = ping(&worker) => match never {},
    }
}

/// Returns when it was not heard of three times.
async fn heartbeats(pool: &WorkerPool, worker: &ConnectedWorker) -> String {
    let mut beats = tokio::time::interval_at(Instant::now() + HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut misses = 0;
    let mut has_heartbeat = true;
    loop {
        beats.tick().await;
        let answer = match has_heartbeat {
            true => send_heartbeat(pool, worker).await,
            false => HeartbeatReply::from_response(
                tokio::time::timeout(HEARTBEAT_TIMEOUT, send_ping(worker, "heartbeat")).await,
            ),
        };
        match answer {
            HeartbeatReply::Alive => misses = 0,
            HeartbeatReply::Unsupported => has_heartbeat = false,
            HeartbeatReply::Missed(reason) => {
                misses += 1;
                tracing::debug!(worker.id = %worker.id, misses, "no heartbeat: {reason}");
                pool.emit_event("heartbeat.timeout", Some(&worker.id), |signal| {
                    signal.with_measure("count", MeasuredValue::Int(i64::from(misses)))
                });
                if misses >= MAX_MISSES {
                    return format!("it did not answer {misses} heartbeats: {reason}");
                }
            }
        }
    }
}

/// What came of asking whether it is there.
#[derive(Debug)]
enum HeartbeatReply {
    Alive,
    /// It has no heartbeats; a ping does as well.
    Unsupported,
    Missed(String),
}

impl HeartbeatReply {
    /// A worker that answers with an error is there and does not do what it is there for.
    fn from_response<T>(answer: Result<Result<T, Status>, tokio::time::error::Elapsed>) -> Self {
        match answer {
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
    let answer = tokio::time::timeout(HEARTBEAT_TIMEOUT, worker.connection.client().heartbeat(request)).await;
    if let Ok(Ok(answer)) = &answer
        && !answer.get_ref().session_valid
        // Its session has gone. Without one it would not notice that the server has.
        && let Err(status) = initialize(pool, &worker.connection, &worker.session).await
    {
        tracing::debug!(worker.id = %worker.id, "does not begin its session again: {}", status_text(&status));
    }
    HeartbeatReply::from_response(answer)
}

/// Now and then, for the log.
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

/// Returns with the first limit of the pool that it has reached.
async fn retire_reason(pool: &WorkerPool, worker: &ConnectedWorker) -> &'static str {
    let options = &pool.options;
    let old = async {
        match options.max_age {
            // Those that began together do not all end together.
            Some(age) => {
                tokio::time::sleep_until(worker.started_at + jittered(age, worker.number.0).max(MIN_AGE)).await;
            }
            None => std::future::pending().await,
        }
    };
    let busy = async {
        let Some(most) = options.max_requests else { return std::future::pending().await };
        while worker.calls.load(Ordering::Relaxed) < most {
            worker.retire.notified().await;
        }
    };
    tokio::select! {
        () = old => "max_age",
        () = busy => "max_requests",
        () = memory_exceeded(pool, worker) => "max_memory",
    }
}

/// Returns when it and its children hold more memory than they may; until then tells how much it is.
async fn memory_exceeded(pool: &WorkerPool, worker: &ConnectedWorker) {
    let Some(pid) = worker.pid else { return std::future::pending().await };
    loop {
        let memory = pool.context.platform.memory(pid).await;
        pool.record_memory(worker.number, memory);
        if let (Some(memory), Some(most)) = (memory, pool.options.max_memory)
            && memory > most
        {
            return tokio::time::sleep_until(worker.started_at + MIN_AGE_FOR_MEMORY).await;
        }
        tokio::time::sleep(MEMORY_INTERVAL).await;
    }
}

/// Up to a tenth less, by number.
fn jittered(age: Duration, number: u64) -> Duration {
    let permille = u32::try_from(number.wrapping_mul(37) % 100).unwrap_or_default();
    age.saturating_sub(age / 1000 * permille)
}

#[cfg(test)]
mod tests;
