//! Version 4, frozen: add a `v5.rs` instead of editing a shape here. The briefing of a run that differs from its agent in
//! something that version 2 cannot say; what it can say keeps its shape.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::v2;
use crate::error::BoxError;
use crate::event;
use crate::id::NodeId;
use crate::run::brief;

#[derive(Serialize, Deserialize)]
pub(super) struct Entry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u32>,
    briefed: Box<v2::Briefing>,
    /// `provider/model`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<Arc<str>>,
}

impl Entry {
    /// `None` if version 2 can hold it.
    pub(super) fn of(node: Option<NodeId>, event: &event::Event) -> Option<Self> {
        let event::Event::Briefed(briefing) = event else { return None };
        let model = Some(briefing.model.clone()?);
        Some(Self { node: node.map(|node| node.0), briefed: Box::new((&**briefing).into()), model })
    }
}

impl TryFrom<Entry> for event::Entry {
    type Error = BoxError;

    fn try_from(stored: Entry) -> Result<Self, BoxError> {
        let Entry { node, briefed, model } = stored;
        let briefing = brief::Briefing { model, ..(*briefed).try_into()? };
        Ok(Self { node: node.map(NodeId), event: event::Event::Briefed(Arc::new(briefing)) })
    }
}
