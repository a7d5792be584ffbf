//! The state of a thought search: the current depth and its candidates.

use std::sync::Arc;

use serde::Serialize;

use super::finite;

#[derive(Default)]
pub(super) struct SearchTree {
    depth: u32,
    /// One per depth of the current path; the first holds the root's candidates at depth 1.
    levels: Vec<TreeLevel>,
    explored_paths: Vec<Vec<u32>>,
    path_failed_reason: Option<Arc<str>>,
}

#[derive(Default)]
struct TreeLevel {
    /// Number of messages before one of its candidates was chosen.
    messages_before: usize,
    candidates: Vec<CandidateState>,
    chosen: Option<u32>,
    tried: Vec<u32>,
}

#[derive(Serialize)]
struct CandidateState {
    score: Option<f32>,
    thought: Arc<str>,
    tool_calls: [(); 0],
}

#[derive(Serialize)]
pub(super) struct TreeView<'a> {
    candidates: &'a [CandidateState],
    chosen_index: Option<u32>,
    depth: u32,
    /// Abandoned paths, as their choices by depth.
    explored_paths: &'a [Vec<u32>],
    path_failed_reason: Option<&'a str>,
    suggest_backtrack: bool,
    /// Chosen candidates of this depth.
    tried_indices: &'a [u32],
}

impl SearchTree {
    /// Returns how many of the `messages` remain: those of the path so far.
    pub(super) fn expanded(&mut self, depth: u32, candidates: &[Arc<str>], messages: usize) -> usize {
        self.depth = depth;
        let level = usize::try_from(depth.saturating_sub(1)).unwrap_or(usize::MAX);
        let messages_before = self.levels.get(level).map_or(messages, |level| level.messages_before);
        self.levels.truncate(level);
        let thought = |thought: &Arc<str>| CandidateState { score: None, thought: thought.clone(), tool_calls: [] };
        let candidates = candidates.iter().map(thought).collect();
        self.levels.push(TreeLevel { messages_before, candidates, ..TreeLevel::default() });
        messages_before
    }

    /// Returns how many of the `messages` remain: those before this choice.
    pub(super) fn evaluated(&mut self, chosen: u32, scores: &[f32], messages: usize) -> usize {
        self.path_failed_reason = None;
        let Some(level) = self.levels.last_mut() else { return messages };
        for (candidate, &score) in level.candidates.iter_mut().zip(scores) {
            candidate.score = Some(finite(score));
        }
        level.chosen = Some(chosen);
        if !level.tried.contains(&chosen) {
            level.tried.push(chosen);
        }
        level.messages_before
    }

    pub(super) fn chosen_thought(&self) -> Option<Arc<str>> {
        let level = self.levels.last()?;
        let chosen = usize::try_from(level.chosen?).ok()?;
        level.candidates.get(chosen).map(|candidate| candidate.thought.clone())
    }

    /// Undoes the choices after `to_depth`. Returns how many of the `messages` remain.
    pub(super) fn backtracked(&mut self, reason: &Arc<str>, to_depth: u32, messages: usize) -> usize {
        let abandoned: Vec<u32> = self.levels.iter().filter_map(|level| level.chosen).collect();
        if !abandoned.is_empty() && !self.explored_paths.contains(&abandoned) {
            self.explored_paths.push(abandoned);
        }
        self.path_failed_reason = Some(reason.clone());
        self.depth = to_depth;
        let kept_levels = usize::try_from(to_depth).unwrap_or(usize::MAX);
        self.levels.truncate(kept_levels.saturating_add(1));
        match self.levels.get_mut(kept_levels) {
            Some(level) => {
                level.chosen = None;
                level.messages_before
            }
            None => messages,
        }
    }

    pub(super) fn view(&self) -> TreeView<'_> {
        let level = self.levels.last();
        TreeView {
            candidates: level.map_or(&[], |level| &level.candidates),
            chosen_index: level.and_then(|level| level.chosen),
            depth: self.depth,
            explored_paths: &self.explored_paths,
            path_failed_reason: self.path_failed_reason.as_deref(),
            suggest_backtrack: self.path_failed_reason.is_some(),
            tried_indices: level.map_or(&[], |level| &level.tried),
        }
    }
}
