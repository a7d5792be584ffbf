//! The metrics at one moment, read from Prometheus text.

use std::collections::HashMap;

use super::FaultCounts;
use super::series::{FaultKind, SERIES, Series, Source};

/// Values of the series, and the buckets of those that are quantiles.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// In the order of `SERIES`; empty before anything was read.
    values: Vec<f64>,
    /// Upper bound and cumulative count by metric, in ascending order.
    buckets: HashMap<&'static str, Vec<(f64, f64)>>,
}

impl Snapshot {
    pub(super) fn read(metrics: &str, faults: FaultCounts) -> Self {
        let mut snapshot = Self { values: vec![0.0; SERIES.len()], buckets: HashMap::new() };
        for (metric, labels, value) in metrics.lines().filter_map(parse) {
            for (sum, series) in snapshot.values.iter_mut().zip(SERIES) {
                match series.source {
                    Source::Counted(name, label) | Source::Level(name, label) => {
                        if metric == name && labels.contains(label) {
                            *sum += value;
                        }
                    }
                    Source::Quantile(..) | Source::Faults(_) => {}
                }
            }
            if let Some(histogram) = metric.strip_suffix("_bucket")
                && let Some(name) = quantile_metric(histogram)
                && let Some(bound) = upper_bound(labels)
            {
                add_to_bucket(snapshot.buckets.entry(name).or_default(), bound, value);
            }
        }
        for (sum, series) in snapshot.values.iter_mut().zip(SERIES) {
            if let Source::Faults(kind) = series.source {
                #[expect(clippy::cast_precision_loss, reason = "a count of log lines")]
                let count = match kind {
                    FaultKind::Warning => faults.warnings as f64,
                    FaultKind::Error => faults.errors as f64,
                };
                *sum = count;
            }
        }
        snapshot
    }

    pub(super) fn value(&self, series: &Series) -> f64 {
        let index = SERIES.iter().position(|known| known.name == series.name);
        index.and_then(|index| self.values.get(index)).copied().unwrap_or(0.0)
    }

    /// The value below which that share of what was measured since `before` lies; `None` if nothing was. Interpolated
    /// within a bucket; what lies above the last bound counts as the bound.
    pub(super) fn quantile(&self, before: &Self, metric: &str, share: f64) -> Option<f64> {
        let now = self.buckets.get(metric)?;
        let earlier = before.buckets.get(metric).map_or(&[][..], Vec::as_slice);
        let count_before =
            |bound: f64| earlier.iter().find(|(known, _)| *known == bound).map_or(0.0, |(_, count)| *count);
        let counts: Vec<(f64, f64)> = now.iter().map(|(bound, count)| (*bound, count - count_before(*bound))).collect();
        let total = counts.last().map(|(_, count)| *count).filter(|total| *total > 0.0)?;
        let wanted = share * total;
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in counts {
            if count >= wanted {
                let within = if count > below { (wanted - below) / (count - below) } else { 1.0 };
                return Some(if bound.is_finite() { lower + (bound - lower) * within } else { lower });
            }
            (lower, below) = (if bound.is_finite() { bound } else { lower }, count);
        }
        Some(lower)
    }
}

fn add_to_bucket(buckets: &mut Vec<(f64, f64)>, bound: f64, count: f64) {
    match buckets.binary_search_by(|(known, _)| known.total_cmp(&bound)) {
        Ok(index) => {
            if let Some((_, sum)) = buckets.get_mut(index) {
                *sum += count;
            }
        }
        Err(index) => buckets.insert(index, (bound, count)),
    }
}

fn quantile_metric(name: &str) -> Option<&'static str> {
    SERIES.iter().find_map(|series| match series.source {
        Source::Quantile(metric, _) if metric == name => Some(metric),
        Source::Quantile(..) | Source::Counted(..) | Source::Level(..) | Source::Faults(_) => None,
    })
}

fn upper_bound(labels: &str) -> Option<f64> {
    let (_, rest) = labels.split_once("le=\"")?;
    let (bound, _) = rest.split_once('"')?;
    if bound == "+Inf" { Some(f64::INFINITY) } else { bound.parse().ok() }
}

/// Name, labels and value of a line; `None` for comments.
fn parse(line: &str) -> Option<(&str, &str, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let (named, value) = line.rsplit_once(' ')?;
    let (name, labels) = named.split_once('{').unwrap_or((named, ""));
    Some((name, labels, value.parse().ok()?))
}
