//! The tree of thoughts of a `tot` run, built from its events.

use crate::output::cut;
use crate::output::one_line;

/// Maximum columns of a thought, so that scores and branches stay visible.
const THOUGHT_COLUMNS: usize = 200;
/// No real search proposes as many; further ones from a faulty server are dropped.
const MAX_THOUGHTS: usize = 2_000;

#[derive(Debug, Default)]
pub(super) struct ThoughtTree {
    nodes: Vec<ThoughtNode>,
    /// Proposed and not yet placed: their depth is known only from the state after the node.
    proposed: Option<Vec<String>>,
    /// The latest proposal's thoughts, in its order.
    latest: Vec<usize>,
    /// The followed thoughts, from the root.
    path: Vec<usize>,
    last_backtrack: Option<String>,
}

#[derive(Debug)]
struct ThoughtNode {
    text: String,
    parent: Option<usize>,
    depth: usize,
    score: Option<f32>,
    state: ThoughtState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThoughtState {
    Proposed,
    Followed,
    Abandoned,
}

impl ThoughtTree {
    pub(super) fn expanded(&mut self, candidates: &[String]) {
        self.place_proposed(None);
        self.proposed = Some(candidates.to_vec());
    }

    /// Places the proposed thoughts: one level below the path unless `depth` is given.
    pub(super) fn place_proposed(&mut self, depth: Option<usize>) {
        let Some(candidates) = self.proposed.take() else { return };
        let depth = depth.unwrap_or(self.path.len() + 1).max(1);
        let parent = self.parent_at(depth - 1);
        let first = self.nodes.len();
        let free = MAX_THOUGHTS.saturating_sub(first);
        self.nodes.extend(candidates.iter().take(free).map(|text| ThoughtNode {
            text: cut(&one_line(text), THOUGHT_COLUMNS),
            parent,
            depth,
            score: None,
            state: ThoughtState::Proposed,
        }));
        self.latest = (first..self.nodes.len()).collect();
    }

    pub(super) fn evaluated(&mut self, chosen: usize, scores: &[f32]) {
        self.place_proposed(None);
        let latest = self.latest.clone();
        for (&id, &score) in latest.iter().zip(scores) {
            if let Some(thought) = self.nodes.get_mut(id) {
                thought.score = Some(score);
            }
        }
        self.last_backtrack = None;
        if let Some(&id) = latest.get(chosen) {
            self.follow(id);
        }
    }

    /// Returns to the depth with an untried thought and follows the best of those.
    pub(super) fn backtracked(&mut self, reason: &str, to_depth: usize) {
        for id in self.path.split_off(to_depth.min(self.path.len())) {
            if let Some(thought) = self.nodes.get_mut(id) {
                thought.state = ThoughtState::Abandoned;
            }
        }
        self.last_backtrack = Some(format!("gave up at depth {}: {}", to_depth + 1, one_line(reason)));
        let parent = self.path.last().copied();
        let siblings = self.nodes.iter().enumerate().filter(|(_, thought)| {
            thought.parent == parent && thought.depth == to_depth + 1 && thought.state == ThoughtState::Proposed
        });
        if let Some(next) = best(siblings) {
            self.follow(next);
        }
    }

    /// A heading, then every thought below its parent.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec!["tree of thoughts".to_owned()];
        self.branch(None, "", &mut lines);
        lines.extend(self.last_backtrack.iter().map(|reason| format!("↩ {reason}")));
        lines
    }

    fn branch(&self, parent: Option<usize>, indent: &str, lines: &mut Vec<String>) {
        let children: Vec<(usize, &ThoughtNode)> =
            self.nodes.iter().enumerate().filter(|(_, thought)| thought.parent == parent).collect();
        for (position, (id, thought)) in children.iter().enumerate() {
            let is_last = position + 1 == children.len();
            let (fork, below) = if is_last { ("└─", "  ") } else { ("├─", "│ ") };
            let mark = match thought.state {
                ThoughtState::Proposed => ' ',
                ThoughtState::Followed => '▶',
                ThoughtState::Abandoned => '✗',
            };
            let score = thought.score.map_or_else(|| " …  ".to_owned(), |score| format!("{score:.2}"));
            lines.push(format!("{indent}{fork} {mark} {score} {}", thought.text));
            // Parents come before their children, so the recursion ends.
            self.branch(Some(*id), &format!("{indent}{below} "), lines);
        }
    }

    fn follow(&mut self, id: usize) {
        let Some(thought) = self.nodes.get_mut(id) else { return };
        thought.state = ThoughtState::Followed;
        let mut path = Vec::new();
        let mut at = Some(id);
        while let Some(id) = at {
            path.push(id);
            at = self.nodes.get(id).and_then(|thought| thought.parent);
        }
        path.reverse();
        self.path = path;
    }

    /// The thought at this depth that is expanded now: the one on the path or, if it already has children, the
    /// best-scored thought without any.
    fn parent_at(&self, depth: usize) -> Option<usize> {
        let has_children = |id: usize| self.nodes.iter().any(|thought| thought.parent == Some(id));
        let on_path = self.path.get(depth.checked_sub(1)?).copied();
        on_path.filter(|&id| !has_children(id)).or_else(|| {
            let open = self.nodes.iter().enumerate();
            best(open.filter(|(id, thought)| {
                thought.depth == depth && thought.state != ThoughtState::Abandoned && !has_children(*id)
            }))
        })
    }
}

/// The first thought with the highest score.
fn best<'a>(thoughts: impl Iterator<Item = (usize, &'a ThoughtNode)>) -> Option<usize> {
    let score = |thought: &ThoughtNode| thought.score.unwrap_or(0.0);
    let better = |best: (usize, &'a ThoughtNode), next: (usize, &'a ThoughtNode)| {
        if score(next.1) > score(best.1) { next } else { best }
    };
    thoughts.reduce(better).map(|(id, _)| id)
}

#[cfg(test)]
mod tests;
