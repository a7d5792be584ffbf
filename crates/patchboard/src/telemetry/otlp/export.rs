//! Sends batches to the collector. Retries for a while, then drops the batch: tracing must not hold up anything else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::backoff::BackoffSchedule;
use patchboard_http::{ClientPool, PostAddress, PostResponse};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::FinishedSpan;
use super::wire::{self, Resource};
use crate::telemetry::{Redactor, metric};

/// Spans per request.
const MAX_BATCH_SPANS: usize = 512;
/// Upper bound for the delay the collector asks for.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct SpanExporter {
    finished: mpsc::Receiver<FinishedSpan>,
    pool: ClientPool,
    address: PostAddress,
    resource: Resource,
    redactor: Arc<Redactor>,
    timing: ExportTiming,
    /// The current problem, as it was last logged.
    last_problem: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct ExportTiming {
    /// How long spans are collected into one batch.
    pub(super) batch_window: Duration,
    /// Time limit of one attempt.
    pub(super) attempt_timeout: Duration,
    /// Pauses before a batch is tried again; after the last one it is dropped.
    pub(super) backoff: BackoffSchedule,
    /// How long the server's end waits for what is left.
    pub(super) shutdown_timeout: Duration,
}

impl Default for ExportTiming {
    fn default() -> Self {
        Self {
            batch_window: Duration::from_secs(2),
            attempt_timeout: Duration::from_secs(10),
            backoff: BackoffSchedule::doubling(Duration::from_secs(1), Duration::from_secs(8)).with_max_retries(4),
            shutdown_timeout: Duration::from_millis(1500),
        }
    }
}

/// Why a batch was not accepted.
#[derive(Debug)]
enum ExportError {
    /// Another attempt may succeed, after the delay the collector asked for.
    Retryable(String, Option<Duration>),
    Permanent(String),
}

impl SpanExporter {
    pub(super) fn new(
        finished: mpsc::Receiver<FinishedSpan>,
        address: PostAddress,
        resource: Resource,
        redactor: Arc<Redactor>,
        timing: ExportTiming,
    ) -> Self {
        Self { finished, pool: ClientPool::new(), address, resource, redactor, timing, last_problem: None }
    }

    /// Sends until `stop`, then flushes the rest once within the shutdown timeout.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        tracing::info!("traces are sent to {}", self.address.host());
        let mut remaining = Vec::new();
        while let Some(batch) = self.next_batch(&stop).await {
            if let Some(unsent) = self.send_with_retry(batch, &stop).await {
                remaining = unsent;
                break;
            }
        }
        self.flush_on_shutdown(remaining).await;
    }

    /// Collects the next batch; `None` if stopped. Spans received until then stay in the queue or are returned.
    async fn next_batch(&mut self, stop: &CancellationToken) -> Option<Vec<FinishedSpan>> {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            count = self.finished.recv_many(&mut batch, MAX_BATCH_SPANS) => if count == 0 { return None },
        }
        let until = Instant::now() + self.timing.batch_window;
        while batch.len() < MAX_BATCH_SPANS {
            let room = MAX_BATCH_SPANS - batch.len();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                count = self.finished.recv_many(&mut batch, room) => if count == 0 { break },
                () = tokio::time::sleep_until(until) => break,
            }
        }
        Some(batch)
    }

    /// Returns the batch if interrupted by `stop`.
    async fn send_with_retry(
        &mut self,
        batch: Vec<FinishedSpan>,
        stop: &CancellationToken,
    ) -> Option<Vec<FinishedSpan>> {
        let mut pauses = self.timing.backoff.retries();
        loop {
            let sent = tokio::select! {
                biased;
                () = stop.cancelled() => return Some(batch),
                sent = self.attempt(&batch, self.timing.attempt_timeout) => sent,
            };
            let pause = match (sent, pauses.next()) {
                (Ok(rejected), _) => {
                    self.record_sent(batch.len(), rejected);
                    return None;
                }
                (Err(ExportError::Retryable(problem, retry_after)), Some(pause)) => {
                    self.warn_on_new_problem(problem);
                    // `max`, as `clamp` panics if its bounds are reversed.
                    retry_after.map_or(pause, |delay| delay.clamp(pause, MAX_RETRY_DELAY.max(pause)))
                }
                (Err(ExportError::Retryable(problem, _) | ExportError::Permanent(problem)), _) => {
                    self.warn_on_new_problem(problem);
                    metric::spans_dropped("refused", batch.len());
                    return None;
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return Some(batch),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn flush_on_shutdown(mut self, remaining: Vec<FinishedSpan>) {
        self.finished.close();
        let mut remaining = VecDeque::from(remaining);
        while let Ok(span) = self.finished.try_recv() {
            remaining.push_back(span);
        }
        let until = Instant::now() + self.timing.shutdown_timeout;
        while !remaining.is_empty() {
            let batch: Vec<FinishedSpan> = remaining.drain(..remaining.len().min(MAX_BATCH_SPANS)).collect();
            let time = until.saturating_duration_since(Instant::now());
            match self.attempt(&batch, time).await {
                Ok(rejected) => self.record_sent(batch.len(), rejected),
                Err(ExportError::Retryable(problem, _) | ExportError::Permanent(problem)) => {
                    metric::spans_dropped("refused", batch.len() + remaining.len());
                    return self.warn_on_new_problem(problem);
                }
            }
        }
    }

    /// One attempt; returns how many spans were rejected.
    async fn attempt(&self, batch: &[FinishedSpan], within: Duration) -> Result<usize, ExportError> {
        let body = wire::encode(&self.resource, batch, &self.redactor);
        match self.pool.post_json(&self.address, body, within).await {
            Err(problem) => Err(ExportError::Retryable(problem, None)),
            Ok(PostResponse { status: 200..300, body, .. }) => Ok(rejected_count(&body)),
            Ok(PostResponse { status: status @ (408 | 429 | 502..=504), retry_after, .. }) => {
                Err(ExportError::Retryable(self.status_message(status), retry_after))
            }
            Ok(PostResponse { status, .. }) => Err(ExportError::Permanent(self.status_message(status))),
        }
    }

    fn status_message(&self, status: u16) -> String {
        format!("{} answered {status}", self.address.host())
    }

    fn record_sent(&mut self, count: usize, rejected: usize) {
        let rejected = rejected.min(count);
        metric::spans_sent(count - rejected);
        if rejected > 0 {
            metric::spans_dropped("refused", rejected);
            return self.warn_on_new_problem(format!("{} rejected some spans", self.address.host()));
        }
        if self.last_problem.take().is_some() {
            tracing::info!("traces are sent again");
        }
    }

    /// Logs a problem once, not with every batch.
    fn warn_on_new_problem(&mut self, problem: String) {
        if self.last_problem.as_ref() != Some(&problem) {
            tracing::warn!(problem, "traces cannot be sent; they are dropped until they can");
            self.last_problem = Some(problem);
        }
    }
}

/// The number of spans a collector rejected from an accepted batch (partial success).
fn rejected_count(answer: &[u8]) -> usize {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ExportResponse {
        partial_success: Option<PartialSuccess>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PartialSuccess {
        rejected_spans: Option<RejectedCount>,
    }
    /// OTLP encodes 64-bit integers as strings, though not every collector does.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum RejectedCount {
        Number(u64),
        Text(String),
    }
    let answer = serde_json::from_slice::<ExportResponse>(answer).ok();
    let count = match answer.and_then(|answer| answer.partial_success?.rejected_spans) {
        Some(RejectedCount::Number(count)) => Some(count),
        Some(RejectedCount::Text(text)) => text.parse().ok(),
        None => None,
    };
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default()
}
