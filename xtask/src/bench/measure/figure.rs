//! One line of the table: what was measured, beside what, and what was hoped for.

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: Unit,
    /// The same measured on the bare baseline, in the same unit.
    pub(crate) baseline: Option<f64>,
    pub(crate) target: Target,
    /// What else a reader should know, such as how it was measured.
    pub(crate) note: String,
    /// The same of another build, where one was measured by turns with this one.
    pub(crate) other: Option<OtherBuild>,
}

/// A figure of another build, and how this build's compares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OtherBuild {
    /// The median.
    pub(crate) value: f64,
    /// The median of this build's value divided by the other's, pair by pair. `None` where there is nothing to divide by.
    pub(crate) ratio: Option<f64>,
    /// How far the ratio of a single pair was from that median, at most.
    pub(crate) spread: f64,
}

/// How this build compares with the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Whatever differs is within what the pairs differ by.
    Same,
    Better,
    Worse,
}

impl OtherBuild {
    pub(crate) fn change(&self, unit: Unit) -> Option<Change> {
        let ratio = self.ratio?;
        let is_more = ratio > 1.0;
        Some(match unit {
            _ if (ratio - 1.0).abs() <= self.spread => Change::Same,
            Unit::PerSecond if is_more => Change::Better,
            Unit::Milliseconds | Unit::Megabytes | Unit::Count if !is_more => Change::Better,
            Unit::PerSecond | Unit::Milliseconds | Unit::Megabytes | Unit::Count => Change::Worse,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Milliseconds,
    Megabytes,
    Count,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// Only shown.
    None,
    AtLeast(f64),
    AtMost(f64),
    /// Of value to baseline.
    RatioAtLeast(f64),
    RatioAtMost(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    Met,
    Missed,
    NothingAsked,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: Unit) -> Figure {
        Figure {
            name: name.into(),
            value,
            unit,
            baseline: None,
            target: Target::None,
            note: String::new(),
            other: None,
        }
    }

    pub(crate) fn beside(self, baseline: f64) -> Figure {
        Figure { baseline: Some(baseline), ..self }
    }

    pub(crate) fn target(self, target: Target) -> Figure {
        Figure { target, ..self }
    }

    pub(crate) fn note(self, note: impl Into<String>) -> Figure {
        Figure { note: note.into(), ..self }
    }

    pub(crate) fn ratio(&self) -> Option<f64> {
        self.baseline.filter(|baseline| *baseline != 0.0).map(|baseline| self.value / baseline)
    }

    /// A ratio that cannot be taken misses its target.
    pub(crate) fn judgement(&self) -> Judgement {
        let met = match self.target {
            Target::None => return Judgement::NothingAsked,
            Target::AtLeast(least) => self.value >= least,
            Target::AtMost(most) => self.value <= most,
            Target::RatioAtLeast(least) => self.ratio().is_some_and(|ratio| ratio >= least),
            Target::RatioAtMost(most) => self.ratio().is_some_and(|ratio| ratio <= most),
        };
        if met { Judgement::Met } else { Judgement::Missed }
    }
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::PerSecond => "/s",
            Unit::Milliseconds => "ms",
            Unit::Megabytes => "MB",
            Unit::Count => "",
        }
    }

    /// A value with as many digits as mean something.
    pub(crate) fn show(self, value: f64) -> String {
        let digits = match self {
            Unit::Count => 0,
            Unit::PerSecond if value >= 1000.0 => 0,
            Unit::Milliseconds if value.abs() < 10.0 => 3,
            Unit::PerSecond | Unit::Milliseconds | Unit::Megabytes => 1,
        };
        format!("{value:.digits$} {}", self.name()).trim_end().to_owned()
    }
}

impl Target {
    pub(crate) fn show(self, unit: Unit) -> String {
        match self {
            Target::None => String::new(),
            Target::AtLeast(least) => format!("≥ {}", plain(least, unit)),
            Target::AtMost(most) => format!("≤ {}", plain(most, unit)),
            Target::RatioAtLeast(least) => format!("≥ {least} ×"),
            Target::RatioAtMost(most) => format!("≤ {most} ×"),
        }
    }
}

fn plain(value: f64, unit: Unit) -> String {
    format!("{value} {}", unit.name()).trim_end().to_owned()
}

#[cfg(test)]
mod tests;
