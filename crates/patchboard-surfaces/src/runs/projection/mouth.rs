//! Numbers events and writes those the client has not seen.

use std::sync::Arc;

use super::Dialogue;
use crate::runs::wire;
use crate::runs::wire::event::{Frame, Payload};

pub(super) struct Mouth {
    run: Arc<str>,
    /// Events so far.
    told: u64,
    /// Events the client has.
    after: u64,
    dialogue: Dialogue,
}

impl Mouth {
    pub(super) fn new(run: Arc<str>, after: u64, dialogue: Dialogue) -> Self {
        Self { run, told: 0, after, dialogue }
    }

    pub(super) fn run(&self) -> &Arc<str> {
        &self.run
    }

    pub(super) fn rename(&mut self, run: Arc<str>) {
        self.run = run;
    }

    pub(super) fn next_number(&self) -> u64 {
        self.told + 1
    }

    /// Will any of the next few events be written?
    pub(super) fn wants_next(&self, events: u64) -> bool {
        self.told + events > self.after
    }

    pub(super) fn say(&mut self, node_id: &str, payload: &Payload<'_>, write: &mut dyn FnMut(String)) {
        self.told += 1;
        if self.told > self.after {
            write(wire::encode(&Frame::new(&self.run, node_id, self.told, payload)));
        }
    }

    /// For types that old clients do not know.
    pub(super) fn say_new(&mut self, node_id: &str, payload: &Payload<'_>, write: &mut dyn FnMut(String)) {
        match self.dialogue {
            Dialogue::Full => self.say(node_id, payload, write),
            Dialogue::Strict => self.say(node_id, &Payload::Custom { value: payload }, write),
        }
    }

    /// The one event with a `node_id` of its own, which is a task and not a node.
    pub(super) fn say_expansion(
        &mut self,
        node_id: &str,
        task: &str,
        nodes_added: usize,
        edges_added: usize,
        write: &mut dyn FnMut(String),
    ) {
        match self.dialogue {
            Dialogue::Full => {
                self.say(task, &Payload::GotExpand { node_id: None, nodes_added, edges_added }, write);
            }
            Dialogue::Strict => {
                let value = &Payload::GotExpand { node_id: Some(task), nodes_added, edges_added };
                self.say(node_id, &Payload::Custom { value }, write);
            }
        }
    }
}
