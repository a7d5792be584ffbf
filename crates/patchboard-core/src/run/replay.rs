//! What the log says of a run that was cut short: its strategy fed the recorded inputs again, and what is still to do.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::nodes::NodeBook;
use super::strategy::{Completion, Input, NodeKey, Step, Strategy};
use crate::event::{Answered, Envelope, Event, NodeOutcome};
use crate::id::{ApprovalId, CallId, NodeId};
use crate::model::ToolCall;

/// A run as it stood when its process died.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) strategy: Box<dyn Strategy>,
    pub(super) nodes: NodeBook,
    /// Steps that are not on record, or whose outcome is not.
    pub(super) steps: Vec<Step>,
    /// Calls that may have taken effect: begun, and nothing heard since.
    pub(super) unsure: HashSet<CallId>,
    /// Calls that stand in an answer on record.
    pub(super) announced: HashSet<CallId>,
    /// Tokens of the settled model calls.
    pub(super) used: u64,
    /// At least as many model calls as were made, so that a new number is a fresh one.
    pub(super) calls: u32,
    /// What the model had said in each node since its last whole answer.
    said: BTreeMap<NodeId, String>,
    /// Questions to a person about a call; until one is answered with yes the call has not begun.
    asked: HashMap<ApprovalId, CallId>,
}

impl Replay {
    pub(super) fn new(mut strategy: Box<dyn Strategy>) -> Self {
        let mut steps = Vec::new();
        strategy.advance(Input::Begin, &mut steps);
        Self {
            strategy,
            nodes: NodeBook::new(true),
            steps,
            unsure: HashSet::new(),
            announced: HashSet::new(),
            used: 0,
            calls: 0,
            said: BTreeMap::new(),
            asked: HashMap::new(),
        }
    }

    /// Records in the order of the log.
    pub(super) fn take(&mut self, record: &Envelope) {
        let key = record.node.and_then(|node| self.nodes.key(node));
        match (&record.event, record.node, key) {
            (Event::NodeEntered { key, name, again }, Some(node), _) => {
                self.nodes.recall_entry(*key, node, name.clone());
                if !again {
                    self.done(|step| matches!(step, Step::Enter { node, .. } if node == key));
                }
            }
            (Event::NodeLeft(outcome), Some(node), Some(key)) => {
                self.nodes.recall_leave(key);
                self.said.remove(&node);
                if *outcome != NodeOutcome::Interrupted {
                    self.done(|step| matches!(step, Step::Leave { node, .. } if *node == key));
                }
            }
            (Event::Text(pieces) | Event::Draft(pieces), Some(node), _) => {
                self.said.entry(node).or_default().push_str(pieces.text());
            }
            (Event::Answered(answered), Some(node), Some(key)) => {
                let text = self.said.remove(&node).unwrap_or_default();
                self.answered(key, text, answered);
            }
            (Event::Found(found), _, Some(key)) => {
                let of_node = |step: &Step| matches!(step, Step::Tell { node, .. } if *node == key);
                let same = |step: &Step| matches!(step, Step::Tell { finding, .. } if finding == found);
                let told = self.steps.iter().position(|step| of_node(step) && same(step));
                if let Some(told) = told.or_else(|| self.steps.iter().position(of_node)) {
                    self.steps.remove(told);
                }
            }
            (Event::ToolStarted { call, .. } | Event::ToolRequested(ToolCall { id: call, .. }), ..) => {
                self.unsure.insert(call.clone());
            }
            (Event::ApprovalWanted(request), ..) => {
                self.asked.insert(request.approval, request.call.id.clone());
                self.unsure.remove(&request.call.id);
            }
            (Event::ApprovalSettled { approval, approved: true, .. }, ..) => {
                self.unsure.extend(self.asked.remove(approval));
            }
            (Event::ToolFinished { call, output }, ..) => {
                self.unsure.remove(call);
                self.done(|step| matches!(step, Step::CallTool { call: wanted, .. } if wanted.id == *call));
                let input = Input::ToolFinished { call: call.clone(), output: output.clone() };
                self.strategy.advance(input, &mut self.steps);
            }
            (Event::Usage(note), ..) => {
                self.calls += 1;
                self.used = self.used.saturating_add(note.tokens.total());
            }
            _ => {}
        }
    }

    fn answered(&mut self, key: NodeKey, text: String, answered: &Answered) {
        self.calls += 1;
        self.done(|step| matches!(step, Step::AskModel { node, .. } if *node == key));
        let input = match answered {
            Answered::Whole { stop, calls } => {
                self.announced.extend(calls.iter().map(|call| call.id.clone()));
                let completion = Completion { text, calls: calls.clone(), stop: *stop };
                Input::ModelAnswered { node: key, completion }
            }
            Answered::Failed(error) => Input::ModelFailed { node: key, error: error.to_string() },
        };
        self.strategy.advance(input, &mut self.steps);
    }

    fn done(&mut self, is_done: impl Fn(&Step) -> bool) {
        if let Some(index) = self.steps.iter().position(is_done) {
            self.steps.remove(index);
        }
    }
}
