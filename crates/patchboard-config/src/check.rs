//! Checks the merged tree against the shape: unknown keys, types, ranges and forms. Invalid values are reported and
//! removed, so that one pass finds every problem and the rest can still be read.

mod leaf;

use super::{
    key_path::KeyPath,
    path_rules::PathRules,
    problem::{ConfigProblem, ProblemCode},
    shape::{LeafKind, SchemaEntry, ValueShape},
    tree::{ConfigNode, NodeContent},
};
use patchboard_core::text::nearest;

/// Checks the whole tree, resolves its paths, and removes invalid values.
pub(crate) fn check(tree: &mut ConfigNode, root: &SchemaEntry, rules: &PathRules) -> Vec<ConfigProblem> {
    let mut checker = TreeChecker { rules, problems: Vec::new() };
    checker.visit(tree, root, &KeyPath::default());
    checker.problems
}

struct TreeChecker<'a> {
    rules: &'a PathRules,
    problems: Vec<ConfigProblem>,
}

/// What happens to a visited value.
#[derive(PartialEq)]
enum NodeVerdict {
    Keep,
    Drop,
}

impl TreeChecker<'_> {
    fn visit(&mut self, node: &mut ConfigNode, entry: &SchemaEntry, path: &KeyPath) -> NodeVerdict {
        match &entry.shape {
            ValueShape::Leaf(leaf) => self.visit_leaf(node, leaf, path),
            ValueShape::List(item) => self.visit_list(node, item, path),
            ValueShape::Table { .. } | ValueShape::Map(_) => self.visit_table(node, entry, path),
        }
    }

    fn visit_table(&mut self, node: &mut ConfigNode, entry: &SchemaEntry, path: &KeyPath) -> NodeVerdict {
        let found = node.type_name();
        let NodeContent::Table(table) = &mut node.content else {
            let problem =
                ConfigProblem::error(ProblemCode::WrongType, path.clone(), format!("must be a table, but is {found}"))
                    .with_origin(node.origin.clone())
                    .with_hint(format!("write a section [{path}]"));
            self.problems.push(problem);
            return NodeVerdict::Drop;
        };
        let mut dropped = Vec::new();
        for (key, child) in table.iter_mut() {
            let at = path.key(key);
            let verdict = match &entry.shape {
                ValueShape::Map(value) => self.visit(child, value, &at),
                ValueShape::Table { keys, .. } => match keys.get(key) {
                    Some(known) => self.visit(child, known, &at),
                    None => {
                        let hint = unknown_key_hint(path, key, keys.names());
                        self.problems.push(
                            ConfigProblem::error(ProblemCode::UnknownKey, at, "unknown key")
                                .with_origin(child.origin.clone())
                                .with_hint(hint),
                        );
                        NodeVerdict::Drop
                    }
                },
                ValueShape::List(_) | ValueShape::Leaf(_) => NodeVerdict::Keep,
            };
            if verdict == NodeVerdict::Drop {
                dropped.push(key.clone());
            }
        }
        if let ValueShape::Table { required, keys } = &entry.shape {
            for key in required.iter().filter(|key| !table.contains_key(*key)) {
                let meaning = keys.get(key).map_or("", |known| &known.description);
                self.problems.push(
                    ConfigProblem::error(ProblemCode::MissingKey, path.key(key), "is required")
                        .with_origin(node.origin.clone())
                        .with_hint(format!("{key}: {meaning}")),
                );
            }
        }
        for key in dropped {
            table.remove(&key);
        }
        NodeVerdict::Keep
    }

    fn visit_list(&mut self, node: &mut ConfigNode, item: &SchemaEntry, path: &KeyPath) -> NodeVerdict {
        let found = node.type_name();
        let NodeContent::List(items) = &mut node.content else {
            let hint = match &item.shape {
                ValueShape::Leaf(_) => format!("write a list: {path} = [\"…\"]"),
                ValueShape::Table { .. } | ValueShape::Map(_) | ValueShape::List(_) => {
                    format!("write each element as [[{path}]]")
                }
            };
            self.problems.push(
                ConfigProblem::error(ProblemCode::WrongType, path.clone(), format!("must be a list, but is {found}"))
                    .with_origin(node.origin.clone())
                    .with_hint(hint),
            );
            return NodeVerdict::Drop;
        };
        let mut verdicts = Vec::with_capacity(items.len());
        for (index, child) in items.iter_mut().enumerate() {
            let mut verdict = self.visit(child, item, &path.index(index));
            if verdict == NodeVerdict::Drop && !item.is_leaf() {
                // An empty table keeps the index, so that later problems name the right element.
                *child = ConfigNode::table(child.origin.clone());
                verdict = NodeVerdict::Keep;
            }
            verdicts.push(verdict);
        }
        let mut verdicts = verdicts.into_iter();
        items.retain(|_| verdicts.next() != Some(NodeVerdict::Drop));
        NodeVerdict::Keep
    }

    fn visit_leaf(&mut self, node: &mut ConfigNode, leaf: &LeafKind, path: &KeyPath) -> NodeVerdict {
        match leaf::check(node, leaf, self.rules) {
            Ok(replacement) => {
                if let Some(value) = replacement {
                    node.content = NodeContent::Leaf(value);
                }
                NodeVerdict::Keep
            }
            Err(fault) => {
                let mut problem =
                    ConfigProblem::error(fault.code, path.clone(), fault.message).with_origin(node.origin.clone());
                problem.hint = fault.hint;
                self.problems.push(problem);
                NodeVerdict::Drop
            }
        }
    }
}

/// Suggests the key that was probably meant, or lists the known ones.
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
