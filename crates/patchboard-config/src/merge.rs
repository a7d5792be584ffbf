//! Merges layers: key by key, lists of named tables by name, all other lists replaced as a whole.
//!
//! One more rule applies between files: an address from one file is never combined with a secret from another.

use std::collections::BTreeMap;

use super::{
    key_path::KeyPath,
    origin::ValueOrigin,
    shape::{LeafKind, SchemaEntry, ValueShape},
    tree::{ConfigNode, NodeContent},
};

/// The key that disables a named entry.
const ENABLED_KEY: &str = "enabled";
/// The key by which elements of a list are identified.
const NAME_KEY: &str = "name";
/// A provider is taken as a whole from the last file that names it.
const PROVIDERS: &str = "providers";

/// Merges the next file into `tree`.
pub(crate) fn merge_file(tree: &mut ConfigNode, over: ConfigNode, root: &SchemaEntry) {
    if let (NodeContent::Table(below), NodeContent::Table(above)) = (&mut tree.content, &over.content)
        && let Some(ConfigNode { content: NodeContent::Table(named), .. }) = above.get(PROVIDERS)
        && let Some(ConfigNode { content: NodeContent::Table(providers), .. }) = below.get_mut(PROVIDERS)
    {
        providers.retain(|name, _| !named.contains_key(name));
    }
    LayerMerger { scope: MergeScope::Files }.merge_node(tree, over, Some(root));
}

/// Merges single keys into `tree`, as set by variables and flags.
pub(crate) fn merge_override(tree: &mut ConfigNode, over: ConfigNode, root: &SchemaEntry) {
    LayerMerger { scope: MergeScope::Layers }.merge_node(tree, over, Some(root));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MergeScope {
    Files,
    Layers,
}

struct LayerMerger {
    scope: MergeScope,
}

impl LayerMerger {
    /// `entry` is the schema at this position; `None` below an unknown key, which is reported later.
    fn merge_node(&self, base: &mut ConfigNode, over: ConfigNode, entry: Option<&SchemaEntry>) {
        let shape = entry.map(|entry| &entry.shape);
        match (&mut base.content, over.content) {
            (NodeContent::Table(base), NodeContent::Table(over)) => self.merge_table(base, over, shape),
            (NodeContent::List(base), NodeContent::List(over)) if is_named_list(shape) => {
                self.merge_list(base, over, shape);
            }
            (content, over_content) => {
                *content = over_content;
                base.origin = over.origin;
            }
        }
    }

    fn merge_table(
        &self,
        base: &mut BTreeMap<String, ConfigNode>,
        over: BTreeMap<String, ConfigNode>,
        shape: Option<&ValueShape>,
    ) {
        if self.scope == MergeScope::Files {
            drop_secrets_of_other_address(base, &over, shape);
        }
        for (key, node) in over {
            let entry = shape.and_then(|shape| match shape {
                ValueShape::Table { keys, .. } => keys.get(&key),
                ValueShape::Map(value) => Some(&**value),
                ValueShape::List(_) | ValueShape::Leaf(_) => None,
            });
            match base.get_mut(&key) {
                Some(existing) => self.merge_node(existing, node, entry),
                None => {
                    base.insert(key, node);
                }
            }
        }
    }

    fn merge_list(&self, base: &mut Vec<ConfigNode>, over: Vec<ConfigNode>, shape: Option<&ValueShape>) {
        let item = match shape {
            Some(ValueShape::List(item)) => Some(&**item),
            Some(ValueShape::Table { .. } | ValueShape::Map(_) | ValueShape::Leaf(_)) | None => None,
        };
        // Each inherited element is matched only once, so that a name used twice in one layer stays visible as an
        // error.
        let mut inherited: Vec<usize> = (0..base.len()).collect();
        for node in over {
            let met = name_of(&node)
                .and_then(|name| inherited.iter().position(|index| base.get(*index).and_then(name_of) == Some(name)));
            match met.map(|met| inherited.remove(met)).and_then(|index| base.get_mut(index)) {
                Some(existing) => self.merge_node(existing, node, item),
                None => base.push(node),
            }
        }
    }
}

/// Whether the elements of this list have names.
fn is_named_list(shape: Option<&ValueShape>) -> bool {
    let Some(ValueShape::List(item)) = shape else { return false };
    matches!(&item.shape, ValueShape::Table { keys, .. } if keys.get(NAME_KEY).is_some())
}

fn name_of(node: &ConfigNode) -> Option<&str> {
    let NodeContent::Table(table) = &node.content else { return None };
    match &table.get(NAME_KEY)?.content {
        NodeContent::Leaf(toml::Value::String(name)) => Some(name),
        NodeContent::Leaf(_) | NodeContent::List(_) | NodeContent::Table(_) => None,
    }
}

/// If a file sets another address, drops the secrets that an earlier file set for the old one.
fn drop_secrets_of_other_address(
    base: &mut BTreeMap<String, ConfigNode>,
    over: &BTreeMap<String, ConfigNode>,
    shape: Option<&ValueShape>,
) {
    let Some(ValueShape::Table { keys, .. }) = shape else { return };
    let is_url = |key: &str| matches!(keys.get(key), Some(SchemaEntry { shape: ValueShape::Leaf(LeafKind::Url), .. }));
    if over.keys().any(|key| is_url(key)) {
        base.retain(|key, _| {
            !matches!(keys.get(key), Some(SchemaEntry { shape: ValueShape::Leaf(LeafKind::Secret), .. }))
        });
    }
}

/// A named entry that is disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DisabledEntry {
    /// The section that would contain it.
    pub section: String,
    pub name: String,
    pub origin: ValueOrigin,
}

/// Removes disabled entries from all tables that have an `enabled` key.
pub(crate) fn remove_disabled(tree: &mut ConfigNode, root: &SchemaEntry) -> Vec<DisabledEntry> {
    let mut found = Vec::new();
    let (NodeContent::Table(tree), ValueShape::Table { keys, .. }) = (&mut tree.content, &root.shape) else {
        return found;
    };
    for (section, node) in tree {
        let Some(entry) = keys.get(section) else { continue };
        let off = |name: &str, node: &ConfigNode| {
            let origin = disabled_origin(node)?;
            Some(DisabledEntry { section: section.clone(), name: name.to_owned(), origin })
        };
        match (&entry.shape, &mut node.content) {
            (ValueShape::List(item), NodeContent::List(items)) if has_enabled_key(item) => {
                found.extend(items.iter().filter_map(|item| off(name_of(item)?, item)));
                items.retain(|item| name_of(item).is_none() || disabled_origin(item).is_none());
            }
            (ValueShape::Map(item), NodeContent::Table(items)) if has_enabled_key(item) => {
                found.extend(items.iter().filter_map(|(name, item)| off(name, item)));
                items.retain(|_, item| disabled_origin(item).is_none());
            }
            _ => {}
        }
    }
    found
}

fn has_enabled_key(item: &SchemaEntry) -> bool {
    matches!(&item.shape, ValueShape::Table { keys, .. } if keys.get(ENABLED_KEY).is_some())
}

/// Where the entry was disabled, if it was.
fn disabled_origin(node: &ConfigNode) -> Option<ValueOrigin> {
    let switch = node.get(&KeyPath::dotted(ENABLED_KEY))?;
    (switch.content == NodeContent::Leaf(toml::Value::Boolean(false))).then(|| switch.origin.clone())
}
