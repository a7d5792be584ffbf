//! Tot, a tree of thoughts (Yao et al. 2023): propose several next thoughts, have the model score them, follow the
//! best, and write the reply from the best path.
//!
//! Nodes: `think_expand` (one model call proposes), `think_evaluate` (one scores), `act` and `observe` (the tools of a
//! thought that is followed), `backtrack` (a path is abandoned), `answer` (one call writes the reply). One call is
//! reserved for the answer from the beginning, so that a search without success still ends with a reply.

use std::sync::Arc;

use super::prompt_text;
use super::{
    AnswerKind, Completion, Strategy, StrategyInput, StrategyOutcome, StrategySpec, StrategyStep, ToolAvailability,
};
use crate::id::CallId;
use crate::model::{ModelMessage, ToolResult};
use crate::run_spec::NodeKey;
use crate::run_spec::StrategyKind;
use crate::run_spec::finding::{StrategyFinding, ThoughtId};
use crate::run_spec::reasoning::{SearchMethod, TotOptions};
use crate::tool::ToolOutput;
use search::{BeamSearch, DepthFirstSearch, SearchAction};
use tree::{NEUTRAL_SCORE, ThoughtState, ThoughtTree};

mod parse;
mod prompts;
mod search;
mod tree;

#[derive(Debug)]
pub(super) struct Tot {
    history: Vec<ModelMessage>,
    /// The history without tool parts, for requests that offer no tools.
    history_as_text: Vec<ModelMessage>,
    user: ModelMessage,
    tag: Arc<str>,
    options: TotOptions,
    tree: ThoughtTree,
    search: TreeSearch,
    phase: TotPhase,
    next_node: NodeKey,
    /// Thoughts followed since the last node was entered; the next one reports them.
    followed: Vec<ThoughtId>,
    model_calls: u32,
    max_model_calls: u32,
    tool_rounds: u32,
    max_tool_rounds: u32,
    reply: String,
}

#[derive(Debug)]
enum TreeSearch {
    Beam(BeamSearch),
    DepthFirst(DepthFirstSearch),
}

/// What the strategy is waiting for.
#[derive(Debug)]
enum TotPhase {
    Expanding { of: usize },
    Evaluating { of: usize, candidates: Vec<usize> },
    Acting { node: NodeKey, of: usize, outputs: Vec<Option<ToolOutput>> },
    Answering,
    Finished,
}

impl Tot {
    pub(super) fn new(spec: StrategySpec) -> Self {
        let StrategySpec { history, user, reasoning, tag, .. } = spec;
        let mut options = reasoning.tot;
        options.breadth = options.breadth.clamp(1, 10);
        options.depth = options.depth.max(1);
        options.beam = options.beam.max(1);
        let search = match options.search {
            SearchMethod::Beam => TreeSearch::Beam(BeamSearch::new(options)),
            SearchMethod::DepthFirst => TreeSearch::DepthFirst(DepthFirstSearch::new(options)),
        };
        Self {
            history_as_text: prompt_text::tool_parts_as_text(&history),
            history,
            user,
            tag,
            options,
            tree: ThoughtTree::new(),
            search,
            phase: TotPhase::Finished,
            next_node: NodeKey(0),
            followed: Vec::new(),
            model_calls: 0,
            max_model_calls: reasoning.model_calls(StrategyKind::Tot),
            tool_rounds: 0,
            max_tool_rounds: reasoning.max_turns.unwrap_or(u32::MAX),
            reply: String::new(),
        }
    }

    /// Executes the actions of the search up to its next model request or tool call.
    fn advance_search(&mut self, steps: &mut Vec<StrategyStep>) {
        loop {
            let action = match &mut self.search {
                TreeSearch::Beam(beam) => beam.next(&mut self.tree),
                TreeSearch::DepthFirst(path) => path.next(&mut self.tree),
            };
            match action {
                SearchAction::Expand(of) if self.has_call_left() => return self.expand(of, steps),
                SearchAction::Expand(_) => {
                    // Out of calls: a beam still follows the best proposals so far; depth first answers at once.
                    let has_proposals = match &mut self.search {
                        TreeSearch::Beam(beam) => beam.stop_expanding(),
                        TreeSearch::DepthFirst(_) => false,
                    };
                    if !has_proposals {
                        return self.answer(self.tree.best(), steps);
                    }
                }
                SearchAction::Follow(of) => {
                    self.tree.set_state(of, ThoughtState::Followed);
                    self.followed.push(thought_id(of));
                    if self.act(of, steps) {
                        return;
                    }
                }
                SearchAction::Backtrack { from, to, reason } => {
                    let node = self.enter("backtrack", steps);
                    let finding = StrategyFinding::Backtracked {
                        from: thought_id(from),
                        to: thought_id(to),
                        reason: reason.into(),
                        to_depth: self.tree.depth(to),
                    };
                    steps.push(StrategyStep::Report { node, finding });
                    steps.push(StrategyStep::Leave { node, failed: None });
                }
                SearchAction::Answer(of) => return self.answer(of, steps),
            }
        }
    }

