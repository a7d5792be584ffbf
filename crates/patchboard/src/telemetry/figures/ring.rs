//! The last steps of every series. A value is what happened in the step that ends at its time.

use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;

use super::scrape::Snapshot;
use super::series::{SERIES, Source};

#[derive(Debug)]
pub(super) struct Ring {
    step_seconds: i64,
    steps: i64,
    series: usize,
    /// The number of the newest step: its time in steps since 1970.
    newest: Option<i64>,
    /// All series of a step beside each other; NaN where nothing is known.
    cells: Box<[f32]>,
    /// The metrics at the newest step; before the first, those of a server that has just started.
    before: Snapshot,
}

impl Ring {
    pub(super) fn new(step: Duration, steps: usize, series: usize) -> Self {
        Self {
            step_seconds: i64::try_from(step.as_secs()).unwrap_or(1).max(1),
            steps: i64::try_from(steps).unwrap_or(1),
            series,
            newest: None,
            cells: vec![f32::NAN; steps * series].into_boxed_slice(),
            before: Snapshot::default(),
        }
    }

    pub(super) fn step(&self) -> Duration {
        Duration::from_secs(self.step_seconds.unsigned_abs())
    }

    pub(super) fn time(&self, step: i64) -> Timestamp {
        Timestamp::from_second(step.saturating_mul(self.step_seconds)).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    pub(super) fn has_step_of(&self, now: Timestamp) -> bool {
        self.newest == Some(self.step_of(now))
    }

    pub(super) fn push(&mut self, now: Timestamp, snapshot: &Snapshot) {
        let step = self.step_of(now);
        match self.newest {
            // Steps without a sample: the machine slept.
            Some(newest) if step > newest => {
                for missed in newest.max(step - self.steps)..step {
                    self.clear(missed + 1);
                }
            }
            // The clock was set back: what is known belongs to other times.
            Some(newest) if step < newest => self.cells.fill(f32::NAN),
            Some(_) | None => {}
        }
        let first = self.first_cell(step);
        let cells = self.cells.iter_mut().skip(first).take(self.series);
        for (cell, series) in cells.zip(SERIES) {
            let value = match series.source {
                Source::Counted(..) | Source::Faults(_) => Some(snapshot.value(series) - self.before.value(series)),
                Source::Level(..) => Some(snapshot.value(series)),
                Source::Quantile(metric, share) => snapshot.quantile(&self.before, metric, share),
            };
            #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough for a chart")]
            let value = value.map_or(f32::NAN, |value| value as f32);
            // A second sample within a step adds to it.
            let is_count = matches!(series.source, Source::Counted(..) | Source::Faults(_));
            *cell = if is_count && !cell.is_nan() { *cell + value } else { value };
        }
        self.newest = Some(step);
        self.before = snapshot.clone();
    }

    /// The steps that are kept from `since` until `now`.
    pub(super) fn steps(&self, since: Timestamp, now: Timestamp) -> Range<i64> {
        let last = self.step_of(now).min(self.newest.unwrap_or(i64::MIN));
        let first = self.step_of(since).saturating_add(1).max(self.step_of(now) - self.steps + 1);
        first..last.saturating_add(1).max(first)
    }

    pub(super) fn values(&self, series: usize, steps: &Range<i64>) -> Vec<Option<f32>> {
        let oldest = self.newest.map_or(i64::MAX, |newest| newest - self.steps + 1);
        let value = |step: i64| {
            let value = self.cells.get(self.first_cell(step) + series).copied()?;
            (step >= oldest && !value.is_nan()).then_some(value)
        };
        steps.clone().map(value).collect()
    }

    fn clear(&mut self, step: i64) {
        let first = self.first_cell(step);
        self.cells.iter_mut().skip(first).take(self.series).for_each(|cell| *cell = f32::NAN);
    }

    fn step_of(&self, time: Timestamp) -> i64 {
        time.as_second().div_euclid(self.step_seconds)
    }

    fn first_cell(&self, step: i64) -> usize {
        usize::try_from(step.rem_euclid(self.steps)).unwrap_or(0) * self.series
    }
}
