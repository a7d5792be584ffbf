//! Tot, a tree of thoughts (Yao et al. 2023): propose several next thoughts, have the model judge them, follow the best,
//! and write the reply from the best path found.
//!
//! Nodes: `think_expand` (one model call proposes), `think_evaluate` (one scores), `act` and `observe` (the tools of a
//! thought that is followed), `backtrack` (a path is given up), `answer` (one call writes the reply). One call is kept
//! for the answer from the beginning, so a search that leads nowhere still ends with a reply.

use std::sync::Arc;

use super::words;
use super::{Brief, Completion, Finish, Input, NodeKey, Search, Step, Strategy, ToolUse, TotOptions, Voice};
use crate::agent::StrategyKind;
use crate::id::CallId;
use crate::model::{Message, ToolResult};
use crate::run::finding::Finding;
use crate::tool::ToolOutput;
use search::{Beam, DepthFirst, Move};
use tree::{MIDDLING, State, Tree};

mod prompts;
mod read;
mod search;
mod tree;

#[derive(Debug)]
pub(super) struct Tot {
    history: Vec<Message>,
    /// The same without tool parts, for questions that offer no tools.
    history_in_words: Vec<Message>,
    user: Message,
    tag: Arc<str>,
    options: TotOptions,
    tree: Tree,
    search: Way,
    stage: Stage,
    next: NodeKey,
    asked: u32,
    max_model_calls: u32,
    turns: u32,
    max_turns: u32,
    reply: String,
}

#[derive(Debug)]
enum Way {
    Beam(Beam),
    DepthFirst(DepthFirst),
}

/// What is waited for.
#[derive(Debug)]
enum Stage {
    Expanding { of: usize },
    Evaluating { of: usize, candidates: Vec<usize> },
    Acting { node: NodeKey, of: usize, outputs: Vec<Option<ToolOutput>> },
    Answering,
    Over,
}

impl Tot {
    pub(super) fn new(brief: Brief) -> Self {
        let Brief { history, user, reasoning, tag, .. } = brief;
        let mut options = reasoning.tot;
        options.breadth = options.breadth.clamp(1, 10);
        options.depth = options.depth.max(1);
        options.beam = options.beam.max(1);
        let search = match options.search {
            Search::Beam => Way::Beam(Beam::new(options)),
            Search::DepthFirst => Way::DepthFirst(DepthFirst::new(options)),
        };
        Self {
            history_in_words: words::in_words(&history),
            history,
            user,
            tag,
            options,
            tree: Tree::new(),
            search,
            stage: Stage::Over,
            next: NodeKey(0),
            asked: 0,
            max_model_calls: reasoning.model_calls(StrategyKind::Tot),
            turns: 0,
            max_turns: reasoning.max_turns.unwrap_or(u32::MAX),
            reply: String::new(),
        }
    }

    /// Does what the search says, up to its next question or call.
    fn go_on(&mut self, steps: &mut Vec<Step>) {
        loop {
            let wanted = match &mut self.search {
                Way::Beam(beam) => beam.next(&mut self.tree),
                Way::DepthFirst(path) => path.next(&mut self.tree),
            };
            match wanted {
                Move::Expand(of) if self.may_ask() => return self.expand(of, steps),
                Move::Expand(_) => {
                    let more = match &mut self.search {
                        Way::Beam(beam) => beam.settle_for_proposed(),
                        Way::DepthFirst(_) => false,
                    };
                    if !more {
                        return self.answer(self.tree.best(), steps);
                    }
                }
                Move::Follow(of) => {
                    self.tree.set_state(of, State::Followed);
                    if self.act(of, steps) {
                        return;
                    }
                }
                Move::Backtrack { reason, to_depth } => {
                    let node = self.enter("backtrack", steps);
                    let finding = Finding::Backtracked { reason: reason.into(), to_depth };
                    steps.push(Step::Tell { node, finding });
                    steps.push(Step::Leave { node, failed: None });
                }
                Move::Answer(of) => return self.answer(of, steps),
            }
        }
    }

