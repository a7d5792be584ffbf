//! The tree of thoughts of a `tot` run, as far as its events tell.

use crate::output::cut;
use crate::output::one_line;

/// Thoughts are shown up to this many columns, so that scores and branches stay in sight.
const THOUGHT_COLUMNS: usize = 200;
/// A search never proposes so many; a server that does is not believed.
const MAX_THOUGHTS: usize = 2_000;

#[derive(Debug, Default)]
pub(super) struct ThoughtTree {
    nodes: Vec<ThoughtNode>,
    /// Proposed, and not yet placed: only the state after the node says how deep.
    proposed: Option<Vec<String>>,
    /// Thoughts of the latest proposal, in its order.
    latest: Vec<usize>,
    /// From the first thought on.
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

    /// Places what was proposed: one deeper than the path unless the state says otherwise.
    pub(super) fn place_proposed(&mut self, depth: Option<usize>) {
        let Some(candidates) = self.proposed.take() else { return };
        let depth = depth.unwrap_or(self.path.len() + 1).max(1);
        let parent = self.parent_at(depth - 1);
        let first = self.nodes.len();
        let room = MAX_THOUGHTS.saturating_sub(first);
        self.nodes.extend(candidates.iter().take(room).map(|text| ThoughtNode {
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

    /// Goes back to where there is another thought to try, and on to the best of those.
    pub(super) fn backtracked(&mut self, reason: &str, to_depth: usize) {
        for id in self.path.split_off(to_depth.min(self.path.len())) {
            if let Some(thought) = self.nodes.get_mut(id) {
                thought.state = ThoughtState::Abandoned;
            }
        }
        self.last_backtrack = Some(format!("gave up at depth {}: {}", to_depth + 1, one_line(reason)));
        let parent = self.path.last().copied();
        let left = self.nodes.iter().enumerate().filter(|(_, thought)| {
            thought.parent == parent && thought.depth == to_depth + 1 && thought.state == ThoughtState::Proposed
        });
        if let Some(next) = best(left) {
            self.follow(next);
        }
    }

    /// A head, then every thought under the one it follows.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec!["tree of thoughts".to_owned()];
        self.branch(None, "", &mut lines);
        lines.extend(self.last_backtrack.iter().map(|words| format!("↩ {words}")));
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
            // Parents come before their children, so this ends.
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

    /// The thought of this depth that is gone on with now: the one on the path, or when others have been gone on with
    /// already, the best of those that have not.
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

/// The first of the best-scored.
fn best<'a>(thoughts: impl Iterator<Item = (usize, &'a ThoughtNode)>) -> Option<usize> {
    let score = |thought: &ThoughtNode| thought.score.unwrap_or(0.0);
    let better = |best: (usize, &'a ThoughtNode), next: (usize, &'a ThoughtNode)| {
        if score(next.1) > score(best.1) { next } else { best }
    };
    thoughts.reduce(better).map(|(id, _)| id)
}

#[cfg(test)]
mod tests;
