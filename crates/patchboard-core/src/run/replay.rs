//! Reconstructs an interrupted run from its log: feeds the recorded inputs to its strategy and collects the steps still
//! to be done.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::node_tracker::NodeTracker;
use super::strategy::{Completion, Strategy, StrategyInput, StrategyStep};
use crate::event::{Envelope, Event, InputAnswer, InputRequest, ModelCallOutcome, NodeOutcome};
use crate::id::{CallId, InputId, NodeId};
use crate::model::{StopReason, ToolCall};
use crate::run_spec::NodeKey;
use crate::store::{InputRow, RunRow};

/// How often a run may be interrupted in the same node without progress. Past this it is closed, because the run itself
/// may be what brings the server down.
const MAX_INTERRUPTIONS: u32 = 16;

/// The same for a chat turn, whose message may come from another service again and again.
const MAX_CHAT_INTERRUPTIONS: u32 = 1;
/// Under which the interruptions of a chat turn are counted; it has no nodes.
const CHAT_NODE: NodeKey = NodeKey(0);

/// The state of a run when its process died.
#[derive(Debug)]
pub(super) struct RunReplay {
    pub(super) strategy: Box<dyn Strategy>,
    pub(super) nodes: NodeTracker,
    /// Steps that are not recorded, or whose outcome is not.
    pub(super) steps: Vec<StrategyStep>,
    /// Calls that may have taken effect: started, with no result recorded.
    pub(super) outcome_unknown: HashSet<CallId>,
    /// Calls contained in a recorded answer.
    pub(super) announced: HashSet<CallId>,
    /// Tokens of the settled model calls.
    pub(super) used_tokens: u64,
    /// An upper bound of the model calls made, so that the next number is unused.
    pub(super) model_calls: u32,
    /// Text received in each node since its last complete answer.
    partial_text: BTreeMap<NodeId, String>,
    /// Calls whose intent is recorded and that have not started: they wait for an answer, or had one that is no consent.
    pub(super) intended: HashSet<CallId>,
    /// What calls wait for; a call has not started until it is approved.
    open_inputs: HashMap<InputId, InputRequest>,
    /// Answers on record whose calls have no result yet.
    provided: HashMap<CallId, (InputRequest, InputAnswer, Arc<str>)>,
    /// Set for a chat turn, whose log has neither nodes nor ends of model calls.
    chat: Option<ChatReplay>,
    /// Calls an earlier process may have made; asking for approval again does not undo that.
    possibly_executed: HashSet<CallId>,
    /// Tool results the strategy has not received yet. A tool result is recorded before the strategy receives it, a
    /// model answer after; where both arrived at once, the records that follow show which one the strategy received
    /// first.
    results: VecDeque<StrategyInput>,
    /// How often each node was entered again since the last completed model or tool call.
    interruptions: BTreeMap<NodeKey, u32>,
    /// The log contains an event the strategy did not ask for.
    diverged: bool,
}

/// What a chat turn received of the model's present answer.
#[derive(Debug, Default)]
struct ChatReplay {
    text: String,
    calls: Vec<ToolCall>,
    /// Followers have received a part of an answer that is not complete.
    told_partly: bool,
}

