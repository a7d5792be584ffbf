//! Search order: breadth first with a beam, or depth first with backtracking. Both only read the tree and return the
//! next action; model requests, tool calls and counting happen in the strategy.

use std::collections::VecDeque;

use super::tree::{ThoughtState, ThoughtTree};
use crate::run_spec::reasoning::TotOptions;

/// The next action of a search.
#[derive(Debug, PartialEq)]
pub(super) enum SearchAction {
    /// Request thoughts after this one.
    Expand(usize),
    /// Take this thought as a step of the path and run its tools.
    Follow(usize),
    /// Report that the path that ends at `from` was abandoned for another child of `to`.
    Backtrack { from: usize, to: usize, reason: String },
    /// Write the reply from the path that ends here.
    Answer(usize),
}

/// Keeps the best few thoughts of each depth.
#[derive(Debug)]
pub(super) struct BeamSearch {
    width: usize,
    depth: u32,
    /// Thoughts of the current depth still to be expanded.
    to_expand: VecDeque<usize>,
    /// Thoughts proposed by the expansions of this depth.
    proposed: Vec<usize>,
    /// The best of the proposed thoughts, still to be followed.
    to_follow: VecDeque<usize>,
    /// The best of the proposed thoughts, already followed.
    followed: Vec<usize>,
}

impl BeamSearch {
    pub(super) fn new(options: TotOptions) -> Self {
        Self {
            width: options.beam as usize,
            depth: options.depth,
            to_expand: VecDeque::from([ThoughtTree::ROOT]),
            proposed: Vec::new(),
            to_follow: VecDeque::new(),
            followed: Vec::new(),
        }
    }

    pub(super) fn expanded(&mut self, ranked: Vec<usize>) {
        self.proposed.extend(ranked);
    }

    pub(super) fn next(&mut self, tree: &mut ThoughtTree) -> SearchAction {
        if let Some(of) = self.to_follow.pop_front() {
            self.followed.push(of);
            return SearchAction::Follow(of);
        }
        if let Some(next) = self.close_level(tree) {
            return next;
        }
        if let Some(of) = self.to_expand.pop_front() {
            return SearchAction::Expand(of);
        }
        let mut ranked = tree.ranked(std::mem::take(&mut self.proposed));
        ranked.truncate(self.width);
        if ranked.is_empty() {
            return SearchAction::Answer(tree.best());
        }
        self.to_follow = ranked.into();
        self.next(tree)
    }

    /// Sorts the followed thoughts into those that end here and those to be expanded next.
    fn close_level(&mut self, tree: &mut ThoughtTree) -> Option<SearchAction> {
        let followed = std::mem::take(&mut self.followed);
        let best = followed.first().copied()?;
        for id in followed {
            let failed = tree.get(id).is_none_or(|thought| thought.state == ThoughtState::Failed);
            if tree.is_final(id) && !failed {
                tree.set_state(id, ThoughtState::Ended);
                // The best thought of its depth claims to complete the work.
                if id == best {
                    return Some(SearchAction::Answer(best));
                }
            } else if tree.depth(id) < self.depth {
                self.to_expand.push_back(id);
            } else if !failed {
                tree.set_state(id, ThoughtState::Ended);
            }
        }
        None
    }

    /// No model call is left for expansions: the thoughts proposed so far are final. Returns true if there are any.
    pub(super) fn stop_expanding(&mut self) -> bool {
        self.to_expand.clear();
        !self.proposed.is_empty()
    }
}

/// Follows the best thought as deep as it goes, and backtracks to the next best.
#[derive(Debug)]
pub(super) struct DepthFirstSearch {
    depth: u32,
    threshold: f32,
    current: usize,
    /// What to do next with the current thought.
    phase: SearchPhase,
}

#[derive(Debug)]
enum SearchPhase {
    Expand,
    /// Choose among the proposed thoughts; the text is the reason given if the current path is abandoned.
    Choose(String),
    /// Check a thought that was just followed.
    Examine,
    /// Follow this thought, after the backtracking was reported.
    Enter(usize),
    End,
}

impl DepthFirstSearch {
    pub(super) fn new(options: TotOptions) -> Self {
        Self {
            depth: options.depth,
            threshold: options.threshold,
            current: ThoughtTree::ROOT,
            phase: SearchPhase::Expand,
        }
    }

    pub(super) fn expanded(&mut self, of: usize, ranked: &[usize], tree: &ThoughtTree) {
        self.current = of;
        self.phase = match ranked.first() {
            None => SearchPhase::End,
            Some(&best) => {
                let (score, threshold) = (tree.score(best), self.threshold);
                SearchPhase::Choose(format!("the best next thought scores {score:.2}, below {threshold:.2}"))
            }
        };
    }

    /// The expansion of `of` failed, so it has no children.
    pub(super) fn expansion_failed(&mut self, of: usize, error: &str) {
        self.current = of;
        self.phase = SearchPhase::Choose(format!("the model could not go on: {error}"));
    }

    pub(super) fn next(&mut self, tree: &mut ThoughtTree) -> SearchAction {
        match std::mem::replace(&mut self.phase, SearchPhase::End) {
            SearchPhase::Expand => SearchAction::Expand(self.current),
            SearchPhase::Choose(reason) => self.choose(reason, tree),
            SearchPhase::Enter(child) => self.follow(child),
            SearchPhase::Examine => self.examine(tree),
            SearchPhase::End if self.current == ThoughtTree::ROOT => SearchAction::Answer(tree.best()),
            SearchPhase::End => SearchAction::Answer(self.current),
        }
    }

    fn follow(&mut self, child: usize) -> SearchAction {
        self.current = child;
        self.phase = SearchPhase::Examine;
        SearchAction::Follow(child)
    }

    fn examine(&mut self, tree: &mut ThoughtTree) -> SearchAction {
        let Some(thought) = tree.get(self.current) else { return SearchAction::Answer(tree.best()) };
        if thought.state == ThoughtState::Failed {
            let names: Vec<String> = thought.results.iter().map(|result| format!("`{}`", result.name)).collect();
            let reason = format!("its tools failed: {}", names.join(", "));
            return self.choose(reason, tree);
        }
        if thought.is_final || thought.depth >= self.depth {
            tree.set_state(self.current, ThoughtState::Ended);
            return SearchAction::Answer(self.current);
        }
        SearchAction::Expand(self.current)
    }

    /// The best thought above the threshold, among the children of the current thought or of its ancestors.
    fn choose(&mut self, reason: String, tree: &ThoughtTree) -> SearchAction {
        let mut from = Some(self.current);
        while let Some(of) = from {
            // A thought whose tools failed has no children, so the search continues above it.
            if let Some(child) = tree.best_untried_child(of).filter(|&child| tree.score(child) >= self.threshold) {
                if of == self.current {
                    return self.follow(child);
                }
                self.phase = SearchPhase::Enter(child);
                return SearchAction::Backtrack { from: self.current, to: of, reason };
            }
            from = tree.parent(of);
        }
        SearchAction::Answer(tree.best())
    }
}
