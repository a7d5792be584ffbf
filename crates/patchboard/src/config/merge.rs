//! How a layer is laid over those below it: key by key, lists of named tables by name, all other lists as a whole.
//!
//! Between files there is one more rule: an address of one file never meets a secret of another.

use std::collections::BTreeMap;

use super::{
    key_path::KeyPath,
    shape::{Entry, Leaf, Shape},
    tree::{Content, Node, Origin},
};

/// The key that switches a named thing off.
const ENABLED: &str = "enabled";
/// The key that elements of a list are known by.
const NAME: &str = "name";
/// A provider is taken as a whole from the last file that names it.
const PROVIDERS: &str = "providers";

/// Lays what another file says over `tree`.
pub(crate) fn lay_file(tree: &mut Node, over: Node, root: &Entry) {
    if let (Content::Table(below), Content::Table(above)) = (&mut tree.content, &over.content)
        && let Some(Node { content: Content::Table(named), .. }) = above.get(PROVIDERS)
        && let Some(Node { content: Content::Table(providers), .. }) = below.get_mut(PROVIDERS)
    {
        providers.retain(|name, _| !named.contains_key(name));
    }
    Merge { between: Between::Files }.lay(tree, over, Some(root));
}

/// Lays single keys over `tree`, as variables and flags set them.
pub(crate) fn lay_over(tree: &mut Node, over: Node, root: &Entry) {
    Merge { between: Between::Layers }.lay(tree, over, Some(root));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    Files,
    Layers,
}

struct Merge {
    between: Between,
}

impl Merge {
    /// `entry` is what belongs there; `None` below a key that nobody knows, which is complained about later.
    fn lay(&self, base: &mut Node, over: Node, entry: Option<&Entry>) {
        let shape = entry.map(|entry| &entry.shape);
        match (&mut base.content, over.content) {
            (Content::Table(base), Content::Table(over)) => self.lay_table(base, over, shape),
            (Content::List(base), Content::List(over)) if is_named_list(shape) => self.lay_list(base, over, shape),
            (content, over_content) => {
                *content = over_content;
                base.origin = over.origin;
            }
        }
    }

    fn lay_table(&self, base: &mut BTreeMap<String, Node>, over: BTreeMap<String, Node>, shape: Option<&Shape>) {
        if self.between == Between::Files {
            drop_secrets(base, &over, shape);
        }
        for (key, node) in over {
            let entry = shape.and_then(|shape| match shape {
                Shape::Table { keys, .. } => keys.get(&key),
                Shape::Map(value) => Some(&**value),
                Shape::List(_) | Shape::Leaf(_) => None,
            });
            match base.get_mut(&key) {
                Some(existing) => self.lay(existing, node, entry),
                None => {
                    base.insert(key, node);
                }
            }
        }
    }

    fn lay_list(&self, base: &mut Vec<Node>, over: Vec<Node>, shape: Option<&Shape>) {
        let item = match shape {
            Some(Shape::List(item)) => Some(&**item),
            Some(Shape::Table { .. } | Shape::Map(_) | Shape::Leaf(_)) | None => None,
        };
        // One name twice in one layer is a mistake that must stay visible, so each inherited element is met once.
        let mut inherited: Vec<usize> = (0..base.len()).collect();
        for node in over {
            let met = name_of(&node)
                .and_then(|name| inherited.iter().position(|index| base.get(*index).and_then(name_of) == Some(name)));
            match met.map(|met| inherited.remove(met)).and_then(|index| base.get_mut(index)) {
                Some(existing) => self.lay(existing, node, item),
                None => base.push(node),
            }
        }
    }
}

/// Whether elements of this list have names.
fn is_named_list(shape: Option<&Shape>) -> bool {
    let Some(Shape::List(item)) = shape else { return false };
    matches!(&item.shape, Shape::Table { keys, .. } if keys.get(NAME).is_some())
}

fn name_of(node: &Node) -> Option<&str> {
    let Content::Table(table) = &node.content else { return None };
    match &table.get(NAME)?.content {
        Content::Leaf(toml::Value::String(name)) => Some(name),
        Content::Leaf(_) | Content::List(_) | Content::Table(_) => None,
    }
}

/// Where a file says another address, secrets that an earlier file meant for the old one are dropped.
fn drop_secrets(base: &mut BTreeMap<String, Node>, over: &BTreeMap<String, Node>, shape: Option<&Shape>) {
    let Some(Shape::Table { keys, .. }) = shape else { return };
    let is_url = |key: &str| matches!(keys.get(key), Some(Entry { shape: Shape::Leaf(Leaf::Url), .. }));
    if over.keys().any(|key| is_url(key)) {
        base.retain(|key, _| !matches!(keys.get(key), Some(Entry { shape: Shape::Leaf(Leaf::Secret), .. })));
    }
}

/// Something named that is switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwitchedOff {
    /// The section it would be in.
    pub section: String,
    pub name: String,
    pub origin: Origin,
}

/// Takes out what is switched off, wherever a table has a key for that.
pub(crate) fn take_out_disabled(tree: &mut Node, root: &Entry) -> Vec<SwitchedOff> {
    let mut found = Vec::new();
    let (Content::Table(tree), Shape::Table { keys, .. }) = (&mut tree.content, &root.shape) else { return found };
    for (section, node) in tree {
        let Some(entry) = keys.get(section) else { continue };
        let off = |name: &str, node: &Node| {
            let origin = disabled(node)?;
            Some(SwitchedOff { section: section.clone(), name: name.to_owned(), origin })
        };
        match (&entry.shape, &mut node.content) {
            (Shape::List(item), Content::List(items)) if has_switch(item) => {
                found.extend(items.iter().filter_map(|item| off(name_of(item)?, item)));
                items.retain(|item| name_of(item).is_none() || disabled(item).is_none());
            }
            (Shape::Map(item), Content::Table(items)) if has_switch(item) => {
                found.extend(items.iter().filter_map(|(name, item)| off(name, item)));
                items.retain(|_, item| disabled(item).is_none());
            }
            _ => {}
        }
    }
    found
}

fn has_switch(item: &Entry) -> bool {
    matches!(&item.shape, Shape::Table { keys, .. } if keys.get(ENABLED).is_some())
}

/// Where it was switched off, if it was.
fn disabled(node: &Node) -> Option<Origin> {
    let switch = node.get(&KeyPath::dotted(ENABLED))?;
    (switch.content == Content::Leaf(toml::Value::Boolean(false))).then(|| switch.origin.clone())
}
