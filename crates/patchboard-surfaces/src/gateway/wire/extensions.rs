//! Params of methods about tools in full and workers.

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
pub(in crate::gateway) struct ToolDescribe {
    pub(in crate::gateway) name: Option<String>,
    pub(in crate::gateway) limit: Option<usize>,
    pub(in crate::gateway) cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::gateway) struct WorkerRestart {
    pub(in crate::gateway) pool: String,
    pub(in crate::gateway) worker: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(in crate::gateway) struct WorkerLines {
    pub(in crate::gateway) worker: String,
    pub(in crate::gateway) after: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(in crate::gateway) struct DeliveryList {
    pub(in crate::gateway) channel: Option<String>,
    pub(in crate::gateway) state: Option<String>,
    pub(in crate::gateway) limit: Option<usize>,
    pub(in crate::gateway) cursor: Option<String>,
}
