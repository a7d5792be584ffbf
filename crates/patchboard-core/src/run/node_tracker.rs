//! The nodes of one run: which are entered, and the number of each entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::{Event, NewEvent, NodeOutcome};
use crate::id::NodeId;
use crate::run_spec::NodeKey;
use crate::run_spec::finding::StrategyFinding;

/// Numbers entries in order. A run that does not record its nodes has no entries.
#[derive(Debug)]
pub(super) struct NodeTracker {
    records_nodes: bool,
    next: u32,
    open_nodes: BTreeMap<NodeKey, OpenNode>,
}

#[derive(Debug, Clone)]
struct OpenNode {
    node: NodeId,
    name: Arc<str>,
}

impl NodeTracker {
    pub(super) fn new(records_nodes: bool) -> Self {
        Self { records_nodes, next: 0, open_nodes: BTreeMap::new() }
    }

    /// The number of the node's current entry.
    pub(super) fn node(&self, key: NodeKey) -> Option<NodeId> {
        self.open_nodes.get(&key).map(|open| open.node)
    }

    pub(super) fn key(&self, node: NodeId) -> Option<NodeKey> {
        self.open_nodes.iter().find(|(_, open)| open.node == node).map(|(key, _)| *key)
    }

    pub(super) fn enter(&mut self, key: NodeKey, name: &str) -> Option<NewEvent> {
        if !self.records_nodes {
            return None;
        }
        Some(self.enter_next(key, name.into(), false))
    }

    pub(super) fn leave(&mut self, key: NodeKey, failed: Option<String>) -> Option<NewEvent> {
        let open = self.open_nodes.remove(&key)?;
        let outcome = failed.map_or(NodeOutcome::Done, |failed| NodeOutcome::Failed(failed.into()));
        Some(NewEvent { node: Some(open.node), event: Event::NodeLeft(outcome) })
    }

    /// The event of a finding; None in runs that do not record their nodes.
    pub(super) fn finding_entry(&self, key: NodeKey, finding: StrategyFinding) -> Option<NewEvent> {
        Some(NewEvent { node: Some(self.node(key)?), event: Event::FindingRecorded(finding) })
    }

    /// The run ends: all nodes still entered are left as failed.
    pub(super) fn leave_all(&mut self, reason: &str) -> Vec<NewEvent> {
        let open = std::mem::take(&mut self.open_nodes);
        let left_event = |open: OpenNode| NewEvent {
            node: Some(open.node),
            event: Event::NodeLeft(NodeOutcome::Failed(reason.into())),
        };
        open.into_values().map(left_event).collect()
    }

    /// After a crash: every open node is left as interrupted and entered again under the next number.
    pub(super) fn reenter_all(&mut self) -> Vec<NewEvent> {
        let interrupted = std::mem::take(&mut self.open_nodes);
        let mut entries: Vec<NewEvent> = interrupted
            .values()
            .map(|open| NewEvent { node: Some(open.node), event: Event::NodeLeft(NodeOutcome::Interrupted) })
            .collect();
        for (key, open) in interrupted {
            entries.push(self.enter_next(key, open.name, true));
        }
        entries
    }

    /// Applies an entry that the previous process made.
    pub(super) fn replay_enter(&mut self, key: NodeKey, node: NodeId, name: Arc<str>) {
        self.next = self.next.max(node.0 + 1);
        self.open_nodes.insert(key, OpenNode { node, name });
    }

    pub(super) fn replay_leave(&mut self, key: NodeKey) {
        self.open_nodes.remove(&key);
    }

    fn enter_next(&mut self, key: NodeKey, name: Arc<str>, is_reentry: bool) -> NewEvent {
        let node = NodeId(self.next);
        self.next += 1;
        self.open_nodes.insert(key, OpenNode { node, name: name.clone() });
        NewEvent { node: Some(node), event: Event::NodeEntered { key, name, is_reentry } }
    }
}