    /// Is there a call left besides the one for the answer?
    fn may_ask(&self) -> bool {
        self.asked.saturating_add(1) < self.max_model_calls
    }

    fn enter(&mut self, name: &'static str, steps: &mut Vec<Step>) -> NodeKey {
        let node = self.next;
        self.next = NodeKey(node.0.saturating_add(1));
        steps.push(Step::Enter { node, name });
        node
    }

    fn expand(&mut self, of: usize, steps: &mut Vec<Step>) {
        self.asked += 1;
        let node = self.enter("think_expand", steps);
        let instruction = prompts::expand(&self.tree, of, self.options.breadth, self.options.depth);
        let messages = words::ask(&self.history, &self.user, instruction);
        // Tools are offered so that the model knows them; what it wants to call it writes down.
        steps.push(Step::AskModel { node, messages, tools: ToolUse::Offered, voice: Voice::Draft });
        self.stage = Stage::Expanding { of };
    }

    fn expanded(&mut self, node: NodeKey, of: usize, completion: Completion, steps: &mut Vec<Step>) {
        let proposed = read::candidates(completion, &self.tag, node);
        let candidates = self.tree.propose(of, proposed, self.options.breadth as usize);
        let texts = candidates.iter().filter_map(|&id| self.tree.get(id)).map(|thought| thought.text.clone());
        let finding = Finding::Expanded { depth: self.tree.depth(of) + 1, candidates: texts.collect() };
        steps.push(Step::Tell { node, finding });
        steps.push(Step::Leave { node, failed: None });
        if candidates.is_empty() {
            self.tree.set_state(of, State::Ended);
            self.search_expanded(of, Vec::new());
            return self.go_on(steps);
        }
        self.tree.set_state(of, State::Expanded);
        self.evaluate(of, candidates, steps);
    }

    fn evaluate(&mut self, of: usize, candidates: Vec<usize>, steps: &mut Vec<Step>) {
        let node = self.enter("think_evaluate", steps);
        // A lone thought has no rival to be told from, and the last call is the answer's.
        if candidates.len() < 2 || !self.may_ask() {
            return self.evaluated(node, of, candidates, None, steps);
        }
        self.asked += 1;
        let instruction = prompts::evaluate(&self.tree, of, &candidates);
        let messages = words::ask(&self.history_in_words, &self.user, instruction);
        steps.push(Step::AskModel { node, messages, tools: ToolUse::Withheld, voice: Voice::Draft });
        self.stage = Stage::Evaluating { of, candidates };
    }

    fn evaluated(
        &mut self,
        node: NodeKey,
        of: usize,
        candidates: Vec<usize>,
        verdict: Option<&str>,
        steps: &mut Vec<Step>,
    ) {
        let read = verdict.and_then(|text| read::scores(text, candidates.len(), MIDDLING));
        let scores = read.unwrap_or_else(|| vec![MIDDLING; candidates.len()]);
        for (&id, &score) in candidates.iter().zip(&scores) {
            if let Some(thought) = self.tree.get_mut(id) {
                thought.score = score;
            }
        }
        let ranked = self.tree.ranked(candidates.clone());
        let best = candidates.iter().position(|id| ranked.first() == Some(id)).unwrap_or(0);
        let chosen = u32::try_from(best).unwrap_or(0);
        steps.push(Step::Tell { node, finding: Finding::Evaluated { chosen, scores } });
        steps.push(Step::Leave { node, failed: None });
        self.search_expanded(of, ranked);
        self.go_on(steps);
    }

    fn search_expanded(&mut self, of: usize, ranked: Vec<usize>) {
        match &mut self.search {
            Way::Beam(beam) => beam.expanded(ranked),
            Way::DepthFirst(path) => path.expanded(of, &ranked, &self.tree),
        }
    }

