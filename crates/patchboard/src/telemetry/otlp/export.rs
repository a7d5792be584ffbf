//! Batches on their way to the collector. Tries again for a while, then lets go: traces are no reason to hold anything up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use patchboard_providers::Pool;
use patchboard_providers::http::{PostAddress, Posted};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::FinishedSpan;
use super::wire::{self, Resource};
use crate::telemetry::{Redactor, metric};

/// Spans of one request.
const BATCH: usize = 512;
/// However long the collector asks for, it is tried again after this.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Exporter {
    finished: mpsc::Receiver<FinishedSpan>,
    pool: Pool,
    address: PostAddress,
    resource: Resource,
    redactor: Arc<Redactor>,
    pace: Pace,
    /// What was last said to be wrong, while it is.
    trouble: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Pace {
    /// How long spans gather before they leave.
    pub(super) gather: Duration,
    /// One attempt.
    pub(super) attempt: Duration,
    /// Pauses before a batch is tried again; after the last one it is dropped.
    pub(super) pauses: Vec<Duration>,
    /// How long the server's end waits for what is left.
    pub(super) farewell: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            gather: Duration::from_secs(2),
            attempt: Duration::from_secs(10),
            pauses: [1, 2, 4, 8].map(Duration::from_secs).to_vec(),
            farewell: Duration::from_millis(1500),
        }
    }
}

/// Why a batch did not get there.
#[derive(Debug)]
enum Refused {
    /// Another attempt may do better, after the pause the collector asked for.
    ForNow(String, Option<Duration>),
    ForGood(String),
}

impl Exporter {
    pub(super) fn new(
        finished: mpsc::Receiver<FinishedSpan>,
        address: PostAddress,
        resource: Resource,
        redactor: Arc<Redactor>,
        pace: Pace,
    ) -> Self {
        Self { finished, pool: Pool::new(), address, resource, redactor, pace, trouble: None }
    }

    /// Sends until `stop`, and then what is left if that can be done at once.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        tracing::info!("traces are sent to {}", self.address.host());
        let mut left = Vec::new();
        while let Some(batch) = self.gather(&stop).await {
            if let Some(unsent) = self.deliver(batch, &stop).await {
                left = unsent;
                break;
            }
        }
        self.say_farewell(left).await;
    }

    /// The next batch; `None` when it is time to stop. What has gathered by then is still in the queue or returned.
    async fn gather(&mut self, stop: &CancellationToken) -> Option<Vec<FinishedSpan>> {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            count = self.finished.recv_many(&mut batch, BATCH) => if count == 0 { return None },
        }
        let until = Instant::now() + self.pace.gather;
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                count = self.finished.recv_many(&mut batch, room) => if count == 0 { break },
                () = tokio::time::sleep_until(until) => break,
            }
        }
        Some(batch)
    }

    /// Gives back what it was stopped with.
    async fn deliver(&mut self, batch: Vec<FinishedSpan>, stop: &CancellationToken) -> Option<Vec<FinishedSpan>> {
        let mut pauses = self.pace.pauses.clone().into_iter();
        loop {
            let sent = tokio::select! {
                biased;
                () = stop.cancelled() => return Some(batch),
                sent = self.attempt(&batch, self.pace.attempt) => sent,
            };
            let pause = match (sent, pauses.next()) {
                (Ok(rejected), _) => {
                    self.delivered(batch.len(), rejected);
                    return None;
                }
                (Err(Refused::ForNow(problem, asked)), Some(pause)) => {
                    self.troubled(problem);
                    asked.map_or(pause, |asked| asked.clamp(pause, LONGEST_PAUSE.max(pause)))
                }
                (Err(Refused::ForNow(problem, _) | Refused::ForGood(problem)), _) => {
                    self.troubled(problem);
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

    async fn say_farewell(mut self, left: Vec<FinishedSpan>) {
        self.finished.close();
        let mut left = VecDeque::from(left);
        while let Ok(span) = self.finished.try_recv() {
            left.push_back(span);
        }
        let until = Instant::now() + self.pace.farewell;
        while !left.is_empty() {
            let batch: Vec<FinishedSpan> = left.drain(..left.len().min(BATCH)).collect();
            let time = until.saturating_duration_since(Instant::now());
            match self.attempt(&batch, time).await {
                Ok(rejected) => self.delivered(batch.len(), rejected),
                Err(Refused::ForNow(problem, _) | Refused::ForGood(problem)) => {
                    metric::spans_dropped("refused", batch.len() + left.len());
                    return self.troubled(problem);
                }
            }
        }
    }

    /// One attempt; says how many spans were not wanted.
    async fn attempt(&self, batch: &[FinishedSpan], within: Duration) -> Result<usize, Refused> {
        let body = wire::encode(&self.resource, batch, &self.redactor);
        match self.pool.post_json(&self.address, body, within).await {
            Err(problem) => Err(Refused::ForNow(problem, None)),
            Ok(Posted { status: 200..300, body, .. }) => Ok(rejected(&body)),
            Ok(Posted { status: status @ (408 | 429 | 502..=504), retry_after, .. }) => {
                Err(Refused::ForNow(self.answered(status), retry_after))
            }
            Ok(Posted { status, .. }) => Err(Refused::ForGood(self.answered(status))),
        }
    }

    fn answered(&self, status: u16) -> String {
        format!("{} answered {status}", self.address.host())
    }

    fn delivered(&mut self, count: usize, rejected: usize) {
        let rejected = rejected.min(count);
        metric::spans_sent(count - rejected);
        if rejected > 0 {
            metric::spans_dropped("refused", rejected);
            return self.troubled(format!("{} does not want some of them", self.address.host()));
        }
        if self.trouble.take().is_some() {
            tracing::info!("traces are sent again");
        }
    }

    /// Said once, not with every batch.
    fn troubled(&mut self, problem: String) {
        if self.trouble.as_ref() != Some(&problem) {
            tracing::warn!(problem, "traces cannot be sent; they are dropped until they can");
            self.trouble = Some(problem);
        }
    }
}

/// A collector may take a batch and still refuse some of it.
fn rejected(answer: &[u8]) -> usize {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        partial_success: Option<Partial>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Partial {
        rejected_spans: Option<Count>,
    }
    /// 64-bit numbers are text, though not everybody knows.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Count {
        Number(u64),
        Text(String),
    }
    let answer = serde_json::from_slice::<Answer>(answer).ok();
    let count = match answer.and_then(|answer| answer.partial_success?.rejected_spans) {
        Some(Count::Number(count)) => Some(count),
        Some(Count::Text(text)) => text.parse().ok(),
        None => None,
    };
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default()
}
