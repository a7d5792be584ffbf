//! What the stand-in hub thinks of a client, one thing at a time.

use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FindingLevel {
    Ok,
    /// It works, and will disappoint somebody.
    Warn,
    /// A hub would refuse, ignore or misread it.
    Wrong,
}

impl FindingLevel {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Wrong => "wrong",
        }
    }
}

/// Which part of the protocol a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ProtocolStep {
    Handshake,
    Frame,
    Registration,
    Response,
    Heartbeat,
    Reconnect,
    Scenario,
}

impl ProtocolStep {
    pub(super) fn word(self) -> &'static str {
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

/// A judgement that does not know yet when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProtocolFinding {
    pub(super) step: ProtocolStep,
    pub(super) level: FindingLevel,
    /// What came, or did not come.
    pub(super) observed: String,
    pub(super) rule: &'static str,
    pub(super) fix: Option<String>,
}

impl ProtocolFinding {
    pub(super) fn ok(step: ProtocolStep, saw: impl Into<String>, rule: &'static str) -> Self {
        Self { step, level: FindingLevel::Ok, observed: saw.into(), rule, fix: None }
    }

    pub(super) fn warn(
        step: ProtocolStep,
        saw: impl Into<String>,
        rule: &'static str,
        mend: impl Into<String>,
    ) -> Self {
        Self { step, level: FindingLevel::Warn, observed: saw.into(), rule, fix: Some(mend.into()) }
    }

    pub(super) fn wrong(
        step: ProtocolStep,
        saw: impl Into<String>,
        rule: &'static str,
        mend: impl Into<String>,
    ) -> Self {
        Self { step, level: FindingLevel::Wrong, observed: saw.into(), rule, fix: Some(mend.into()) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TimedFinding {
    /// Since the stand-in began to listen.
    pub(super) at: Duration,
    pub(super) finding: ProtocolFinding,
}

/// How many of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    pub(super) ok: usize,
    pub(super) warn: usize,
    pub(super) wrong: usize,
}

impl Tally {
    pub(super) fn count(&mut self, level: FindingLevel) {
        match level {
            FindingLevel::Ok => self.ok += 1,
            FindingLevel::Warn => self.warn += 1,
            FindingLevel::Wrong => self.wrong += 1,
        }
    }

    pub(super) fn total(self) -> usize {
        self.ok + self.warn + self.wrong
    }
}

/// Text of a client, short enough to be quoted.
pub(super) fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.chars().count() <= LONGEST {
        return format!("`{text}`");
    }
    format!("`{}…`", text.chars().take(LONGEST).collect::<String>())
}
