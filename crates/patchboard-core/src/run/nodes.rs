//! The nodes of one run: which are entered now, and which number each entry has.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::strategy::NodeKey;
use crate::event::{Entry, Event, NodeOutcome};
use crate::id::NodeId;
use crate::run::finding::Finding;

/// Numbers entries in the order they are made. A run that does not tell of its nodes has none.
#[derive(Debug)]
pub(super) struct NodeBook {
    told: bool,
    next: u32,
    open: BTreeMap<NodeKey, Open>,
}

#[derive(Debug, Clone)]
struct Open {
    node: NodeId,
    name: Arc<str>,
}

impl NodeBook {
    pub(super) fn new(told: bool) -> Self {
        Self { told, next: 0, open: BTreeMap::new() }
    }

    /// The number of the node's present entry.
    pub(super) fn node(&self, key: NodeKey) -> Option<NodeId> {
        self.open.get(&key).map(|open| open.node)
    }

    pub(super) fn key(&self, node: NodeId) -> Option<NodeKey> {
        self.open.iter().find(|(_, open)| open.node == node).map(|(key, _)| *key)
    }

    pub(super) fn enter(&mut self, key: NodeKey, name: &str) -> Option<Entry> {
        if !self.told {
            return None;
        }
        Some(self.enter_next(key, name.into(), false))
    }

    pub(super) fn leave(&mut self, key: NodeKey, failed: Option<String>) -> Option<Entry> {
        let open = self.open.remove(&key)?;
        let outcome = failed.map_or(NodeOutcome::Done, |failed| NodeOutcome::Failed(failed.into()));
        Some(Entry { node: Some(open.node), event: Event::NodeLeft(outcome) })
    }

    /// What a node found out, where that is told.
    pub(super) fn tell(&self, key: NodeKey, finding: Finding) -> Option<Entry> {
        Some(Entry { node: Some(self.node(key)?), event: Event::Found(finding) })
    }

    /// The run ends: whatever is still entered is left.
    pub(super) fn leave_all(&mut self, reason: &str) -> Vec<Entry> {
        let open = std::mem::take(&mut self.open);
        let left =
            |open: Open| Entry { node: Some(open.node), event: Event::NodeLeft(NodeOutcome::Failed(reason.into())) };
        open.into_values().map(left).collect()
    }

    /// After a crash: every open node is left as interrupted and entered again under the next number.
    pub(super) fn enter_again(&mut self) -> Vec<Entry> {
        let cut = std::mem::take(&mut self.open);
        let mut entries: Vec<Entry> = cut
            .values()
            .map(|open| Entry { node: Some(open.node), event: Event::NodeLeft(NodeOutcome::Interrupted) })
            .collect();
        for (key, open) in cut {
            entries.push(self.enter_next(key, open.name, true));
        }
        entries
    }

    /// Takes over an entry another process made.
    pub(super) fn recall_entry(&mut self, key: NodeKey, node: NodeId, name: Arc<str>) {
        self.next = self.next.max(node.0 + 1);
        self.open.insert(key, Open { node, name });
    }

    pub(super) fn recall_leave(&mut self, key: NodeKey) {
        self.open.remove(&key);
    }

    fn enter_next(&mut self, key: NodeKey, name: Arc<str>, again: bool) -> Entry {
        let node = NodeId(self.next);
        self.next += 1;
        self.open.insert(key, Open { node, name: name.clone() });
        Entry { node: Some(node), event: Event::NodeEntered { key, name, again } }
    }
}
