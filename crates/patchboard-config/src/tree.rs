//! Values with their origins: the untyped form in which layers are merged.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    files::ConfigFile,
    key_path::{KeyPath, PathSegment},
    origin::ValueOrigin,
};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConfigNode {
    pub origin: ValueOrigin,
    pub content: NodeContent,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeContent {
    Table(BTreeMap<String, ConfigNode>),
    List(Vec<ConfigNode>),
    Leaf(toml::Value),
}

impl ConfigNode {
    pub(crate) fn table(origin: ValueOrigin) -> Self {
        Self { origin, content: NodeContent::Table(BTreeMap::new()) }
    }

    pub(crate) fn from_value(value: toml::Value, origin: &ValueOrigin) -> Self {
        let content = match value {
            toml::Value::Table(table) => NodeContent::Table(
                table.into_iter().map(|(key, value)| (key, Self::from_value(value, origin))).collect(),
            ),
            toml::Value::Array(items) => {
                NodeContent::List(items.into_iter().map(|item| Self::from_value(item, origin)).collect())
            }
            scalar @ (toml::Value::String(_)
            | toml::Value::Integer(_)
            | toml::Value::Float(_)
            | toml::Value::Boolean(_)
            | toml::Value::Datetime(_)) => NodeContent::Leaf(scalar),
        };
        Self { origin: origin.clone(), content }
    }

    pub(crate) fn to_value(&self) -> toml::Value {
        match &self.content {
            NodeContent::Table(table) => {
                toml::Value::Table(table.iter().map(|(key, node)| (key.clone(), node.to_value())).collect())
            }
            NodeContent::List(items) => toml::Value::Array(items.iter().map(Self::to_value).collect()),
            NodeContent::Leaf(value) => value.clone(),
        }
    }

    pub(crate) fn get(&self, path: &KeyPath) -> Option<&Self> {
        path.segments().iter().try_fold(self, |node, step| node.child(step))
    }

    fn child(&self, step: &PathSegment) -> Option<&Self> {
        match (&self.content, step) {
            (NodeContent::Table(table), PathSegment::Key(key)) => table.get(key),
            (NodeContent::List(items), PathSegment::Index(index)) => items.get(*index),
            (NodeContent::Table(_) | NodeContent::List(_) | NodeContent::Leaf(_), _) => None,
        }
    }

    /// The files of this value and of all values in it.
    pub(crate) fn files(&self) -> Vec<Arc<ConfigFile>> {
        let own = match &self.origin {
            ValueOrigin::File { file, .. } => vec![Arc::clone(file)],
            ValueOrigin::Default | ValueOrigin::Env(_) | ValueOrigin::Flag(_) => Vec::new(),
        };
        match &self.content {
            NodeContent::Table(table) => own.into_iter().chain(table.values().flat_map(Self::files)).collect(),
            NodeContent::List(items) => own.into_iter().chain(items.iter().flat_map(Self::files)).collect(),
            NodeContent::Leaf(_) => own,
        }
    }

    /// The origin of the value at `path`; for a missing key, the origin of the innermost enclosing table, so that a
    /// problem about it points to its section.
    pub(crate) fn nearest_origin(&self, path: &KeyPath) -> ValueOrigin {
        let mut node = self;
        for step in path.segments() {
            match node.child(step) {
                Some(child) => node = child,
                None => break,
            }
        }
        node.origin.clone()
    }

    /// The origin of the value at `path`: the layer that set it, or the default.
    pub(crate) fn origin_of(&self, path: &KeyPath) -> ValueOrigin {
        self.get(path).map_or(ValueOrigin::Default, |node| node.origin.clone())
    }

    /// A layer that contains only `node`, at a path of keys.
    pub(crate) fn nested(path: &KeyPath, node: Self) -> Self {
        path.segments().iter().rev().fold(node, |inner, step| {
            let origin = inner.origin.clone();
            let content = match step {
                PathSegment::Key(key) => NodeContent::Table(BTreeMap::from([(key.clone(), inner)])),
                PathSegment::Index(_) => NodeContent::List(vec![inner]),
            };
            Self { origin, content }
        })
    }

    /// Removes the value at `path`; returns whether it existed.
    pub(crate) fn remove(&mut self, path: &KeyPath) -> bool {
        let Some((last, parents)) = path.segments().split_last() else {
            return false;
        };
        let mut node = self;
        for step in parents {
            let child = match (&mut node.content, step) {
                (NodeContent::Table(table), PathSegment::Key(key)) => table.get_mut(key),
                (NodeContent::List(items), PathSegment::Index(index)) => items.get_mut(*index),
                (NodeContent::Table(_) | NodeContent::List(_) | NodeContent::Leaf(_), _) => None,
            };
            match child {
                Some(child) => node = child,
                None => return false,
            }
        }
        match (&mut node.content, last) {
            (NodeContent::Table(table), PathSegment::Key(key)) => table.remove(key).is_some(),
            (NodeContent::List(items), PathSegment::Index(index)) if *index < items.len() => {
                items.remove(*index);
                true
            }
            (NodeContent::Table(_) | NodeContent::List(_) | NodeContent::Leaf(_), _) => false,
        }
    }

    /// Name of the value's type, for messages.
    pub(crate) fn type_name(&self) -> &'static str {
        match &self.content {
            NodeContent::Table(_) => "a table",
            NodeContent::List(_) => "a list",
            NodeContent::Leaf(value) => match value {
                toml::Value::String(_) => "text",
                toml::Value::Integer(_) => "a whole number",
                toml::Value::Float(_) => "a number",
                toml::Value::Boolean(_) => "true or false",
                toml::Value::Datetime(_) => "a date or time",
                toml::Value::Array(_) => "a list",
                toml::Value::Table(_) => "a table",
            },
        }
    }
}