    /// Runs the thought's tools; answers whether there is something to wait for.
    fn act(&mut self, of: usize, steps: &mut Vec<Step>) -> bool {
        let calls = self.tree.get(of).map(|thought| thought.calls.clone()).unwrap_or_default();
        if calls.is_empty() {
            return false;
        }
        if self.turns >= self.max_turns {
            let refused = ToolOutput::error("not run: the run's rounds of tools are used up");
            self.observe(of, vec![Some(refused); calls.len()]);
            return false;
        }
        self.turns += 1;
        let node = self.enter("act", steps);
        self.stage = Stage::Acting { node, of, outputs: vec![None; calls.len()] };
        steps.extend(calls.into_iter().map(|call| Step::CallTool { node, call }));
        true
    }

    fn tool_finished(&mut self, call: &CallId, output: ToolOutput, steps: &mut Vec<Step>) {
        let Stage::Acting { node, of, outputs } = &mut self.stage else { return };
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
        steps.push(Step::Leave { node, failed: None });
        self.observe(of, outputs);
        let node = self.enter("observe", steps);
        steps.push(Step::Leave { node, failed: None });
        self.go_on(steps);
    }

    /// The results join the thought; later questions on its path show them.
    fn observe(&mut self, of: usize, outputs: Vec<Option<ToolOutput>>) {
        let Some(thought) = self.tree.get_mut(of) else { return };
        let results = thought.calls.iter().zip(outputs).filter_map(|(call, output)| {
            let ToolOutput { content, is_error, .. } = output?;
            Some(ToolResult { call: call.id.clone(), name: call.name.clone(), content, is_error })
        });
        thought.results = results.collect();
        if thought.results.iter().all(|result| result.is_error) {
            thought.state = State::Failed;
        }
    }

    fn answer(&mut self, of: usize, steps: &mut Vec<Step>) {
        self.asked += 1;
        let node = self.enter("answer", steps);
        let messages = words::ask(&self.history_in_words, &self.user, prompts::answer(&self.tree, of));
        steps.push(Step::AskModel { node, messages, tools: ToolUse::Withheld, voice: Voice::Reply });
        self.stage = Stage::Answering;
    }

    fn model_answered(&mut self, node: NodeKey, completion: Completion, steps: &mut Vec<Step>) {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Expanding { of } => self.expanded(node, of, completion, steps),
            Stage::Evaluating { of, candidates } => {
                self.evaluated(node, of, candidates, Some(&completion.text), steps);
            }
            Stage::Answering => {
                self.reply = completion.text;
                steps.push(Step::Leave { node, failed: None });
                steps.push(Step::Finish(Finish::Completed));
            }
            stage @ (Stage::Acting { .. } | Stage::Over) => self.stage = stage,
        }
    }

    fn model_failed(&mut self, node: NodeKey, error: String, steps: &mut Vec<Step>) {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            // A path that cannot be gone on with is one path less; what was found on it stays.
            Stage::Expanding { of } if of != Tree::ROOT => {
                steps.push(Step::Leave { node, failed: None });
                if let Way::DepthFirst(path) = &mut self.search {
                    path.cut_short(of, &error);
                }
                self.go_on(steps);
            }
            Stage::Evaluating { of, candidates } => self.evaluated(node, of, candidates, None, steps),
            Stage::Expanding { .. } | Stage::Answering => {
                steps.push(Step::Leave { node, failed: Some(error.clone()) });
                steps.push(Step::Finish(Finish::Failed(error)));
            }
            stage @ (Stage::Acting { .. } | Stage::Over) => self.stage = stage,
        }
    }
}

impl Strategy for Tot {
    fn advance(&mut self, input: Input, steps: &mut Vec<Step>) {
        match input {
            Input::Begin => self.go_on(steps),
            Input::ModelAnswered { node, completion } => self.model_answered(node, completion, steps),
            Input::ModelFailed { node, error } => self.model_failed(node, error, steps),
            Input::ToolFinished { call, output } => self.tool_finished(&call, output, steps),
        }
    }

    fn transcript(&self) -> Vec<Message> {
        words::remembered(&self.user, &self.reply)
    }
}

#[cfg(test)]
mod tests;
