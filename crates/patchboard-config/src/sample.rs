//! Generates a complete `patchboard.toml` with every key explained and commented out.
//!
//! Explanations start with `# `, settings with `#` alone, so that removing one character enables a setting.

use std::fmt::Write;

use serde_json::Value;

use super::{
    key_path::quoted_key,
    shape::{self, SchemaEntry, ValueShape},
    show::is_plain,
};

const PREFACE: &str = "\
Configuration of Patchboard. Every key is optional. Remove the `#` before a
key to set it; the values shown are the defaults, or examples where a key has
no default. Relative paths start at the folder of this file.
";

/// Width of explanations.
const WIDTH: usize = 96;

/// The sample file. Unedited, it changes nothing.
pub fn sample() -> String {
    let mut text = String::new();
    for line in PREFACE.lines() {
        push_line(&mut text, &format!("# {line}"));
    }
    push_line(&mut text, "");
    table(&mut text, shape::root(), "", SampleHeader::None);
    text
}

#[derive(Clone, Copy, PartialEq)]
enum SampleHeader {
    None,
    /// `[name]`: a table that always exists.
    Live,
    /// `#[name]`: a table that the operator may add.
    Commented,
    /// `#[[name]]`: an element of a list.
    Element,
}

fn table(text: &mut String, entry: &SchemaEntry, name: &str, header: SampleHeader) {
    match header {
        SampleHeader::None => {}
        SampleHeader::Live => push_line(text, &format!("[{name}]")),
        SampleHeader::Commented => push_line(text, &format!("#[{name}]")),
        SampleHeader::Element => push_line(text, &format!("#[[{name}]]")),
    }
    let ValueShape::Table { keys, .. } = &entry.shape else {
        return;
    };
    for (key, child) in keys.iter().filter(|(_, child)| is_plain(child)) {
        push_explanation(text, &child.description);
        if let ValueShape::Leaf(shape::LeafKind::Choice(choices)) = &child.shape {
            for choice in choices {
                push_explanation(text, &format!("  {}: {}", choice.word, choice.meaning));
            }
        }
        push_line(text, &format!("#{} = {}", quoted_key(key), sample_value(child)));
    }
    push_line(text, "");
    for (key, child) in keys.iter().filter(|(_, child)| !is_plain(child)) {
        let name = match name {
            "" => quoted_key(key),
            parent => format!("{parent}.{}", quoted_key(key)),
        };
        section(text, child, &name, header);
    }
}

fn section(text: &mut String, entry: &SchemaEntry, name: &str, parent: SampleHeader) {
    push_explanation(text, &entry.description);
    match &entry.shape {
        ValueShape::Table { .. } => {
            // A table without a default may be left out.
            let live = entry.default.is_some() && matches!(parent, SampleHeader::None | SampleHeader::Live);
            let header = if live { SampleHeader::Live } else { SampleHeader::Commented };
            table(text, entry, name, header);
        }
        ValueShape::List(item) => table(text, item, name, SampleHeader::Element),
        ValueShape::Map(item) if item.is_leaf() => {
            let live = matches!(parent, SampleHeader::None | SampleHeader::Live);
            push_line(text, &format!("{}[{name}]", if live { "" } else { "#" }));
            if let Some(Value::Object(examples)) = &entry.example {
                for (key, example) in examples {
                    push_line(text, &format!("#{} = {}", quoted_key(key), inline_toml(example)));
                }
            }
            push_line(text, "");
        }
        ValueShape::Map(item) => {
            let example = entry.example_name.as_deref().unwrap_or("name");
            let name = format!("{name}.{}", quoted_key(example));
            table(text, item, &name, SampleHeader::Commented);
        }
        ValueShape::Leaf(_) => {}
    }
}

/// The default, or an example if there is none or it is empty.
fn sample_value(entry: &SchemaEntry) -> String {
    match (&entry.default, &entry.example) {
        (Some(Value::Array(items)), Some(example)) if items.is_empty() => {
            format!("[]  # for example {}", inline_toml(example))
        }
        (Some(default), _) => inline_toml(default),
        (None, Some(example)) => inline_toml(example),
        (None, None) => "\"\"".to_owned(),
    }
}

/// JSON as inline TOML.
pub(crate) fn inline_toml(value: &Value) -> String {
    toml::Value::try_from(value).map_or_else(|_| value.to_string(), |value| value.to_string())
}

/// Appends an explanation, wrapped.
fn push_explanation(text: &mut String, words: &str) {
    let indent: String = words.chars().take_while(|c| *c == ' ').collect();
    let mut line = format!("#{indent}");
    for word in words.split_whitespace() {
        if line.chars().count() + word.chars().count() >= WIDTH {
            push_line(text, &line);
            line = format!("#{indent}");
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.chars().count() > 1 + indent.len() {
        push_line(text, &line);
    }
}

fn push_line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    writeln!(text, "{line}").unwrap_or_default();
}