impl RunReplay {
    /// For a chat turn of a strategy with one node.
    pub(super) fn of_chat(strategy: Box<dyn Strategy>) -> Self {
        Self { chat: Some(ChatReplay::default()), nodes: NodeTracker::new(false), ..Self::new(strategy) }
    }

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
            intended: HashSet::new(),
            open_inputs: HashMap::new(),
            provided: HashMap::new(),
            chat: None,
            possibly_executed: HashSet::new(),
            results: VecDeque::new(),
            interruptions: BTreeMap::new(),
            diverged: false,
        }
    }

    /// Must be called after the last record. The error says why the run cannot be resumed although all records were
    /// readable.
    pub(super) fn finish(&mut self) -> Result<(), &'static str> {
        while self.feed_result() {}
        if self.chat.as_ref().is_some_and(|chat| chat.told_partly || !chat.text.is_empty()) {
            return Err("the server stopped during this turn");
        }
        if self.diverged {
            return Err("its agent is configured otherwise now, so it cannot go on where it stopped");
        }
        let most = if self.chat.is_some() { MAX_CHAT_INTERRUPTIONS } else { MAX_INTERRUPTIONS };
        // A run that waits for an answer may do so across any number of restarts.
        if self.open_inputs.is_empty() && self.interruptions.values().any(|&count| count >= most) {
            return Err("the server stopped again and again in the same place");
        }
        Ok(())
    }

    /// Answers of clients that are on record, for calls that have no result yet.
    pub(super) fn provided_inputs(&self, run: &RunRow) -> Vec<InputRow> {
        let rows = self.provided.values().map(|(request, answer, by)| InputRow {
            run: run.run,
            session: run.session.clone(),
            principal: run.principal.clone(),
            asked_at: run.started_at,
            request: request.clone(),
            answer: Some((answer.clone(), by.clone())),
        });
        rows.collect()
    }

    /// Applies one record; records must come in the order of the log.
    pub(super) fn apply_record(&mut self, record: &Envelope) {
        if self.chat.is_some() {
            self.apply_chat_record(&record.event);
        }
        let key = record.node.and_then(|node| self.nodes.key(node));
        match (&record.event, record.node, key) {
            (Event::NodeEntered { key, name, is_reentry }, Some(node), _) => {
                self.nodes.replay_enter(*key, node, name.clone());
                if *is_reentry {
                    *self.interruptions.entry(*key).or_default() += u32::from(self.open_inputs.is_empty());
                } else {
                    self.expect_step(
                        |step| matches!(step, StrategyStep::Enter { node, name: expected } if node == key && *expected == &**name),
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
            (Event::ModelCallEnded(outcome), Some(node), Some(key)) => {
                let text = self.partial_text.remove(&node).unwrap_or_default();
                self.apply_answer(key, text, outcome);
            }
            (Event::RunResumed, ..) => {
                let count = self.interruptions.entry(CHAT_NODE).or_default();
                *count += u32::from(self.open_inputs.is_empty());
            }
            (Event::FindingRecorded(recorded), _, Some(key)) => {
                let of_node = |step: &StrategyStep| matches!(step, StrategyStep::Report { node, .. } if *node == key);
                let is_same =
                    |step: &StrategyStep| matches!(step, StrategyStep::Report { finding, .. } if finding == recorded);
                if !self.take_step(|step| of_node(step) && is_same(step)) {
                    self.expect_step(of_node);
                }
            }
            (Event::ToolStarted { call, .. } | Event::ToolRequested(ToolCall { id: call, .. }), ..) => {
                self.outcome_unknown.insert(call.clone());
            }
            (Event::InputRequested(request), ..) => {
                let call = request.asking_call();
                if !self.possibly_executed.contains(call) {
                    self.outcome_unknown.remove(call);
                    self.intended.insert(call.clone());
                }
                self.open_inputs.insert(request.input, request.clone());
            }
            (Event::InputProvided { input, answer, by }, ..) => {
                let Some(request) = self.open_inputs.remove(input) else { return };
                self.interruptions.clear();
                let call = request.asking_call().clone();
                if answer.is_approval() {
                    self.intended.remove(&call);
                    self.outcome_unknown.insert(call);
                } else {
                    self.provided.insert(call, (request, answer.clone(), by.clone()));
                }
            }
            (Event::ToolFinished { call, output }, ..) => {
                self.outcome_unknown.remove(call);
                self.intended.remove(call);
                self.provided.remove(call);
                self.interruptions.clear();
                self.expect_step(
                    |step| matches!(step, StrategyStep::CallTool { call: expected, .. } if expected.id == *call),
                );
                self.results.push_back(StrategyInput::ToolFinished { call: call.clone(), output: output.clone() });
            }
            (Event::ModelUsage(usage), ..) => {
                self.model_calls += 1;
                self.used_tokens = self.used_tokens.saturating_add(usage.tokens.total());
            }
            _ => {}
        }
    }

    /// An answer of the model is its text and its calls up to the usage of the call. The last answer of a turn is recorded
    /// with its end, so a usage without calls belongs to a model call that was interrupted and settled.
    fn apply_chat_record(&mut self, event: &Event) {
        let Some(chat) = &mut self.chat else { return };
        if let Event::AnswerText(pieces) = event {
            chat.text.push_str(pieces.text());
        } else if let Event::ThoughtText(_) = event {
            chat.told_partly = true;
        } else if let Event::ToolRequested(call) = event {
            chat.calls.push(call.clone());
        } else if let Event::ModelUsage(_) = event {
            let ChatReplay { text, calls, .. } = std::mem::take(chat);
            if calls.is_empty() {
                chat.told_partly = !text.is_empty();
                return;
            }
            let asked = self
                .steps
                .iter()
                .find_map(|step| if let StrategyStep::AskModel { node, .. } = step { Some(*node) } else { None });
            let Some(node) = asked else {
                self.diverged = true;
                return;
            };
            self.expect_step(|step| matches!(step, StrategyStep::AskModel { node: asked, .. } if *asked == node));
            self.interruptions.clear();
            let completion = Completion { text, calls, stop: StopReason::ToolCalls };
            self.advance(StrategyInput::ModelAnswered { node, completion });
        }
    }

    fn apply_answer(&mut self, key: NodeKey, text: String, outcome: &ModelCallOutcome) {
        self.model_calls += 1;
        self.interruptions.clear();
        self.expect_step(|step| matches!(step, StrategyStep::AskModel { node, .. } if *node == key));
        let input = match outcome {
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
        // A finished strategy is not advanced again; inputs that arrived after its end changed nothing.
        if !self.steps.iter().any(|step| matches!(step, StrategyStep::Finish(_))) {
            self.strategy.advance(input, &mut self.steps);
        }
    }

    /// Feeds the next tool result to the strategy; returns false if there was none.
    fn feed_result(&mut self) -> bool {
        let Some(result) = self.results.pop_front() else { return false };
        self.advance(result);
        true
    }

    /// Like `take_step`, for events that occur only when the strategy asks for them; pending tool results are fed first
    /// if the step is missing. A strategy built from the same spec always asks for them; one with other limits may
    /// diverge, and then no later record can be trusted.
    fn expect_step(&mut self, is_done: impl Fn(&StrategyStep) -> bool) {
        while !self.take_step(&is_done) {
            if !self.feed_result() {
                self.diverged = true;
                return;
            }
        }
    }

    /// Removes the first matching step; returns false if there was none.
    fn take_step(&mut self, is_done: impl Fn(&StrategyStep) -> bool) -> bool {
        let found = self.steps.iter().position(is_done);
        if let Some(index) = found {
            self.steps.remove(index);
        }
        found.is_some()
    }
}
