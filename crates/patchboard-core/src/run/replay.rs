//! What the log says of a run that was cut short: its strategy fed the recorded inputs again, and what is still to do.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::node_tracker::NodeTracker;
use super::strategy::{Completion, Strategy, StrategyInput, StrategyStep};
use crate::event::{Envelope, Event, ModelCallOutcome, NodeOutcome};
use crate::id::{ApprovalId, CallId, NodeId};
use crate::model::ToolCall;
use crate::run_spec::NodeKey;

/// How often a run may be cut in one place without coming any further. Then it is given up: it may be the run itself
/// that brings the server down.
const MAX_INTERRUPTIONS: u32 = 16;

/// A run as it stood when its process died.
#[derive(Debug)]
pub(super) struct RunReplay {
    pub(super) strategy: Box<dyn Strategy>,
    pub(super) nodes: NodeTracker,
    /// Steps that are not on record, or whose outcome is not.
    pub(super) steps: Vec<StrategyStep>,
    /// Calls that may have taken effect: begun, and nothing heard since.
    pub(super) outcome_unknown: HashSet<CallId>,
    /// Calls that stand in an answer on record.
    pub(super) announced: HashSet<CallId>,
    /// Tokens of the settled model calls.
    pub(super) used_tokens: u64,
    /// At least as many model calls as were made, so that a new number is a fresh one.
    pub(super) model_calls: u32,
    /// What the model had said in each node since its last whole answer.
    partial_text: BTreeMap<NodeId, String>,
    /// Questions to a person about a call; until one is answered with yes the call has not begun.
    open_approvals: HashMap<ApprovalId, CallId>,
    /// Calls an earlier process may have made: asking about them again does not undo that.
    possibly_executed: HashSet<CallId>,
    /// Results of tools the strategy has not been told of yet. A result is on record before the strategy hears of it,
    /// while an answer is on record after; where both came at once, what follows on record shows which was heard first.
    results: VecDeque<StrategyInput>,
    /// How often each node was entered again since something last came to an end.
    interruptions: BTreeMap<NodeKey, u32>,
    /// The record tells of something the strategy did not ask for.
    diverged: bool,
}

impl RunReplay {
    pub(super) fn new(mut strategy: Box<dyn Strategy>) -> Self {
        let mut steps = Vec::new();
        strategy.advance(StrategyInput::Begin, &mut steps);
        Self {
            strategy,
            nodes: NodeTracker::new(true),
            steps,
            outcome_unknown: HashSet::new(),
            announced: HashSet::new(),
            used_tokens: 0,
            model_calls: 0,
            partial_text: BTreeMap::new(),
            open_approvals: HashMap::new(),
            possibly_executed: HashSet::new(),
            results: VecDeque::new(),
            interruptions: BTreeMap::new(),
            diverged: false,
        }
    }

