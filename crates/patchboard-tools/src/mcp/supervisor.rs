//! Keeps one server running: starts it, pings it periodically and restarts it when it fails.

use std::sync::Arc;
use std::time::Duration;

use patchboard_core::backoff::{Backoff, BackoffSchedule};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::connection::{ServerConnection, service_error_text};
use super::host::McpHost;
use crate::text::with_causes;

const RECONNECT_BACKOFF: BackoffSchedule = BackoffSchedule::doubling(Duration::from_secs(1), Duration::from_secs(60));
/// A server that was well for this long starts with the first pause again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_MISSES: u32 = 3;
/// The tools of a server that keeps reporting changes are listed at most this often.
const MIN_LIST_INTERVAL: Duration = Duration::from_secs(1);

/// Why a connection ended.
enum ConnectionEnd {
    /// This process is stopping.
    Stopped,
    /// The connection failed; a later attempt may succeed.
    Failed { reason: String, was_well_for: Duration },
}

/// Runs the server until `stop` is cancelled.
pub(super) async fn supervise(host: Arc<McpHost>, stop: CancellationToken) {
    let server = host.name().clone();
    let mut backoff = Backoff::new(RECONNECT_BACKOFF);
    let mut last_reason = String::new();
    loop {
        // Boxed: the future of a server that runs for days need not hold the memory of its start.
        let ConnectionEnd::Failed { reason, was_well_for } = Box::pin(run_connection(&host, &stop)).await else {
            host.mark_unavailable("the server is stopping");
            return;
        };
        host.mark_unavailable(&reason);
        if was_well_for >= HEALTHY_AFTER {
            backoff.reset();
        }
        let pause = backoff.next_delay();
        let seconds = pause.as_secs();
        if last_reason == reason {
            tracing::debug!(mcp.server = &*server, "not available: {reason}; next try in {seconds} s");
        } else {
            tracing::warn!(mcp.server = &*server, "not available: {reason}; next try in {seconds} s");
            last_reason = reason;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn run_connection(host: &McpHost, stop: &CancellationToken) -> ConnectionEnd {
    let failed = |reason| ConnectionEnd::Failed { reason, was_well_for: Duration::ZERO };
    let mut connection = tokio::select! {
        result = ServerConnection::open(&host.options, &host.launch, &host.tasks) => match result {
            Ok(connection) => connection,
            Err(reason) => return failed(reason),
        },
        () = stop.cancelled() => return ConnectionEnd::Stopped,
    };
    let opened_at = Instant::now();
    let failure = tokio::select! {
        reason = monitor(host, &mut connection) => Some(reason),
        () = stop.cancelled() => None,
    };
    let was_well_for = opened_at.elapsed();
    host.mark_unavailable("the connection is closing");
    let exit_report = connection.close().await;
    match failure {
        Some(reason) => ConnectionEnd::Failed { reason: reason + &exit_report.message_suffix(), was_well_for },
        None => ConnectionEnd::Stopped,
    }
}

/// Monitors the connection; returns the reason when it fails.
async fn monitor(host: &McpHost, connection: &mut ServerConnection) -> String {
    if let Err(reason) = refresh_tools(host, connection).await {
        return reason;
    }
    let notifications = connection.handle.notifications.clone();
    let mut listed_at = Instant::now();
    let mut is_stale = false;
    let mut ticks = tokio::time::interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut misses = 0;
    loop {
        let handle = connection.handle.clone();
        tokio::select! {
            () = connection.ended() => return "it closed the connection".to_owned(),
            _ = ticks.tick() => match handle.ping(PING_TIMEOUT).await {
                Ok(()) => misses = 0,
                Err(error) => {
                    misses += 1;
                    tracing::debug!(mcp.server = &**host.name(), misses, "does not answer a ping: {}", service_error_text(&error));
                    if misses >= MAX_MISSES {
                        return format!("it did not answer {misses} pings: {}", service_error_text(&error));
                    }
                }
            },
            () = notifications.health_check.notified() => {
                if let Err(error) = handle.ping(PING_TIMEOUT).await {
                    return format!("it cannot be reached: {}", service_error_text(&error));
                }
            }
            () = notifications.list_changed.notified(), if !is_stale => is_stale = true,
            () = tokio::time::sleep_until(listed_at + MIN_LIST_INTERVAL), if is_stale => {
                if let Err(reason) = refresh_tools(host, connection).await {
                    return reason;
                }
                listed_at = Instant::now();
                is_stale = false;
            }
        }
    }
}

async fn refresh_tools(host: &McpHost, connection: &ServerConnection) -> Result<(), String> {
    let listed = connection.list_tools(host.name(), host.options.start_timeout).await?;
    let offered = listed.len();
    let usable = host.mark_available(connection.handle.clone(), listed).await;
    let usable = usable.map_err(|error| format!("its approved tools cannot be looked up: {}", with_causes(&*error)))?;
    tracing::info!(mcp.server = &**host.name(), offered, usable, "MCP server is ready");
    Ok(())
}
