//! What the log says of a run that was cut short: its strategy fed the recorded inputs again, and what is still to do.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::nodes::NodeBook;
use super::strategy::{Completion, Input, NodeKey, Step, Strategy};
use crate::event::{Answered, Envelope, Event, NodeOutcome};
use crate::id::{ApprovalId, CallId, NodeId};
use crate::model::ToolCall;

/// How often a run may be cut in one place without coming any further. Then it is given up: it may be the run itself
/// that brings the server down.
const MAX_CUTS: u32 = 16;

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
    /// Calls an earlier process may have made: asking about them again does not undo that.
    begun_before: HashSet<CallId>,
    /// Results of tools the strategy has not been told of yet. A result is on record before the strategy hears of it,
    /// while an answer is on record after; where both came at once, what follows on record shows which was heard first.
    results: VecDeque<Input>,
    /// How often each node was entered again since something last came to an end.
    cuts: BTreeMap<NodeKey, u32>,
    /// The record tells of something the strategy did not ask for.
    strayed: bool,
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
            begun_before: HashSet::new(),
            results: VecDeque::new(),
            cuts: BTreeMap::new(),
            strayed: false,
        }
    }

    /// To be called after the last record. The error says why the run cannot go on, although all of it could be read.
    pub(super) fn finish(&mut self) -> Result<(), &'static str> {
        while self.hear_result() {}
        if self.strayed {
            return Err("its agent is configured otherwise now, so it cannot go on where it stopped");
        }
        if self.cuts.values().any(|&cuts| cuts >= MAX_CUTS) {
            return Err("the server stopped again and again in the same place");
        }
        Ok(())
    }

    /// Records in the order of the log.
    pub(super) fn take(&mut self, record: &Envelope) {
        let key = record.node.and_then(|node| self.nodes.key(node));
        match (&record.event, record.node, key) {
            (Event::NodeEntered { key, name, again }, Some(node), _) => {
                self.nodes.recall_entry(*key, node, name.clone());
                if *again {
                    *self.cuts.entry(*key).or_default() += 1;
                } else {
                    self.expected(
                        |step| matches!(step, Step::Enter { node, name: wanted } if node == key && *wanted == &**name),
                    );
                }
            }
            (Event::NodeLeft(outcome), Some(node), Some(key)) => {
                self.nodes.recall_leave(key);
                self.said.remove(&node);
                if *outcome == NodeOutcome::Interrupted {
                    self.begun_before.extend(self.unsure.iter().cloned());
                } else {
                    self.expected(|step| matches!(step, Step::Leave { node, .. } if *node == key));
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
                if !self.done(|step| of_node(step) && same(step)) {
                    self.expected(of_node);
                }
            }
            (Event::ToolStarted { call, .. } | Event::ToolRequested(ToolCall { id: call, .. }), ..) => {
                self.unsure.insert(call.clone());
            }
            (Event::ApprovalWanted(request), ..) => {
                self.asked.insert(request.approval, request.call.id.clone());
                if !self.begun_before.contains(&request.call.id) {
                    self.unsure.remove(&request.call.id);
                }
            }
            (Event::ApprovalSettled { approval, approved: true, .. }, ..) => {
                self.unsure.extend(self.asked.remove(approval));
            }
            (Event::ToolFinished { call, output }, ..) => {
                self.unsure.remove(call);
                self.cuts.clear();
                self.expected(|step| matches!(step, Step::CallTool { call: wanted, .. } if wanted.id == *call));
                self.results.push_back(Input::ToolFinished { call: call.clone(), output: output.clone() });
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
        self.cuts.clear();
        self.expected(|step| matches!(step, Step::AskModel { node, .. } if *node == key));
        let input = match answered {
            Answered::Whole { stop, calls } => {
                self.announced.extend(calls.iter().map(|call| call.id.clone()));
                let completion = Completion { text, calls: calls.clone(), stop: *stop };
                Input::ModelAnswered { node: key, completion }
            }
            Answered::Failed(error) => Input::ModelFailed { node: key, error: error.to_string() },
        };
        self.advance(input);
    }

    fn advance(&mut self, input: Input) {
        // A strategy that has finished is not asked again; what still came in then changed nothing.
        if !self.steps.iter().any(|step| matches!(step, Step::Finish(_))) {
            self.strategy.advance(input, &mut self.steps);
        }
    }

    /// Tells the strategy of the next result; answers whether there was one.
    fn hear_result(&mut self) -> bool {
        let Some(result) = self.results.pop_front() else { return false };
        self.advance(result);
        true
    }

    /// Like `done`, for what only happens when the strategy asks for it, if need be after the results it has not heard
    /// of. A machine of the same brief always does; one with other limits may go another way, and then nothing that
    /// follows can be trusted.
    fn expected(&mut self, is_done: impl Fn(&Step) -> bool) {
        while !self.done(&is_done) {
            if !self.hear_result() {
                self.strayed = true;
                return;
            }
        }
    }

    /// Answers whether there was such a step to be done.
    fn done(&mut self, is_done: impl Fn(&Step) -> bool) -> bool {
        let found = self.steps.iter().position(is_done);
        if let Some(index) = found {
            self.steps.remove(index);
        }
        found.is_some()
    }
}