    /// To be called after the last record. The error says why the run cannot go on, although all of it could be read.
    pub(super) fn finish(&mut self) -> Result<(), &'static str> {
        while self.feed_result() {}
        if self.diverged {
            return Err("its agent is configured otherwise now, so it cannot go on where it stopped");
        }
        if self.interruptions.values().any(|&cuts| cuts >= MAX_INTERRUPTIONS) {
            return Err("the server stopped again and again in the same place");
        }
        Ok(())
    }

    /// Records in the order of the log.
    pub(super) fn apply_record(&mut self, record: &Envelope) {
        let key = record.node.and_then(|node| self.nodes.key(node));
        match (&record.event, record.node, key) {
            (Event::NodeEntered { key, name, is_reentry: again }, Some(node), _) => {
                self.nodes.replay_enter(*key, node, name.clone());
                if *again {
                    *self.interruptions.entry(*key).or_default() += 1;
                } else {
                    self.expect_step(
                        |step| matches!(step, StrategyStep::Enter { node, name: wanted } if node == key && *wanted == &**name),
                    );
                }
            }
            (Event::NodeLeft(outcome), Some(node), Some(key)) => {
                self.nodes.replay_leave(key);
                self.partial_text.remove(&node);
                if *outcome == NodeOutcome::Interrupted {
                    self.possibly_executed.extend(self.outcome_unknown.iter().cloned());
                } else {
                    self.expect_step(|step| matches!(step, StrategyStep::Leave { node, .. } if *node == key));
                }
            }
            (Event::AnswerText(pieces) | Event::DraftText(pieces), Some(node), _) => {
                self.partial_text.entry(node).or_default().push_str(pieces.text());
            }
            (Event::ModelCallEnded(answered), Some(node), Some(key)) => {
                let text = self.partial_text.remove(&node).unwrap_or_default();
                self.answered(key, text, answered);
            }
            (Event::FindingRecorded(found), _, Some(key)) => {
                let of_node = |step: &StrategyStep| matches!(step, StrategyStep::Report { node, .. } if *node == key);
                let same =
                    |step: &StrategyStep| matches!(step, StrategyStep::Report { finding, .. } if finding == found);
                if !self.take_step(|step| of_node(step) && same(step)) {
                    self.expect_step(of_node);
                }
            }
            (Event::ToolStarted { call, .. } | Event::ToolRequested(ToolCall { id: call, .. }), ..) => {
                self.outcome_unknown.insert(call.clone());
            }
            (Event::ApprovalRequested(request), ..) => {
                self.open_approvals.insert(request.approval, request.call.id.clone());
                if !self.possibly_executed.contains(&request.call.id) {
                    self.outcome_unknown.remove(&request.call.id);
                }
            }
            (Event::ApprovalResolved { approval, approved: true, .. }, ..) => {
                self.outcome_unknown.extend(self.open_approvals.remove(approval));
            }
            (Event::ToolFinished { call, output }, ..) => {
                self.outcome_unknown.remove(call);
                self.interruptions.clear();
                self.expect_step(
                    |step| matches!(step, StrategyStep::CallTool { call: wanted, .. } if wanted.id == *call),
                );
                self.results.push_back(StrategyInput::ToolFinished { call: call.clone(), output: output.clone() });
            }
            (Event::ModelUsage(note), ..) => {
                self.model_calls += 1;
                self.used_tokens = self.used_tokens.saturating_add(note.tokens.total());
            }
            _ => {}
        }
    }

    fn answered(&mut self, key: NodeKey, text: String, answered: &ModelCallOutcome) {
        self.model_calls += 1;
        self.interruptions.clear();
        self.expect_step(|step| matches!(step, StrategyStep::AskModel { node, .. } if *node == key));
        let input = match answered {
            ModelCallOutcome::Completed { stop, calls } => {
                self.announced.extend(calls.iter().map(|call| call.id.clone()));
                let completion = Completion { text, calls: calls.clone(), stop: *stop };
                StrategyInput::ModelAnswered { node: key, completion }
            }
            ModelCallOutcome::Failed(error) => StrategyInput::ModelFailed { node: key, error: error.to_string() },
        };
        self.advance(input);
    }

    fn advance(&mut self, input: StrategyInput) {
        // A strategy that has finished is not asked again; what still came in then changed nothing.
        if !self.steps.iter().any(|step| matches!(step, StrategyStep::Finish(_))) {
            self.strategy.advance(input, &mut self.steps);
        }
    }

    /// Tells the strategy of the next result; answers whether there was one.
    fn feed_result(&mut self) -> bool {
        let Some(result) = self.results.pop_front() else { return false };
        self.advance(result);
        true
    }

    /// Like `done`, for what only happens when the strategy asks for it, if need be after the results it has not heard
    /// of. A machine of the same brief always does; one with other limits may go another way, and then nothing that
    /// follows can be trusted.
    fn expect_step(&mut self, is_done: impl Fn(&StrategyStep) -> bool) {
        while !self.take_step(&is_done) {
            if !self.feed_result() {
                self.diverged = true;
                return;
            }
        }
    }

    /// Answers whether there was such a step to be done.
    fn take_step(&mut self, is_done: impl Fn(&StrategyStep) -> bool) -> bool {
        let found = self.steps.iter().position(is_done);
        if let Some(index) = found {
            self.steps.remove(index);
        }
        found.is_some()
    }
}
