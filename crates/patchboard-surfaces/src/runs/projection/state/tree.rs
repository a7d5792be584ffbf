//! A search through thoughts, as its state shows it: the present depth and its candidates.

use std::sync::Arc;

use serde::Serialize;

use super::finite;

#[derive(Default)]
pub(super) struct SearchTree {
    depth: u32,
    /// One for each depth of the present path; the candidates after the root are of depth 1 and come first.
    levels: Vec<TreeLevel>,
    explored_paths: Vec<Vec<u32>>,
    path_failed_reason: Option<Arc<str>>,
}

#[derive(Default)]
struct TreeLevel {
    /// How many messages there were before one of its candidates was chosen.
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
    /// Choices, depth by depth, that were given up.
    explored_paths: &'a [Vec<u32>],
    path_failed_reason: Option<&'a str>,
    suggest_backtrack: bool,
    /// Candidates of this depth that were chosen.
    tried_indices: &'a [u32],
}

impl SearchTree {
    /// Answers how many of the `messages` stay: those of the path so far.
    pub(super) fn expanded(&mut self, depth: u32, candidates: &[Arc<str>], messages: usize) -> usize {
        self.depth = depth;
        let level = usize::try_from(depth.saturating_sub(1)).unwrap_or(usize::MAX);
        let kept = self.levels.get(level).map_or(messages, |level| level.messages_before);
        self.levels.truncate(level);
        let thought = |thought: &Arc<str>| CandidateState { score: None, thought: thought.clone(), tool_calls: [] };
        let candidates = candidates.iter().map(thought).collect();
        self.levels.push(TreeLevel { messages_before: kept, candidates, ..TreeLevel::default() });
        kept
    }

    /// Answers how many of the `messages` stay: those before this choice.
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

    /// The choices after `to_depth` are taken back. Answers how many of the `messages` stay.
    pub(super) fn backtracked(&mut self, reason: &Arc<str>, to_depth: u32, messages: usize) -> usize {
        let given_up: Vec<u32> = self.levels.iter().filter_map(|level| level.chosen).collect();
        if !given_up.is_empty() && !self.explored_paths.contains(&given_up) {
            self.explored_paths.push(given_up);
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
