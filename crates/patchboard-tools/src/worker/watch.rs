//! What may happen to a worker that takes calls.

use std::sync::atomic::Ordering;
use std::time::Duration;

use patchboard_core::bridge::Measure;
use patchboard_proto::Timestamp;
use patchboard_proto::pb::{HeartbeatRequest, PingRequest};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status};

use super::pool::{Pool, Worker};
use super::start::{Life, in_words, initialize};

const BEAT_EVERY: Duration = Duration::from_secs(2);
const BEAT_ANSWER: Duration = Duration::from_secs(10);
const MAX_MISSES: u32 = 3;
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(5);
const WEIGH_EVERY: Duration = Duration::from_secs(5);
/// A worker is not replaced before this age because it is heavy: the next one may be as heavy from its first moment.
const YOUNG: Duration = Duration::from_secs(30);
/// Nor earlier than this because it is old, whatever the configuration says.
const LEAST_AGE: Duration = Duration::from_secs(1);
/// After its connection is lost, a worker that ended is heard of within this time.
const LAST_BREATH: Duration = Duration::from_secs(1);

/// Why a worker does not go on as it did.
#[derive(Debug)]
pub(super) enum Event {
    /// It ended by itself.
    Ended(String),
    /// It is there and does not answer.
    Unresponsive(String),
    /// It has had its time.
    WornOut(&'static str),
    /// The server ends.
    Stopped,
}

/// Returns with the first of these. It is not worn out before `spared_until`.
pub(super) async fn watch(
    pool: &Pool,
    life: &mut Life,
    spared_until: Option<Instant>,
    stop: &CancellationToken,
) -> Event {
    let worker = life.worker.clone();
    let spared = async {
        if let Some(until) = spared_until {
            tokio::time::sleep_until(until).await;
        }
    };
    let wearing = async {
        spared.await;
        wear(pool, &worker).await
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => Event::Stopped,
        status = life.process.ended() => Event::Ended(format!("it ended with {status}")),
        () = worker.link.closed() => {
            // What it was given in this very moment goes to others.
            pool.lost(&worker);
            match tokio::time::timeout(LAST_BREATH, life.process.ended()).await {
                Ok(status) => Event::Ended(format!("it ended with {status}")),
                Err(_) => Event::Unresponsive("it closed its connection".to_owned()),
            }
        }
        reason = heartbeats(pool, &worker) => Event::Unresponsive(reason),
        why = wearing => Event::WornOut(why),
        never = ping(&worker) => match never {},
    }
}

/// Returns when it was not heard of three times.
async fn heartbeats(pool: &Pool, worker: &Worker) -> String {
    let mut beats = tokio::time::interval_at(Instant::now() + BEAT_EVERY, BEAT_EVERY);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut misses = 0;
    let mut has_heartbeat = true;
    loop {
        beats.tick().await;
        let answer = match has_heartbeat {
            true => beat(pool, worker).await,
            false => Beat::of(tokio::time::timeout(BEAT_ANSWER, ask_ping(worker, "heartbeat")).await),
        };
        match answer {
            Beat::Heard => misses = 0,
            Beat::NotOffered => has_heartbeat = false,
            Beat::Missed(reason) => {
                misses += 1;
                tracing::debug!(worker.id = %worker.id, misses, "no heartbeat: {reason}");
                pool.tell("heartbeat.timeout", Some(&worker.id), |signal| {
                    signal.measure("count", Measure::Int(i64::from(misses)))
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
enum Beat {
    Heard,
    /// It has no heartbeats; a ping does as well.
    NotOffered,
    Missed(String),
}

impl Beat {
    /// A worker that answers with an error is there and does not do what it is there for.
    fn of<T>(answer: Result<Result<T, Status>, tokio::time::error::Elapsed>) -> Self {
        match answer {
            Ok(Ok(_)) => Self::Heard,
            Ok(Err(status)) if status.code() == Code::Unimplemented => Self::NotOffered,
            Ok(Err(status)) => Self::Missed(in_words(&status)),
            Err(_) => Self::Missed(format!("no answer within {} s", BEAT_ANSWER.as_secs())),
        }
    }
}

async fn beat(pool: &Pool, worker: &Worker) -> Beat {
    let now = pool.common.clock.now();
    let mut request = Request::new(HeartbeatRequest {
        session_id: worker.session.clone(),
        client_time: Some(Timestamp { seconds: now.as_second(), nanos: now.subsec_nanosecond() }),
    });
    request.set_timeout(BEAT_ANSWER);
    let answer = tokio::time::timeout(BEAT_ANSWER, worker.link.client().heartbeat(request)).await;
    if let Ok(Ok(answer)) = &answer
        && !answer.get_ref().session_valid
        // Its session has gone. Without one it would not notice that the server has.
        && let Err(status) = initialize(pool, &worker.link, &worker.session).await
    {
        tracing::debug!(worker.id = %worker.id, "does not begin its session again: {}", in_words(&status));
    }
    Beat::of(answer)
}

/// Now and then, for the log.
async fn ping(worker: &Worker) -> std::convert::Infallible {
    let message = format!("health_check_{}", worker.pid.unwrap_or_default());
    loop {
        tokio::time::sleep(PING_EVERY).await;
        match tokio::time::timeout(PING_ANSWER, ask_ping(worker, &message)).await {
            Ok(Ok(())) => {}
            Ok(Err(status)) => tracing::warn!(worker.id = %worker.id, "answers a ping with: {}", in_words(&status)),
            Err(_) => tracing::warn!(worker.id = %worker.id, "does not answer a ping"),
        }
    }
}

async fn ask_ping(worker: &Worker, message: &str) -> Result<(), Status> {
    let mut request = Request::new(PingRequest { message: message.to_owned() });
    request.set_timeout(BEAT_ANSWER);
    worker.link.client().ping(request).await.map(drop)
}

/// Returns with the first limit of the pool that it has reached.
async fn wear(pool: &Pool, worker: &Worker) -> &'static str {
    let options = &pool.options;
    let old = async {
        match options.max_age {
            // Those that began together do not all end together.
            Some(age) => tokio::time::sleep_until(worker.born + jittered(age, worker.no.0).max(LEAST_AGE)).await,
            None => std::future::pending().await,
        }
    };
    let busy = async {
        let Some(most) = options.max_requests else { return std::future::pending().await };
        while worker.calls.load(Ordering::Relaxed) < most {
            worker.worn_out.notified().await;
        }
    };
    tokio::select! {
        () = old => "max_age",
        () = busy => "max_requests",
        () = heavy(pool, worker) => "max_memory",
    }
}

/// Returns when it and its children hold more memory than they may; until then tells how much it is.
async fn heavy(pool: &Pool, worker: &Worker) {
    let Some(pid) = worker.pid else { return std::future::pending().await };
    loop {
        let memory = pool.common.world.memory(pid).await;
        pool.weighs(worker.no, memory);
        if let (Some(memory), Some(most)) = (memory, pool.options.max_memory)
            && memory > most
        {
            return tokio::time::sleep_until(worker.born + YOUNG).await;
        }
        tokio::time::sleep(WEIGH_EVERY).await;
    }
}

/// Up to a tenth less, by number.
fn jittered(age: Duration, number: u64) -> Duration {
    let permille = u32::try_from(number.wrapping_mul(37) % 100).unwrap_or_default();
    age.saturating_sub(age / 1000 * permille)
}

#[cfg(test)]
mod tests;
