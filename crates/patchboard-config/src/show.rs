//! Prints the effective configuration as TOML, optionally with the origin of each value. Secrets are printed as
//! references.

use std::fmt::Write;

use super::{
    LoadedConfig,
    key_path::{KeyPath, quoted_key},
    secrets::parse_reference,
    shape::{self, LeafKind, SchemaEntry, ValueShape},
};

/// Whether each line shows the layer that set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowOrigin {
    Yes,
    No,
}

/// The effective configuration as TOML that can be loaded again.
pub fn show(loaded: &LoadedConfig, origin: ShowOrigin) -> String {
    let mut printer = TomlPrinter { loaded, origin, text: String::new() };
    if let Ok(value) = toml::Value::try_from(&loaded.config) {
        printer.table(shape::root(), &value, &KeyPath::default(), &TableHeader::default());
    }
    // As comments, so that the text can still be loaded.
    for off in &loaded.disabled {
        let origin = match origin {
            ShowOrigin::Yes => format!(": {}", off.origin),
            ShowOrigin::No => String::new(),
        };
        printer.line(&format!("# {} `{}` is switched off{origin}", off.section, off.name.escape_default()));
    }
    printer.text
}

/// A table's header in TOML syntax, without list indices.
#[derive(Clone, Default)]
struct TableHeader {
    keys: Vec<String>,
    element: bool,
}

impl TableHeader {
    fn child(&self, key: &str) -> Self {
        let mut keys = self.keys.clone();
        keys.push(quoted_key(key));
        Self { keys, element: false }
    }
}

struct TomlPrinter<'a> {
    loaded: &'a LoadedConfig,
    origin: ShowOrigin,
    text: String,
}

impl TomlPrinter<'_> {
    /// Plain keys first, because in TOML they belong to the preceding header.
    fn table(&mut self, entry: &SchemaEntry, value: &toml::Value, path: &KeyPath, header: &TableHeader) {
        let toml::Value::Table(table) = value else {
            return;
        };
        let children: Vec<(&str, &SchemaEntry, &toml::Value)> = match &entry.shape {
            ValueShape::Table { keys, .. } => {
                keys.iter().filter_map(|(key, child)| Some((key, child, table.get(key)?))).collect()
            }
            ValueShape::Map(child) => table.iter().map(|(key, value)| (key.as_str(), &**child, value)).collect(),
            ValueShape::List(_) | ValueShape::Leaf(_) => return,
        };
        let (plain, nested): (Vec<_>, Vec<_>) = children.into_iter().partition(|(_, child, _)| is_plain(child));
        if !header.keys.is_empty() && (!plain.is_empty() || header.element) {
            let name = header.keys.join(".");
            self.text.push_str(if self.text.is_empty() { "" } else { "\n" });
            self.line(&match header.element {
                true => format!("[[{name}]]"),
                false => format!("[{name}]"),
            });
        }
        for (key, child, value) in plain {
            self.key_value(key, child, value, &path.key(key));
        }
        for (key, child, value) in nested {
            let (path, header) = (path.key(key), header.child(key));
            match (&child.shape, value) {
                (ValueShape::List(item), toml::Value::Array(elements)) => {
                    let header = TableHeader { element: true, ..header };
                    for (index, element) in elements.iter().enumerate() {
                        self.table(item, element, &path.index(index), &header);
                    }
                }
                _ => self.table(child, value, &path, &header),
            }
        }
    }

    fn key_value(&mut self, key: &str, entry: &SchemaEntry, value: &toml::Value, path: &KeyPath) {
        let shown = match (&entry.shape, value) {
            // A variable of a child process may contain a secret, so only references are shown.
            (ValueShape::Leaf(LeafKind::Variable), toml::Value::String(text)) if parse_reference(text).is_none() => {
                "\"(set)\"".to_owned()
            }
            _ => value.to_string(),
        };
        let origin = match self.origin {
            ShowOrigin::Yes => format!("  # {}", self.loaded.tree.origin_of(path)),
            ShowOrigin::No => String::new(),
        };
        self.line(&format!("{} = {shown}{origin}", quoted_key(key)));
    }

    fn line(&mut self, line: &str) {
        // Writing to a string cannot fail.
        writeln!(self.text, "{line}").unwrap_or_default();
    }
}

/// Whether a value is written on the line of its key.
pub(crate) fn is_plain(entry: &SchemaEntry) -> bool {
    match &entry.shape {
        ValueShape::Leaf(_) => true,
        ValueShape::List(item) => item.is_leaf(),
        ValueShape::Table { .. } | ValueShape::Map(_) => false,
    }
}
