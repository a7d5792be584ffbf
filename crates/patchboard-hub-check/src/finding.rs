//! Findings of the mock hub about a client.

use patchboard_core::text::cut_chars;
use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingLevel {
    Ok,
    /// It works, but degrades the user's experience.
    Warn,
    /// A hub would refuse, ignore or misread it.
    Wrong,
}

impl FindingLevel {
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Wrong => "wrong",
        }
    }
}

/// The part of the protocol a finding concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolStep {
    Handshake,
    Frame,
    Registration,
    Response,
    Heartbeat,
    Reconnect,
    Scenario,
}

impl ProtocolStep {
    pub fn word(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Frame => "frame",
            Self::Registration => "registration",
            Self::Response => "response",
            Self::Heartbeat => "heartbeat",
            Self::Reconnect => "reconnect",
            Self::Scenario => "scenario",
        }
    }
}

/// A finding without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolFinding {
    pub step: ProtocolStep,
    pub level: FindingLevel,
    /// What arrived, or did not arrive.
    pub observed: String,
    pub rule: &'static str,
    pub fix: Option<String>,
}

impl ProtocolFinding {
    pub fn ok(step: ProtocolStep, saw: impl Into<String>, rule: &'static str) -> Self {
        Self { step, level: FindingLevel::Ok, observed: saw.into(), rule, fix: None }
    }

    pub(crate) fn warn(
        step: ProtocolStep,
        saw: impl Into<String>,
        rule: &'static str,
        mend: impl Into<String>,
    ) -> Self {
        Self { step, level: FindingLevel::Warn, observed: saw.into(), rule, fix: Some(mend.into()) }
    }

    pub fn wrong(step: ProtocolStep, saw: impl Into<String>, rule: &'static str, mend: impl Into<String>) -> Self {
        Self { step, level: FindingLevel::Wrong, observed: saw.into(), rule, fix: Some(mend.into()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedFinding {
    /// Time since the mock hub began to listen.
    pub at: Duration,
    pub finding: ProtocolFinding,
}

/// Number of findings of each severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub ok: usize,
    pub warn: usize,
    pub wrong: usize,
}

impl Tally {
    pub(crate) fn count(&mut self, level: FindingLevel) {
        match level {
            FindingLevel::Ok => self.ok += 1,
            FindingLevel::Warn => self.warn += 1,
            FindingLevel::Wrong => self.wrong += 1,
        }
    }

    pub(crate) fn total(self) -> usize {
        self.ok + self.warn + self.wrong
    }
}

/// A client's text, cut to a quotable length.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    format!("`{}`", cut_chars(text, LONGEST))
}
