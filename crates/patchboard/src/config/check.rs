//! Checks the merged tree against the shape: unknown keys, types, ranges and
//! forms. What is wrong is reported and taken out, so that one pass finds every
//! problem and the rest can still be read.

mod leaf;

use super::{
    key_path::KeyPath,
    nearest::nearest,
    paths::PathRules,
    problem::{Code, Problem},
    shape::{Entry, Leaf, Shape},
    tree::{Content, Node},
};

/// Checks the whole tree, resolves paths in it, and removes what is wrong.
pub(crate) fn check(tree: &mut Node, root: &Entry, rules: &PathRules) -> Vec<Problem> {
    let mut checker = Checker { rules, problems: Vec::new() };
    checker.visit(tree, root, &KeyPath::default());
    checker.problems
}

struct Checker<'a> {
    rules: &'a PathRules,
    problems: Vec<Problem>,
}

/// What becomes of a visited value.
#[derive(PartialEq)]
enum Verdict {
    Keep,
    Drop,
}

impl Checker<'_> {
    fn visit(&mut self, node: &mut Node, entry: &Entry, path: &KeyPath) -> Verdict {
        match &entry.shape {
            Shape::Leaf(leaf) => self.visit_leaf(node, leaf, path),
            Shape::List(item) => self.visit_list(node, item, path),
            Shape::Table { .. } | Shape::Map(_) => self.visit_table(node, entry, path),
        }
    }

    fn visit_table(&mut self, node: &mut Node, entry: &Entry, path: &KeyPath) -> Verdict {
        let found = node.type_name();
        let Content::Table(table) = &mut node.content else {
            let problem = Problem::error(Code::WrongType, path.clone(), format!("must be a table, but is {found}"))
                .from(node.origin.clone())
                .hint(format!("write a section [{path}]"));
            self.problems.push(problem);
            return Verdict::Drop;
        };
        let mut dropped = Vec::new();
        for (key, child) in table.iter_mut() {
            let at = path.key(key);
            let verdict = match &entry.shape {
                Shape::Map(value) => self.visit(child, value, &at),
                Shape::Table { keys, .. } => match keys.get(key) {
                    Some(known) => self.visit(child, known, &at),
                    None => {
                        let hint = unknown_key_hint(path, key, keys.names());
                        self.problems.push(
                            Problem::error(Code::UnknownKey, at, "unknown key").from(child.origin.clone()).hint(hint),
                        );
                        Verdict::Drop
                    }
                },
                Shape::List(_) | Shape::Leaf(_) => Verdict::Keep,
            };
            if verdict == Verdict::Drop {
                dropped.push(key.clone());
            }
        }
        if let Shape::Table { required, keys } = &entry.shape {
            for key in required.iter().filter(|key| !table.contains_key(*key)) {
                let meaning = keys.get(key).map_or("", |known| &known.description);
                self.problems.push(
                    Problem::error(Code::MissingKey, path.key(key), "is required")
                        .from(node.origin.clone())
                        .hint(format!("{key}: {meaning}")),
                );
            }
        }
        for key in dropped {
            table.remove(&key);
        }
        Verdict::Keep
    }

    fn visit_list(&mut self, node: &mut Node, item: &Entry, path: &KeyPath) -> Verdict {
        let found = node.type_name();
        let Content::List(items) = &mut node.content else {
            let hint = match &item.shape {
                Shape::Leaf(_) => format!("write a list: {path} = [\"…\"]"),
                Shape::Table { .. } | Shape::Map(_) | Shape::List(_) => {
                    format!("write each element as [[{path}]]")
                }
            };
            self.problems.push(
                Problem::error(Code::WrongType, path.clone(), format!("must be a list, but is {found}"))
                    .from(node.origin.clone())
                    .hint(hint),
            );
            return Verdict::Drop;
        };
        let mut verdicts = Vec::with_capacity(items.len());
        for (index, child) in items.iter_mut().enumerate() {
            let mut verdict = self.visit(child, item, &path.index(index));
            if verdict == Verdict::Drop && !item.is_leaf() {
                // An empty table holds the place, so that later problems name
                // the right element.
                *child = Node::table(child.origin.clone());
                verdict = Verdict::Keep;
            }
            verdicts.push(verdict);
        }
        let mut verdicts = verdicts.into_iter();
        items.retain(|_| verdicts.next() != Some(Verdict::Drop));
        Verdict::Keep
    }

    fn visit_leaf(&mut self, node: &mut Node, leaf: &Leaf, path: &KeyPath) -> Verdict {
        match leaf::check(node, leaf, self.rules) {
            Ok(replacement) => {
                if let Some(value) = replacement {
                    node.content = Content::Leaf(value);
                }
                Verdict::Keep
            }
            Err(fault) => {
                let mut problem = Problem::error(fault.code, path.clone(), fault.message).from(node.origin.clone());
                problem.hint = fault.hint;
                self.problems.push(problem);
                Verdict::Drop
            }
        }
    }
}

/// Says which key was probably meant, or which there are.
pub(crate) fn unknown_key_hint<'a>(
    parent: &KeyPath,
    key: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    match nearest(key, known.clone()) {
        Some(meant) => format!("did you mean `{}`?", parent.key(meant)),
        None => format!("known keys here: {}", known.collect::<Vec<_>>().join(", ")),
    }
}
