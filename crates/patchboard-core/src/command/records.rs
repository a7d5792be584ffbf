//! What the server recorded about its own work, for those who oversee it.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Command, PageRequest};
use crate::figures::{Fault, FigureReport};
use crate::store::{AuditFilter, AuditRow, ResultPage};

/// Rows of the audit trail, newest first. A page may be short, even empty, and have a next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadAudit {
    pub filter: AuditFilter,
    pub page: PageRequest,
}

impl Command for ReadAudit {
    type Reply = ResultPage<AuditRow>;
}

/// Figures over time and who talks to what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFigures {
    /// Empty: all.
    pub series: Vec<Arc<str>>,
    /// In steps of ten seconds within the last hour, else of two minutes within the last day; `None` for the last hour.
    pub since: Option<Timestamp>,
}

impl Command for ReadFigures {
    type Reply = FigureReport;
}

/// The last warnings and errors, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFaults;

impl Command for ListFaults {
    type Reply = Vec<Fault>;
}
