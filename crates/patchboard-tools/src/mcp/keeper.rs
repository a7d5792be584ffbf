//! Keeps one server running: starts it, asks now and then whether it is still there, starts it again when it is not.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::host::McpHost;
use super::link::{Link, reason, told};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A server that was well for this long starts with the first pause again.
const WELL: Duration = Duration::from_secs(60);
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(10);
const MAX_MISSES: u32 = 3;
/// A server that says all the time that its tools have changed is listened to this often.
const LIST_AT_MOST_EVERY: Duration = Duration::from_secs(1);

/// Why a server is not kept any longer.
enum End {
    /// The program ends.
    Stopped,
    /// It may go better next time.
    Failed { reason: String, was_well_for: Duration },
}

/// Until `stop`.
pub(super) async fn keep(host: Arc<McpHost>, stop: CancellationToken) {
    let server = host.name().clone();
    let mut pause = FIRST_PAUSE;
    let mut said = String::new();
    loop {
        // Boxed: a server that runs for days need not hold the memory of its start.
        let End::Failed { reason, was_well_for } = Box::pin(one_life(&host, &stop)).await else {
            host.down("the server is stopping");
            return;
        };
        host.down(&reason);
        if was_well_for >= WELL {
            pause = FIRST_PAUSE;
        }
        let seconds = pause.as_secs();
        if said == reason {
            tracing::debug!(mcp.server = &*server, "not available: {reason}; next try in {seconds} s");
        } else {
            tracing::warn!(mcp.server = &*server, "not available: {reason}; next try in {seconds} s");
            said = reason;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn one_life(host: &McpHost, stop: &CancellationToken) -> End {
    let never = |reason| End::Failed { reason, was_well_for: Duration::ZERO };
    let mut link = tokio::select! {
        opened = Link::open(&host.options, &host.launch, &host.tasks) => match opened {
            Ok(link) => link,
            Err(reason) => return never(reason),
        },
        () = stop.cancelled() => return End::Stopped,
    };
    let born = Instant::now();
    let watched = tokio::select! {
        reason = watch(host, &mut link) => Some(reason),
        () = stop.cancelled() => None,
    };
    let was_well_for = born.elapsed();
    host.down("the connection is closing");
    let last_words = link.close().await;
    match watched {
        Some(reason) => End::Failed { reason: reason + &last_words.report(), was_well_for },
        None => End::Stopped,
    }
}

/// Returns with the reason when the server is not well any more.
async fn watch(host: &McpHost, link: &mut Link) -> String {
    if let Err(reason) = list(host, link).await {
        return reason;
    }
    let notices = link.connection.notices.clone();
    let mut listed_at = Instant::now();
    let mut is_stale = false;
    let mut ticks = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut misses = 0;
    loop {
        let connection = link.connection.clone();
        tokio::select! {
            () = link.ended() => return "it closed the connection".to_owned(),
            _ = ticks.tick() => match connection.ping(PING_ANSWER).await {
                Ok(()) => misses = 0,
                Err(error) => {
                    misses += 1;
                    tracing::debug!(mcp.server = &**host.name(), misses, "does not answer a ping: {}", reason(&error));
                    if misses >= MAX_MISSES {
                        return format!("it did not answer {misses} pings: {}", reason(&error));
                    }
                }
            },
            () = notices.suspicion.notified() => {
                if let Err(error) = connection.ping(PING_ANSWER).await {
                    return format!("it cannot be reached: {}", reason(&error));
                }
            }
            () = notices.list_changed.notified(), if !is_stale => is_stale = true,
            () = tokio::time::sleep_until(listed_at + LIST_AT_MOST_EVERY), if is_stale => {
                if let Err(reason) = list(host, link).await {
                    return reason;
                }
                listed_at = Instant::now();
                is_stale = false;
            }
        }
    }
}

async fn list(host: &McpHost, link: &Link) -> Result<(), String> {
    let listed = link.list(host.name(), host.options.start_timeout).await?;
    let offered = listed.len();
    let usable = host.offer(link.connection.clone(), listed).await;
    let usable = usable.map_err(|error| format!("its approved tools cannot be looked up: {}", told(&*error)))?;
    tracing::info!(mcp.server = &**host.name(), offered, usable, "MCP server is ready");
    Ok(())
}
