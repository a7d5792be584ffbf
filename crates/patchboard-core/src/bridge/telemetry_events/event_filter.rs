//! The event filter of one subscriber. Each has its own, so that none affects another.

use crate::tool::Glob;

/// Most patterns of one subscriber; further ones are refused.
pub const MAX_PATTERNS: usize = 256;

#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// No event passes until it is enabled.
    enabled: bool,
    /// The share of events that pass when no rule matches; `None` for all.
    default_rate: Option<f64>,
    /// The last match decides.
    sampling_rules: Vec<(Glob, f64)>,
    allow: Vec<Glob>,
    deny: Vec<Glob>,
    /// Accumulated share per deciding rule: deterministic sampling, so that a share of a half passes every other event.
    sampling_credit: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many patterns: at most {MAX_PATTERNS} are kept")]
pub struct TooManyPatterns;

impl EventFilter {
    pub fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Sets the share for all events and drops earlier rules if `patterns` is empty; else for events that match a
    /// pattern.
    pub fn set_sampling(&mut self, rate: f64, patterns: Vec<Glob>) -> Result<(), TooManyPatterns> {
        let rate = if rate.is_nan() { 0.0 } else { rate.clamp(0.0, 1.0) };
        let remaining_rules = self.sampling_rules.iter().filter(|(known, _)| !patterns.contains(known)).count();
        if remaining_rules + patterns.len() > MAX_PATTERNS {
            return Err(TooManyPatterns);
        }
        if patterns.is_empty() {
            self.default_rate = Some(rate);
            self.sampling_rules.clear();
        }
        self.sampling_rules.retain(|(known, _)| !patterns.contains(known));
        self.sampling_rules.extend(patterns.into_iter().map(|pattern| (pattern, rate)));
        self.sampling_credit = vec![0.0; self.sampling_rules.len() + 1];
        Ok(())
    }

    /// Replaces the earlier patterns. Denied events never pass; if any are allowed, only those pass.
    pub fn set_patterns(&mut self, allow: Vec<Glob>, deny: Vec<Glob>) -> Result<(), TooManyPatterns> {
        if allow.len() + deny.len() > MAX_PATTERNS {
            return Err(TooManyPatterns);
        }
        (self.allow, self.deny) = (allow, deny);
        Ok(())
    }

    /// Whether an event passes. Must be called once per event, as it advances the sampling.
    pub fn accepts(&mut self, name: &str) -> bool {
        let matches = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(name));
        if !self.enabled || matches(&self.deny) || !(self.allow.is_empty() || matches(&self.allow)) {
            return false;
        }
        let rule = self.sampling_rules.iter().rposition(|(glob, _)| glob.matches(name));
        let rate = match rule {
            Some(rule) => self.sampling_rules.get(rule).map_or(1.0, |(_, rate)| *rate),
            None => self.default_rate.unwrap_or(1.0),
        };
        let slot = rule.map_or(0, |rule| rule + 1);
        if self.sampling_credit.len() <= slot {
            self.sampling_credit.resize(slot + 1, 0.0);
        }
        let Some(credit) = self.sampling_credit.get_mut(slot) else { return true };
        *credit += rate;
        // Tolerates rounding errors in sums of fractions.
        let passes = *credit >= 1.0 - 1e-9;
        if passes {
            *credit -= 1.0;
        }
        passes
    }
}

#[cfg(test)]
mod tests;
