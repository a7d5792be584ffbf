//! The shape of the configuration, read from its schema: the single source for checks, environment variables, the
//! sample file and the reference.

use std::{collections::BTreeSet, sync::LazyLock};

use serde_json::Value;

use super::{key_order, schema::schema, types::KIND};

/// One key, or one element of a list or map.
#[derive(Debug)]
pub(crate) struct SchemaEntry {
    pub shape: ValueShape,
    pub description: String,
    pub default: Option<Value>,
    pub example: Option<Value>,
    /// For a map: the name of an entry in examples.
    pub example_name: Option<String>,
}

#[derive(Debug)]
pub(crate) enum ValueShape {
    /// Fixed keys.
    Table {
        keys: TableKeys,
        required: BTreeSet<String>,
    },
    /// Keys are names chosen by the operator.
    Map(Box<SchemaEntry>),
    List(Box<SchemaEntry>),
    Leaf(LeafKind),
}

/// Keys of a table in the order their type declares them.
#[derive(Debug)]
pub(crate) struct TableKeys(Vec<(String, SchemaEntry)>);

impl TableKeys {
    pub(crate) fn get(&self, name: &str) -> Option<&SchemaEntry> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, entry)| entry)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &SchemaEntry)> + Clone {
        self.0.iter().map(|(key, entry)| (key.as_str(), entry))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.iter().map(|(key, _)| key)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LeafKind {
    Text,
    /// Text that may be empty and is not displayed, because it may contain a secret.
    Variable,
    Flag,
    Integer(NumberRange<i64>),
    Number(NumberRange<f64>),
    Choice(Vec<AllowedWord>),
    Duration {
        zero: bool,
    },
    Size,
    Listen,
    /// A range of hours of the day.
    Hours,
    /// A user of this machine, by name or number.
    User,
    Secret,
    /// Relative to its file, or to the folder of the command.
    Path,
    /// Relative to the data folder.
    DataPath,
    Url,
    Glob,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NumberRange<T> {
    pub min: Option<T>,
    pub max: Option<T>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AllowedWord {
    pub word: String,
    pub meaning: String,
}

/// The shape of the whole file.
pub(crate) fn root() -> &'static SchemaEntry {
    static ROOT: LazyLock<SchemaEntry> = LazyLock::new(|| SchemaEntry::read(&schema(), None));
    &ROOT
}

impl SchemaEntry {
    fn read(schema: &Value, inherited_kind: Option<&str>) -> Self {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let kind = text(KIND).or(inherited_kind);
        Self {
            shape: ValueShape::read(schema, kind),
            description: text("description").unwrap_or_default().to_owned(),
            default: schema.get("default").cloned(),
            example: schema.get("examples").and_then(Value::as_array).and_then(|examples| examples.first()).cloned(),
            example_name: text("x-example-name").map(str::to_owned),
        }
    }

    pub(crate) fn is_leaf(&self) -> bool {
        matches!(self.shape, ValueShape::Leaf(_))
    }
}

impl ValueShape {
    fn read(schema: &Value, kind: Option<&str>) -> Self {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let names = properties.keys().map(String::as_str).collect();
            let declared = key_order::declared_order(&names).unwrap_or_else(|| names.into_iter().collect());
            let keys = declared.into_iter().filter_map(|name| {
                let property = properties.get(name)?;
                Some((name.to_owned(), SchemaEntry::read(property, None)))
            });
            return Self::Table {
                keys: TableKeys(keys.collect()),
                required: schema
                    .get("required")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(|name| name.as_str().map(str::to_owned))
                    .collect(),
            };
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => {
                let value = schema.get("additionalProperties").unwrap_or(&Value::Null);
                Self::Map(Box::new(SchemaEntry::read(value, kind)))
            }
            Some("array") => {
                let item = schema.get("items").unwrap_or(&Value::Null);
                Self::List(Box::new(SchemaEntry::read(item, kind)))
            }
            _ => Self::Leaf(LeafKind::read(schema, kind)),
        }
    }
}

impl LeafKind {
    fn read(schema: &Value, kind: Option<&str>) -> Self {
        let choices = choices(schema);
        if !choices.is_empty() {
            return Self::Choice(choices);
        }
        let number = |key: &str| schema.get(key).and_then(Value::as_f64);
        let integer = |key: &str| schema.get(key).and_then(Value::as_i64);
        match kind {
            Some("duration") => Self::Duration { zero: schema.get("x-zero") == Some(&Value::Bool(true)) },
            Some("size") => Self::Size,
            Some("listen") => Self::Listen,
            Some("hours") => Self::Hours,
            Some("user") => Self::User,
            Some("secret") => Self::Secret,
            Some("path") => Self::Path,
            Some("data-path") => Self::DataPath,
            Some("url") => Self::Url,
            Some("glob") => Self::Glob,
            Some("environment") => Self::Variable,
            _ => match schema.get("type").and_then(Value::as_str) {
                Some("boolean") => Self::Flag,
                Some("integer") => Self::Integer(NumberRange { min: integer("minimum"), max: integer("maximum") }),
                Some("number") => Self::Number(NumberRange { min: number("minimum"), max: number("maximum") }),
                _ => Self::Text,
            },
        }
    }

    /// Whether the value is written as text in the file.
    pub(crate) fn is_text(&self) -> bool {
        match self {
            Self::Flag | Self::Integer(_) | Self::Number(_) => false,
            Self::Text
            | Self::Variable
            | Self::Choice(_)
            | Self::Duration { .. }
            | Self::Size
            | Self::Listen
            | Self::Hours
            | Self::User
            | Self::Secret
            | Self::Path
            | Self::DataPath
            | Self::Url
            | Self::Glob => true,
        }
    }
}

/// The allowed words of an enum, whether or not its variants are documented.
fn choices(schema: &Value) -> Vec<AllowedWord> {
    let choice = |word: &Value, meaning: Option<&Value>| {
        word.as_str().map(|word| AllowedWord {
            word: word.to_owned(),
            meaning: meaning.and_then(Value::as_str).unwrap_or_default().to_owned(),
        })
    };
    let list = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten();
    let documented = list("oneOf").filter_map(|option| {
        let word = option.get("const").or_else(|| option.get("enum").and_then(|words| words.get(0)))?;
        choice(word, option.get("description"))
    });
    let bare = list("enum").filter_map(|word| choice(word, None));
    documented.chain(bare).collect()
}
