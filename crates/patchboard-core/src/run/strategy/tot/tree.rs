//! The tree of thoughts. The root is the question itself.

use std::sync::Arc;

use super::parse::ThoughtCandidate;
use crate::model::{ToolCall, ToolResult};

/// Score of a thought that was not evaluated: neither good nor bad.
pub(super) const NEUTRAL_SCORE: f32 = 0.5;

#[derive(Debug)]
pub(super) struct ThoughtTree {
    thoughts: Vec<ThoughtNode>,
}

#[derive(Debug)]
pub(super) struct ThoughtNode {
    parent: usize,
    pub(super) depth: u32,
    pub(super) text: Arc<str>,
    /// Calls the thought proposes; run when it is followed.
    pub(super) calls: Vec<ToolCall>,
    pub(super) results: Vec<ToolResult>,
    /// The model claims that the answer can be written after it.
    pub(super) is_final: bool,
    pub(super) score: f32,
    pub(super) state: ThoughtState,
}

/// How far a thought was followed, ordered from worst to best as the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ThoughtState {
    /// Not followed.
    Proposed,
    /// All its tool calls failed.
    Failed,
    /// Its children were proposed and scored.
    Expanded,
    /// Followed, but not expanded.
    Followed,
    /// A path ends here.
    Ended,
}

impl ThoughtTree {
    pub(super) const ROOT: usize = 0;

    pub(super) fn new() -> Self {
        let root = ThoughtNode {
            parent: Self::ROOT,
            depth: 0,
            text: "".into(),
            calls: Vec::new(),
            results: Vec::new(),
            is_final: false,
            score: 0.0,
            state: ThoughtState::Followed,
        };
        Self { thoughts: vec![root] }
    }

    /// Adds the candidates as children of `parent`; returns the new ids in order. Duplicates of a sibling or of a
    /// thought on the path are dropped.
    pub(super) fn add_candidates(
        &mut self,
        parent: usize,
        candidates: Vec<ThoughtCandidate>,
        breadth: usize,
    ) -> Vec<usize> {
        let depth = self.depth(parent) + 1;
        let first = self.thoughts.len();
        for candidate in candidates {
            if self.thoughts.len() - first == breadth {
                break;
            }
            let on_path = self.path(parent);
            let siblings = self.thoughts.iter().skip(first);
            if on_path.into_iter().chain(siblings).any(|thought| thought.is_duplicate_of(&candidate)) {
                continue;
            }
            let ThoughtCandidate { thought: text, calls, is_final } = candidate;
            let (results, score, state) = (Vec::new(), NEUTRAL_SCORE, ThoughtState::Proposed);
            self.thoughts.push(ThoughtNode { parent, depth, text, calls, results, is_final, score, state });
        }
        (first..self.thoughts.len()).collect()
    }

    /// Thoughts so far, with the root: the id of the next.
    pub(super) fn len(&self) -> usize {
        self.thoughts.len()
    }

    pub(super) fn get(&self, id: usize) -> Option<&ThoughtNode> {
        self.thoughts.get(id)
    }

    pub(super) fn get_mut(&mut self, id: usize) -> Option<&mut ThoughtNode> {
        self.thoughts.get_mut(id)
    }

    pub(super) fn depth(&self, id: usize) -> u32 {
        self.get(id).map_or(0, |thought| thought.depth)
    }

    pub(super) fn score(&self, id: usize) -> f32 {
        self.get(id).map_or(0.0, |thought| thought.score)
    }

    pub(super) fn is_final(&self, id: usize) -> bool {
        self.get(id).is_some_and(|thought| thought.is_final)
    }

    pub(super) fn set_state(&mut self, id: usize, state: ThoughtState) {
        if let Some(thought) = self.get_mut(id) {
            thought.state = state;
        }
    }

    pub(super) fn parent(&self, id: usize) -> Option<usize> {
        (id != Self::ROOT).then(|| self.get(id).map_or(Self::ROOT, |thought| thought.parent))
    }

    /// The thoughts from the root to `id`, `id` included and the root excluded.
    pub(super) fn path(&self, id: usize) -> Vec<&ThoughtNode> {
        let mut path = Vec::new();
        let mut at = id;
        while let (Some(parent), Some(thought)) = (self.parent(at), self.get(at)) {
            path.push(thought);
            at = parent;
        }
        path.reverse();
        path
    }

    /// Sorts by score, best first; equal scores keep the order of proposal.
    pub(super) fn ranked(&self, mut ids: Vec<usize>) -> Vec<usize> {
        ids.sort_by(|&a, &b| self.score(b).total_cmp(&self.score(a)));
        ids
    }

    /// The best-scored child of `of` that was not followed yet.
    pub(super) fn best_untried_child(&self, of: usize) -> Option<usize> {
        let children = self.thoughts.iter().enumerate().skip(1).filter(|(_, thought)| thought.parent == of);
        let untried = children.filter(|(_, thought)| thought.state == ThoughtState::Proposed).map(|(id, _)| id);
        self.ranked(untried.collect()).into_iter().next()
    }

    /// The end of the best path: among followed thoughts without followed children, by final state, then by score, then
    /// by depth. If no thought was followed, the best proposal.
    pub(super) fn best(&self) -> usize {
        let goes_on = |id: usize| {
            self.thoughts.iter().skip(1).any(|thought| thought.parent == id && thought.state != ThoughtState::Proposed)
        };
        let ends =
            self.thoughts.iter().enumerate().skip(1).filter(|(_, thought)| thought.state != ThoughtState::Proposed);
        let best = ends
            .filter(|(id, _)| !goes_on(*id))
            .map(|(id, _)| id)
            .reduce(|best, id| if self.is_better(id, best) { id } else { best });
        best.or_else(|| self.best_untried_child(Self::ROOT)).unwrap_or(Self::ROOT)
    }

    fn is_better(&self, id: usize, than: usize) -> bool {
        let (Some(a), Some(b)) = (self.get(id), self.get(than)) else { return false };
        let completes = |thought: &ThoughtNode| thought.is_final && thought.state == ThoughtState::Ended;
        let by_end = completes(a).cmp(&completes(b)).then(a.state.cmp(&b.state));
        by_end.then(a.score.total_cmp(&b.score)).then(a.depth.cmp(&b.depth)).is_gt()
    }
}

impl ThoughtNode {
    fn is_duplicate_of(&self, candidate: &ThoughtCandidate) -> bool {
        let same_words = || {
            let words = |text: &str| text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>();
            words(&self.text) == words(&candidate.thought)
        };
        let calls =
            |calls: &[ToolCall]| calls.iter().map(|call| (call.name.clone(), call.input.clone())).collect::<Vec<_>>();
        calls(&self.calls) == calls(&candidate.calls) && same_words()
    }
}
