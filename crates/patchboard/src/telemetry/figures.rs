//! Figures over time: the rendered metrics are read every ten seconds into rings of fixed size, so that nothing is added
//! to the path of what they measure. 180 KB in all.

use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use patchboard_core::figures::{FigureReport, FigureSeries};

mod ring;
mod scrape;
mod series;

use ring::Ring;
use scrape::Snapshot;
use series::SERIES;

/// The finer steps, kept for an hour.
const FINE_STEP: Duration = Duration::from_secs(10);
const FINE_STEPS: usize = 360;
/// The coarser steps, kept for a day.
const COARSE_STEP: Duration = Duration::from_secs(120);
const COARSE_STEPS: usize = 720;
const FINE_SPAN_SECONDS: i64 = 3600;

/// How many warnings and errors there have been since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FaultCounts {
    pub(crate) warnings: u64,
    pub(crate) errors: u64,
}

#[derive(Debug)]
pub(crate) struct FigureRecorder(Mutex<Rings>);

#[derive(Debug)]
struct Rings {
    fine: Ring,
    coarse: Ring,
}

impl FigureRecorder {
    pub(crate) fn new() -> Self {
        let [fine, coarse] = [(FINE_STEP, FINE_STEPS), (COARSE_STEP, COARSE_STEPS)]
            .map(|(step, steps)| Ring::new(step, steps, SERIES.len()));
        Self(Mutex::new(Rings { fine, coarse }))
    }

    /// How long until the next sample is due.
    pub(crate) fn until_next(now: Timestamp) -> Duration {
        let step = i64::try_from(FINE_STEP.as_millis()).unwrap_or(1);
        let left = step - now.as_millisecond().rem_euclid(step);
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    /// Takes the metrics, as Prometheus text.
    pub(crate) fn sample(&self, metrics: &str, faults: FaultCounts, now: Timestamp) {
        let snapshot = Snapshot::read(metrics, faults);
        let mut rings = self.rings();
        rings.fine.push(now, &snapshot);
        if !rings.coarse.has_step_of(now) {
            rings.coarse.push(now, &snapshot);
        }
    }

    /// `Err` is the name that no series has.
    pub(crate) fn read(
        &self,
        names: &[Arc<str>],
        since: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<FigureReport, Arc<str>> {
        if let Some(unknown) = names.iter().find(|name| SERIES.iter().all(|series| series.name != &***name)) {
            return Err(unknown.clone());
        }
        let hour_ago = Timestamp::from_second(now.as_second() - FINE_SPAN_SECONDS).unwrap_or(Timestamp::UNIX_EPOCH);
        let since = since.unwrap_or(hour_ago);
        let rings = self.rings();
        let ring = if since >= hour_ago { &rings.fine } else { &rings.coarse };
        let steps = ring.steps(since, now);
        let series = SERIES.iter().enumerate();
        let wanted = series.filter(|(_, series)| names.is_empty() || names.iter().any(|name| series.name == &**name));
        let series = wanted.map(|(index, series)| FigureSeries {
            name: series.name,
            unit: series.unit(),
            values: ring.values(index, &steps),
        });
        Ok(FigureReport {
            start: ring.time(steps.start),
            step: ring.step(),
            series: series.collect(),
            flows: Vec::new(),
        })
    }

    fn rings(&self) -> std::sync::MutexGuard<'_, Rings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