    /// Is there a call left besides the one reserved for the answer?
    fn has_call_left(&self) -> bool {
        self.model_calls.saturating_add(1) < self.max_model_calls
    }

    fn enter(&mut self, name: &'static str, steps: &mut Vec<StrategyStep>) -> NodeKey {
        let node = self.next_node;
        self.next_node = NodeKey(node.0.saturating_add(1));
        steps.push(StrategyStep::Enter { node, name });
        for thought in self.followed.drain(..) {
            steps.push(StrategyStep::Report { node, finding: StrategyFinding::Followed { thought } });
        }
        node
    }

    fn expand(&mut self, of: usize, steps: &mut Vec<StrategyStep>) {
        self.model_calls += 1;
        let node = self.enter("think_expand", steps);
        let instruction = prompts::expand(&self.tree, of, self.options.breadth, self.options.depth);
        let messages = prompt_text::with_instruction(&self.history, &self.user, instruction);
        // Tools are offered so that the model knows their schemas; it writes the calls it wants into the candidates.
        steps.push(StrategyStep::AskModel {
            node,
            messages,
            tools: ToolAvailability::Offered,
            answer_kind: AnswerKind::Draft,
        });
        self.phase = TotPhase::Expanding { of };
    }

    fn expanded(&mut self, node: NodeKey, of: usize, completion: Completion, steps: &mut Vec<StrategyStep>) {
        let proposed = parse::candidates(completion, &self.tag, node);
        let first = thought_id(self.tree.len());
        let candidates = self.tree.add_candidates(of, proposed, self.options.breadth as usize);
        let texts = candidates.iter().filter_map(|&id| self.tree.get(id)).map(|thought| thought.text.clone());
        let finding = StrategyFinding::Expanded {
            of: thought_id(of),
            first,
            depth: self.tree.depth(of) + 1,
            candidates: texts.collect(),
        };
        steps.push(StrategyStep::Report { node, finding });
        steps.push(StrategyStep::Leave { node, failed: None });
        if candidates.is_empty() {
            self.tree.set_state(of, ThoughtState::Ended);
            self.report_expansion(of, Vec::new());
            return self.advance_search(steps);
        }
        self.tree.set_state(of, ThoughtState::Expanded);
        self.evaluate(of, candidates, steps);
    }

    fn evaluate(&mut self, of: usize, candidates: Vec<usize>, steps: &mut Vec<StrategyStep>) {
        let node = self.enter("think_evaluate", steps);
        // A single thought needs no comparison, and the last call is reserved for the answer.
        if candidates.len() < 2 || !self.has_call_left() {
            return self.evaluated(node, of, candidates, None, steps);
        }
        self.model_calls += 1;
        let instruction = prompts::evaluate(&self.tree, of, &candidates);
        let messages = prompt_text::with_instruction(&self.history_as_text, &self.user, instruction);
        steps.push(StrategyStep::AskModel {
            node,
            messages,
            tools: ToolAvailability::Withheld,
            answer_kind: AnswerKind::Draft,
        });
        self.phase = TotPhase::Evaluating { of, candidates };
    }

    fn evaluated(
        &mut self,
        node: NodeKey,
        of: usize,
        candidates: Vec<usize>,
        evaluation: Option<&str>,
        steps: &mut Vec<StrategyStep>,
    ) {
        let parsed = evaluation.and_then(|text| parse::scores(text, candidates.len(), NEUTRAL_SCORE));
        let scores = parsed.unwrap_or_else(|| vec![NEUTRAL_SCORE; candidates.len()]);
        for (&id, &score) in candidates.iter().zip(&scores) {
            if let Some(thought) = self.tree.get_mut(id) {
                thought.score = score;
            }
        }
        let ranked = self.tree.ranked(candidates.clone());
        let best = candidates.iter().position(|id| ranked.first() == Some(id)).unwrap_or(0);
        let chosen = u32::try_from(best).unwrap_or(0);
        let first = thought_id(candidates.first().copied().unwrap_or(of));
        let finding = StrategyFinding::Evaluated { of: thought_id(of), first, chosen, scores };
        steps.push(StrategyStep::Report { node, finding });
        steps.push(StrategyStep::Leave { node, failed: None });
        self.report_expansion(of, ranked);
        self.advance_search(steps);
    }

    fn report_expansion(&mut self, of: usize, ranked: Vec<usize>) {
        match &mut self.search {
            TreeSearch::Beam(beam) => beam.expanded(ranked),
            TreeSearch::DepthFirst(path) => path.expanded(of, &ranked, &self.tree),
        }
    }

