//! What the server recorded about its own work, for those who oversee it.

use super::{Command, PageRequest};
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
