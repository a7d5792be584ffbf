//! Version 4, frozen: a new shape needs a new version in a file of its own. The briefing of a run that differs from its
//! agent in a way version 2 cannot express; everything else keeps its shape.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::agent_run_events;
use crate::error::BoxError;
use crate::event;
use crate::id::NodeId;
use crate::run_spec;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredBriefingEntry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
    briefed: Box<agent_run_events::StoredBriefing>,
    /// `provider/model`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<Arc<str>>,
}

impl StoredBriefingEntry {
    /// `None` if version 2 can hold it.
    pub(super) fn from_event(node: Option<NodeId>, event: &event::Event) -> Option<Self> {
        let event::Event::RunBriefed(spec) = event else { return None };
        let model = Some(spec.model.clone()?);
        Some(Self { node: node.map(|node| node.0), briefed: Box::new((&**spec).into()), model })
    }
}

impl TryFrom<StoredBriefingEntry> for event::NewEvent {
    type Error = BoxError;

    fn try_from(stored: StoredBriefingEntry) -> Result<Self, BoxError> {
        let StoredBriefingEntry { node, briefed, model } = stored;
        let spec = run_spec::RunSpec { model, ..(*briefed).try_into()? };
        Ok(Self { node: node.map(NodeId), event: event::Event::RunBriefed(Arc::new(spec)) })
    }
}