    /// Runs the thought's tools; returns true if there are results to wait for.
    fn act(&mut self, of: usize, steps: &mut Vec<StrategyStep>) -> bool {
        let calls = self.tree.get(of).map(|thought| thought.calls.clone()).unwrap_or_default();
        if calls.is_empty() {
            return false;
        }
        if self.tool_rounds >= self.max_tool_rounds {
            let refused = ToolOutput::error("not run: the run's rounds of tools are used up");
            self.observe(of, vec![Some(refused); calls.len()]);
            return false;
        }
        self.tool_rounds += 1;
        let node = self.enter("act", steps);
        self.phase = TotPhase::Acting { node, of, outputs: vec![None; calls.len()] };
        steps.extend(calls.into_iter().map(|call| StrategyStep::CallTool { node, call }));
        true
    }

    fn tool_finished(&mut self, call: &CallId, output: ToolOutput, steps: &mut Vec<StrategyStep>) {
        let TotPhase::Acting { node, of, outputs } = &mut self.phase else { return };
        let (node, of) = (*node, *of);
        let calls = self.tree.get(of).map(|thought| thought.calls.as_slice()).unwrap_or_default();
        let mut slots = calls.iter().zip(outputs.iter_mut());
        if let Some((_, slot)) = slots.find(|(open, slot)| open.id == *call && slot.is_none()) {
            *slot = Some(output);
        }
        if outputs.iter().any(Option::is_none) {
            return;
        }
        let outputs = std::mem::take(outputs);
        steps.push(StrategyStep::Leave { node, failed: None });
        self.observe(of, outputs);
        let node = self.enter("observe", steps);
        steps.push(StrategyStep::Leave { node, failed: None });
        self.advance_search(steps);
    }

    /// Stores the results with the thought; later requests about its path include them.
    fn observe(&mut self, of: usize, outputs: Vec<Option<ToolOutput>>) {
        let Some(thought) = self.tree.get_mut(of) else { return };
        let results = thought.calls.iter().zip(outputs).filter_map(|(call, output)| {
            let ToolOutput { content, is_error, .. } = output?;
            Some(ToolResult { call: call.id.clone(), name: call.name.clone(), content, is_error })
        });
        thought.results = results.collect();
        if thought.results.iter().all(|result| result.is_error) {
            thought.state = ThoughtState::Failed;
        }
    }

    fn answer(&mut self, of: usize, steps: &mut Vec<StrategyStep>) {
        self.model_calls += 1;
        let node = self.enter("answer", steps);
        let messages =
            prompt_text::with_instruction(&self.history_as_text, &self.user, prompts::answer(&self.tree, of));
        steps.push(StrategyStep::AskModel {
            node,
            messages,
            tools: ToolAvailability::Withheld,
            answer_kind: AnswerKind::Reply,
        });
        self.phase = TotPhase::Answering;
    }

    fn model_answered(&mut self, node: NodeKey, completion: Completion, steps: &mut Vec<StrategyStep>) {
        match std::mem::replace(&mut self.phase, TotPhase::Finished) {
            TotPhase::Expanding { of } => self.expanded(node, of, completion, steps),
            TotPhase::Evaluating { of, candidates } => {
                self.evaluated(node, of, candidates, Some(&completion.text), steps);
            }
            TotPhase::Answering => {
                self.reply = completion.text;
                steps.push(StrategyStep::Leave { node, failed: None });
                steps.push(StrategyStep::Finish(StrategyOutcome::Completed));
            }
            phase @ (TotPhase::Acting { .. } | TotPhase::Finished) => self.phase = phase,
        }
    }

    fn model_failed(&mut self, node: NodeKey, error: String, steps: &mut Vec<StrategyStep>) {
        match std::mem::replace(&mut self.phase, TotPhase::Finished) {
            // A failed expansion only ends this path; what was found on it is kept.
            TotPhase::Expanding { of } if of != ThoughtTree::ROOT => {
                steps.push(StrategyStep::Leave { node, failed: None });
                if let TreeSearch::DepthFirst(path) = &mut self.search {
                    path.expansion_failed(of, &error);
                }
                self.advance_search(steps);
            }
            TotPhase::Evaluating { of, candidates } => self.evaluated(node, of, candidates, None, steps),
            TotPhase::Expanding { .. } | TotPhase::Answering => {
                steps.push(StrategyStep::Leave { node, failed: Some(error.clone()) });
                steps.push(StrategyStep::Finish(StrategyOutcome::Failed(error)));
            }
            phase @ (TotPhase::Acting { .. } | TotPhase::Finished) => self.phase = phase,
        }
    }
}

impl Strategy for Tot {
    fn advance(&mut self, input: StrategyInput, steps: &mut Vec<StrategyStep>) {
        match input {
            StrategyInput::Begin => self.advance_search(steps),
            StrategyInput::ModelAnswered { node, completion } => self.model_answered(node, completion, steps),
            StrategyInput::ModelFailed { node, error } => self.model_failed(node, error, steps),
            StrategyInput::ToolFinished { call, output } => self.tool_finished(&call, output, steps),
        }
    }

    fn transcript(&self) -> Vec<ModelMessage> {
        prompt_text::user_and_reply(&self.user, &self.reply)
    }
}

fn thought_id(id: usize) -> ThoughtId {
    ThoughtId(u32::try_from(id).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
