//! Which thought comes next: breadth first with a beam, or depth first with a way back. Both only look at the tree and
//! say what they want; asking, acting and counting is done elsewhere.

use std::collections::VecDeque;

use super::tree::{State, Tree};
use crate::run::strategy::TotOptions;

/// What a search wants done next.
#[derive(Debug, PartialEq)]
pub(super) enum Move {
    /// Ask for thoughts after this one.
    Expand(usize),
    /// Take this thought as a step of the path, its tools included.
    Follow(usize),
    /// Say that a path was given up.
    Backtrack { reason: String, to_depth: u32 },
    /// Write the reply from the path that ends here.
    Answer(usize),
}

/// Keeps the best few thoughts of each depth.
#[derive(Debug)]
pub(super) struct Beam {
    width: usize,
    depth: u32,
    /// Thoughts of this depth still to be expanded.
    waiting: VecDeque<usize>,
    /// What was proposed after those that were.
    proposed: Vec<usize>,
    /// The best of it, still to be followed.
    chosen: VecDeque<usize>,
    /// The best of it, followed.
    followed: Vec<usize>,
}

impl Beam {
    pub(super) fn new(options: TotOptions) -> Self {
        Self {
            width: options.beam as usize,
            depth: options.depth,
            waiting: VecDeque::from([Tree::ROOT]),
            proposed: Vec::new(),
            chosen: VecDeque::new(),
            followed: Vec::new(),
        }
    }

    pub(super) fn expanded(&mut self, ranked: Vec<usize>) {
        self.proposed.extend(ranked);
    }

    pub(super) fn next(&mut self, tree: &mut Tree) -> Move {
        if let Some(of) = self.chosen.pop_front() {
            self.followed.push(of);
            return Move::Follow(of);
        }
        if let Some(next) = self.level_is_followed(tree) {
            return next;
        }
        if let Some(of) = self.waiting.pop_front() {
            return Move::Expand(of);
        }
        let mut ranked = tree.ranked(std::mem::take(&mut self.proposed));
        ranked.truncate(self.width);
        if ranked.is_empty() {
            return Move::Answer(tree.best());
        }
        self.chosen = ranked.into();
        self.next(tree)
    }

    /// Sorts what was followed into what ends here and what is gone on with.
    fn level_is_followed(&mut self, tree: &mut Tree) -> Option<Move> {
        let followed = std::mem::take(&mut self.followed);
        let best = followed.first().copied()?;
        for id in followed {
            let failed = tree.get(id).is_none_or(|thought| thought.state == State::Failed);
            if tree.is_final(id) && !failed {
                tree.set_state(id, State::Ended);
                // The best thought of its depth says that it completes the work.
                if id == best {
                    return Some(Move::Answer(best));
                }
            } else if tree.depth(id) < self.depth {
                self.waiting.push_back(id);
            } else if !failed {
                tree.set_state(id, State::Ended);
            }
        }
        None
    }

    /// Nothing more can be asked: what was proposed is all there is. Answers whether there is anything.
    pub(super) fn settle_for_proposed(&mut self) -> bool {
        self.waiting.clear();
        !self.proposed.is_empty()
    }
}

/// Follows the best thought as deep as it goes, and comes back for the next best.
#[derive(Debug)]
pub(super) struct DepthFirst {
    depth: u32,
    threshold: f32,
    at: usize,
    /// What has to be looked at first.
    pending: Pending,
}

#[derive(Debug)]
enum Pending {
    Expand,
    /// Choose among what was proposed; the words say why the present path would be given up.
    Choose(String),
    /// A thought was followed.
    Settle,
    /// Go there, after the way back was told.
    Enter(usize),
    End,
}

impl DepthFirst {
    pub(super) fn new(options: TotOptions) -> Self {
        Self { depth: options.depth, threshold: options.threshold, at: Tree::ROOT, pending: Pending::Expand }
    }

    pub(super) fn expanded(&mut self, of: usize, ranked: &[usize], tree: &Tree) {
        self.at = of;
        self.pending = match ranked.first() {
            None => Pending::End,
            Some(&best) => {
                let (score, threshold) = (tree.score(best), self.threshold);
                Pending::Choose(format!("the best next thought scores {score:.2}, below {threshold:.2}"))
            }
        };
    }

    /// What could follow `of` will not be known.
    pub(super) fn cut_short(&mut self, of: usize, error: &str) {
        self.at = of;
        self.pending = Pending::Choose(format!("the model could not go on: {error}"));
    }

    pub(super) fn next(&mut self, tree: &mut Tree) -> Move {
        match std::mem::replace(&mut self.pending, Pending::End) {
            Pending::Expand => Move::Expand(self.at),
            Pending::Choose(reason) => self.choose(reason, tree),
            Pending::Enter(child) => self.follow(child),
            Pending::Settle => self.settle(tree),
            Pending::End if self.at == Tree::ROOT => Move::Answer(tree.best()),
            Pending::End => Move::Answer(self.at),
        }
    }

    fn follow(&mut self, child: usize) -> Move {
        self.at = child;
        self.pending = Pending::Settle;
        Move::Follow(child)
    }

    fn settle(&mut self, tree: &mut Tree) -> Move {
        let Some(thought) = tree.get(self.at) else { return Move::Answer(tree.best()) };
        if thought.state == State::Failed {
            let names: Vec<String> = thought.results.iter().map(|result| format!("`{}`", result.name)).collect();
            let reason = format!("its tools failed: {}", names.join(", "));
            return self.choose(reason, tree);
        }
        if thought.is_final || thought.depth >= self.depth {
            tree.set_state(self.at, State::Ended);
            return Move::Answer(self.at);
        }
        Move::Expand(self.at)
    }

    /// The next best thought worth following, here or on the way up.
    fn choose(&mut self, reason: String, tree: &Tree) -> Move {
        let mut from = Some(self.at);
        while let Some(of) = from {
            // Nothing follows a thought whose tools failed.
            if let Some(child) = tree.next_child(of).filter(|&child| tree.score(child) >= self.threshold) {
                if of == self.at {
                    return self.follow(child);
                }
                self.pending = Pending::Enter(child);
                return Move::Backtrack { reason, to_depth: tree.depth(of) };
            }
            from = tree.parent(of);
        }
        Move::Answer(tree.best())
    }
}
