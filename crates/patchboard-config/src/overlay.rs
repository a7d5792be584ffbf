//! The layers above files: environment variables and command-line flags.

use super::{
    check::unknown_key_hint,
    env::Environment,
    key_path::KeyPath,
    merge,
    origin::ValueOrigin,
    problem::{ConfigProblem, ProblemCode},
    shape::{LeafKind, SchemaEntry, ValueShape},
    tree::{ConfigNode, NodeContent},
};

/// A value set by a command-line flag.
#[derive(Clone, Debug, PartialEq)]
pub struct FlagOverride {
    /// The flag as the user wrote it, for messages: `--gateway`.
    pub flag: String,
    /// The key it sets: `gateway.listen`.
    pub path: String,
    pub value: toml::Value,
}

impl FlagOverride {
    pub fn new(flag: &str, path: &str, value: impl Into<toml::Value>) -> Self {
        Self { flag: flag.to_owned(), path: path.to_owned(), value: value.into() }
    }
}

/// Merges `PATCHBOARD__SECTION__KEY` variables into the tree.
pub(crate) fn apply_environment(
    tree: &mut ConfigNode,
    root: &SchemaEntry,
    environment: &Environment,
) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    for (name, key, value) in environment.config_variables() {
        let origin = ValueOrigin::Env(name.to_owned());
        match find_key(root, tree, key) {
            Ok((path, entry)) => {
                let value = parse_value(value, &entry.shape);
                merge::merge_override(tree, ConfigNode::nested(&path, ConfigNode::from_value(value, &origin)), root);
            }
            Err(problem) => problems.push(problem.with_origin(origin)),
        }
    }
    problems
}

/// Merges command-line flags into the tree.
pub(crate) fn apply_overrides(tree: &mut ConfigNode, root: &SchemaEntry, overrides: Vec<FlagOverride>) {
    for FlagOverride { flag, path, value } in overrides {
        let node = ConfigNode::from_value(value, &ValueOrigin::Flag(flag));
        merge::merge_override(tree, ConfigNode::nested(&KeyPath::dotted(&path), node), root);
    }
}

/// Resolves the key of a variable's name. Names chosen by the operator are compared without case with those already
/// configured; new ones are lower case.
fn find_key<'s>(
    root: &'s SchemaEntry,
    tree: &ConfigNode,
    name: &str,
) -> Result<(KeyPath, &'s SchemaEntry), ConfigProblem> {
    let mut entry = root;
    let mut path = KeyPath::default();
    for part in name.split("__") {
        let same = |known: &str| {
            let fold = |text: &str| text.to_lowercase().replace('-', "_");
            fold(known) == fold(part)
        };
        match &entry.shape {
            ValueShape::Table { keys, .. } => {
                let Some((key, child)) = keys.iter().find(|(key, _)| same(key)) else {
                    let at = path.key(&part.to_lowercase());
                    let hint = unknown_key_hint(&path, part, keys.names());
                    return Err(ConfigProblem::error(ProblemCode::UnknownKey, at, "unknown key").with_hint(hint));
                };
                path = path.key(key);
                entry = child;
            }
            ValueShape::Map(child) if !part.is_empty() => {
                let existing = match tree.get(&path).map(|node| &node.content) {
                    Some(NodeContent::Table(table)) => table.keys().find(|key| same(key)),
                    Some(NodeContent::List(_) | NodeContent::Leaf(_)) | None => None,
                };
                path = path.key(existing.unwrap_or(&part.to_lowercase()));
                entry = child;
            }
            ValueShape::Map(_) | ValueShape::List(_) | ValueShape::Leaf(_) => {
                return Err(ConfigProblem::error(
                    ProblemCode::UnknownKey,
                    path.key(&part.to_lowercase()),
                    format!("`{path}` has no keys below it"),
                )
                .with_hint("a list is set as a whole, in TOML: [\"one\", \"two\"]"));
            }
        }
    }
    Ok((path, entry))
}

/// Parses a variable's value as TOML if the key is not text, so that `8080`, `true` and `["a", "b"]` are typed; text is
/// taken verbatim, with or without quotes.
fn parse_value(raw: &str, shape: &ValueShape) -> toml::Value {
    let text = || toml::Value::String(raw.to_owned());
    let parsed = parse_toml(raw);
    match shape {
        ValueShape::Leaf(LeafKind::Variable) => text(),
        ValueShape::Leaf(leaf) if leaf.is_text() => match parsed {
            Some(quoted @ toml::Value::String(_)) => quoted,
            Some(_) | None => text(),
        },
        ValueShape::Leaf(_) | ValueShape::List(_) | ValueShape::Map(_) | ValueShape::Table { .. } => {
            parsed.unwrap_or_else(text)
        }
    }
}

fn parse_toml(raw: &str) -> Option<toml::Value> {
    let mut table: toml::Table = format!("value = {raw}").parse().ok()?;
    // A line break in the value must not inject further keys.
    (table.len() == 1).then(|| table.remove("value")).flatten()
}
