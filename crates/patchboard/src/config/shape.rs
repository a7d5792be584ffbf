//! What the configuration may contain, read from its schema: the one source
//! for checks, environment variables, the sample file and the reference.

use std::{collections::BTreeSet, sync::LazyLock};

use serde_json::Value;

use super::{order, schema::schema, types::KIND};

/// One key, or one element of a list or map.
#[derive(Debug)]
pub(crate) struct Entry {
    pub shape: Shape,
    pub description: String,
    pub default: Option<Value>,
    pub example: Option<Value>,
    /// For a table of named things: a name to show in examples.
    pub example_name: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Shape {
    /// Fixed keys.
    Table {
        keys: Keys,
        required: BTreeSet<String>,
    },
    /// Names chosen by the operator.
    Map(Box<Entry>),
    List(Box<Entry>),
    Leaf(Leaf),
}

/// Keys of a table in the order their type declares them.
#[derive(Debug)]
pub(crate) struct Keys(Vec<(String, Entry)>);

impl Keys {
    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, entry)| entry)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> + Clone {
        self.0.iter().map(|(key, entry)| (key.as_str(), entry))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.iter().map(|(key, _)| key)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Leaf {
    Text,
    /// Text that may be empty and is not shown back: it may hold anything.
    Variable,
    Flag,
    Integer(Range<i64>),
    Number(Range<f64>),
    Choice(Vec<Choice>),
    Duration {
        zero: bool,
    },
    Size,
    Listen,
    /// Of the day.
    Hours,
    /// Of this machine, by name or number.
    User,
    Secret,
    /// Relative to the file that says it, or to the folder of the command.
    Path,
    /// Relative to the data folder.
    DataPath,
    Url,
    Glob,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range<T> {
    pub min: Option<T>,
    pub max: Option<T>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    pub word: String,
    pub meaning: String,
}

/// The shape of the whole file.
pub(crate) fn root() -> &'static Entry {
    static ROOT: LazyLock<Entry> = LazyLock::new(|| Entry::read(&schema(), None));
    &ROOT
}

impl Entry {
    fn read(schema: &Value, inherited_kind: Option<&str>) -> Self {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let kind = text(KIND).or(inherited_kind);
        Self {
            shape: Shape::read(schema, kind),
            description: text("description").unwrap_or_default().to_owned(),
            default: schema.get("default").cloned(),
            example: schema.get("examples").and_then(Value::as_array).and_then(|examples| examples.first()).cloned(),
            example_name: text("x-example-name").map(str::to_owned),
        }
    }

    pub(crate) fn is_leaf(&self) -> bool {
        matches!(self.shape, Shape::Leaf(_))
    }
}

impl Shape {
    fn read(schema: &Value, kind: Option<&str>) -> Self {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let names = properties.keys().map(String::as_str).collect();
            let declared = order::declared(&names).unwrap_or_else(|| names.into_iter().collect());
            let keys = declared.into_iter().filter_map(|name| {
                let property = properties.get(name)?;
                Some((name.to_owned(), Entry::read(property, None)))
            });
            return Self::Table {
                keys: Keys(keys.collect()),
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
                Self::Map(Box::new(Entry::read(value, kind)))
            }
            Some("array") => {
                let item = schema.get("items").unwrap_or(&Value::Null);
                Self::List(Box::new(Entry::read(item, kind)))
            }
            _ => Self::Leaf(Leaf::read(schema, kind)),
        }
    }
}

impl Leaf {
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
                Some("integer") => Self::Integer(Range { min: integer("minimum"), max: integer("maximum") }),
                Some("number") => Self::Number(Range { min: number("minimum"), max: number("maximum") }),
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

/// The words of an enum, whether or not its variants are documented.
fn choices(schema: &Value) -> Vec<Choice> {
    let choice = |word: &Value, meaning: Option<&Value>| {
        word.as_str().map(|word| Choice {
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
