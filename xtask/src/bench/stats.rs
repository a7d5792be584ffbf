//! The few statistics a table needs.

use anyhow::ensure;

/// Values in order, at least one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample(Vec<f64>);

impl Sample {
    pub(super) fn new(mut values: Vec<f64>) -> anyhow::Result<Sample> {
        ensure!(!values.is_empty(), "nothing was measured");
        ensure!(values.iter().all(|value| value.is_finite()), "a measured value is not a number");
        values.sort_by(f64::total_cmp);
        Ok(Sample(values))
    }

    pub(super) fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// Between the two nearest values in proportion, so that the median of an even number is their mean.
    pub(super) fn percentile(&self, percent: f64) -> f64 {
        let last = self.0.len() - 1;
        let rank = percent.clamp(0.0, 100.0) / 100.0 * last as f64;
        let below = rank.floor();
        let at = |rank: f64| self.0.get(rank as usize).copied().unwrap_or(f64::NAN);
        let (low, high) = (at(below), at(rank.ceil()));
        low + (high - low) * (rank - below)
    }

    #[cfg(any(test, feature = "bench"))]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests;
