//! The layers above the files: environment variables and command-line flags.

use super::{
    Override,
    check::unknown_key_hint,
    env::Environment,
    key_path::KeyPath,
    merge,
    problem::{Code, Problem},
    shape::{Entry, Leaf, Shape},
    tree::{Content, Node, Origin},
};

/// Lays `PATCHBOARD__SECTION__KEY` variables over the tree.
pub(crate) fn apply_environment(tree: &mut Node, root: &Entry, environment: &Environment) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, key, value) in environment.config_variables() {
        let origin = Origin::Env(name.to_owned());
        match find(root, tree, key) {
            Ok((path, entry)) => {
                let value = parse_value(value, &entry.shape);
                merge::lay_over(tree, Node::at(&path, Node::from_value(value, &origin)), root);
            }
            Err(problem) => problems.push(problem.from(origin)),
        }
    }
    problems
}

/// Lays command-line flags over the tree.
pub(crate) fn apply_overrides(tree: &mut Node, root: &Entry, overrides: Vec<Override>) {
    for Override { flag, path, value } in overrides {
        let node = Node::from_value(value, &Origin::Flag(flag));
        merge::lay_over(tree, Node::at(&KeyPath::dotted(&path), node), root);
    }
}

/// Finds the key that the rest of a variable's name means. Names chosen by the
/// operator are matched with those already configured, whatever their case;
/// new ones are lower case.
fn find<'s>(root: &'s Entry, tree: &Node, name: &str) -> Result<(KeyPath, &'s Entry), Problem> {
    let mut entry = root;
    let mut path = KeyPath::default();
    for part in name.split("__") {
        let same = |known: &str| {
            let fold = |text: &str| text.to_lowercase().replace('-', "_");
            fold(known) == fold(part)
        };
        match &entry.shape {
            Shape::Table { keys, .. } => {
                let Some((key, child)) = keys.iter().find(|(key, _)| same(key)) else {
                    let at = path.key(&part.to_lowercase());
                    let hint = unknown_key_hint(&path, part, keys.names());
                    return Err(Problem::error(Code::UnknownKey, at, "unknown key").hint(hint));
                };
                path = path.key(key);
                entry = child;
            }
            Shape::Map(child) if !part.is_empty() => {
                let existing = match tree.get(&path).map(|node| &node.content) {
                    Some(Content::Table(table)) => table.keys().find(|key| same(key)),
                    Some(Content::List(_) | Content::Leaf(_)) | None => None,
                };
                path = path.key(existing.unwrap_or(&part.to_lowercase()));
                entry = child;
            }
            Shape::Map(_) | Shape::List(_) | Shape::Leaf(_) => {
                return Err(Problem::error(
                    Code::UnknownKey,
                    path.key(&part.to_lowercase()),
                    format!("`{path}` has no keys below it"),
                )
                .hint("a list is set as a whole, in TOML: [\"one\", \"two\"]"));
            }
        }
    }
    Ok((path, entry))
}

/// Reads a variable's value as TOML where the key wants anything but text, so
/// that `8080`, `true` and `["a", "b"]` mean what they say; text is taken as
/// it is, with or without quotes.
fn parse_value(raw: &str, shape: &Shape) -> toml::Value {
    let text = || toml::Value::String(raw.to_owned());
    let parsed = parse_toml(raw);
    match shape {
        Shape::Leaf(Leaf::Variable) => text(),
        Shape::Leaf(leaf) if leaf.is_text() => match parsed {
            Some(quoted @ toml::Value::String(_)) => quoted,
            Some(_) | None => text(),
        },
        Shape::Leaf(_) | Shape::List(_) | Shape::Map(_) | Shape::Table { .. } => parsed.unwrap_or_else(text),
    }
}

fn parse_toml(raw: &str) -> Option<toml::Value> {
    let mut table: toml::Table = format!("value = {raw}").parse().ok()?;
    // A line break in the value must not smuggle in further keys.
    (table.len() == 1).then(|| table.remove("value")).flatten()
}
