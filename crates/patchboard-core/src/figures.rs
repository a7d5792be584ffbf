//! Figures of the server over time, who talks to what, and its last warnings and errors.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// Figures over a stretch of time, all with the same steps.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureReport {
    /// The end of the first step. A value covers the step that ends at its time.
    pub start: Timestamp,
    pub step: Duration,
    pub series: Vec<FigureSeries>,
    /// Most frequent first.
    pub flows: Vec<Flow>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FigureSeries {
    pub name: &'static str,
    pub unit: FigureUnit,
    /// `None` where nothing is known: the server did not run, or nothing was measured in that step.
    pub values: Vec<Option<f32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureUnit {
    /// How often something happened within a step.
    Count,
    /// How many there are at the end of a step.
    Level,
    Seconds,
}

impl FigureUnit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Level => "level",
            Self::Seconds => "seconds",
        }
    }
}

/// How often one party turned to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    pub kind: FlowKind,
    pub from: Arc<str>,
    pub to: Arc<str>,
    /// Within the time asked for, at most the last hour.
    pub recent: u64,
    /// Since the start of the server.
    pub total: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowKind {
    /// From a surface or channel to the agent of a run.
    Run,
    /// From an agent, or a surface for calls outside of runs, to a tool's host.
    ToolCall,
}

impl FlowKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::ToolCall => "tool_call",
        }
    }
}

/// A warning or an error of the server's log, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Counts the faults since the start, from 1.
    pub number: u64,
    pub at: Timestamp,
    pub level: FaultLevel,
    /// The part of the server that logged it.
    pub source: String,
    pub message: String,
    pub fields: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultLevel {
    Warning,
    Error,
}

impl FaultLevel {
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "warn",
            Self::Error => "error",
        }
    }
}
