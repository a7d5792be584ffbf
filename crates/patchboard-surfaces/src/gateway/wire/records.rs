//! Params of methods about what the server recorded about its own work.

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
pub(in crate::gateway) struct AuditRead {
    pub(in crate::gateway) since: Option<String>,
    pub(in crate::gateway) until: Option<String>,
    pub(in crate::gateway) who: Option<String>,
    pub(in crate::gateway) surface: Option<String>,
    pub(in crate::gateway) action: Option<String>,
    pub(in crate::gateway) subject: Option<String>,
    pub(in crate::gateway) run: Option<String>,
    pub(in crate::gateway) limit: Option<usize>,
    pub(in crate::gateway) cursor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(in crate::gateway) struct FiguresRead {
    #[serde(default)]
    pub(in crate::gateway) series: Vec<String>,
    pub(in crate::gateway) since: Option<String>,
}
