//! Numbers events and writes those that the client has not received.

use std::sync::Arc;

use super::ClientLevel;
use crate::runs::wire;
use crate::runs::wire::event::{EventPayload, RunEventFrame};

pub(super) struct EventWriter {
    run: Arc<str>,
    /// Number of events so far.
    last_number: u64,
    /// Number of events that the client has received.
    after: u64,
    client_level: ClientLevel,
}

impl EventWriter {
    pub(super) fn new(run: Arc<str>, after: u64, client_level: ClientLevel) -> Self {
        Self { run, last_number: 0, after, client_level }
    }

    pub(super) fn run(&self) -> &Arc<str> {
        &self.run
    }

    pub(super) fn rename(&mut self, run: Arc<str>) {
        self.run = run;
    }

    pub(super) fn next_number(&self) -> u64 {
        self.last_number + 1
    }

    /// Whether any of the next `events` events will be written.
    pub(super) fn wants_next(&self, events: u64) -> bool {
        self.last_number + events > self.after
    }

    pub(super) fn write_event(&mut self, node_id: &str, payload: &EventPayload<'_>, write: &mut dyn FnMut(String)) {
        self.last_number += 1;
        if self.last_number > self.after {
            write(wire::encode(&RunEventFrame::new(&self.run, node_id, self.last_number, payload)));
        }
    }

    /// For event types that old clients do not know.
    pub(super) fn write_newer_event(
        &mut self,
        node_id: &str,
        payload: &EventPayload<'_>,
        write: &mut dyn FnMut(String),
    ) {
        match self.client_level {
            ClientLevel::Full => self.write_event(node_id, payload, write),
            ClientLevel::Strict => self.write_event(node_id, &EventPayload::Custom { value: payload }, write),
        }
    }

    /// The only event with its own `node_id`, which names a task instead of a node.
    pub(super) fn write_expansion(
        &mut self,
        node_id: &str,
        task: &str,
        nodes_added: usize,
        edges_added: usize,
        write: &mut dyn FnMut(String),
    ) {
        match self.client_level {
            ClientLevel::Full => {
                self.write_event(task, &EventPayload::GotExpand { node_id: None, nodes_added, edges_added }, write);
            }
            ClientLevel::Strict => {
                let value = &EventPayload::GotExpand { node_id: Some(task), nodes_added, edges_added };
                self.write_event(node_id, &EventPayload::Custom { value }, write);
            }
        }
    }
}
