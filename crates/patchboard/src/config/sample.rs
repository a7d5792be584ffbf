//! A complete `patchboard.toml` with every key explained and commented out.
//!
//! Explanations start with `# `, settings with `#` alone, so that removing one
//! character turns a setting on.

use std::fmt::Write;

use serde_json::Value;

use super::{
    key_path::quoted,
    shape::{self, Entry, Shape},
    show::is_plain,
};

const PREFACE: &str = "\
Configuration of Patchboard. Every key is optional. Remove the `#` before a
key to set it; the values shown are the defaults, or examples where a key has
no default. Relative paths start at the folder of this file.
";

/// Width of explanations, so that they can be read beside code.
const WIDTH: usize = 96;

/// The sample file. As it stands it changes nothing.
pub(crate) fn sample() -> String {
    let mut text = String::new();
    for line in PREFACE.lines() {
        push(&mut text, &format!("# {line}"));
    }
    push(&mut text, "");
    table(&mut text, shape::root(), "", Header::None);
    text
}

#[derive(Clone, Copy, PartialEq)]
enum Header {
    None,
    /// `[name]`: a table that is always there.
    Live,
    /// `#[name]`: one the operator may add.
    Commented,
    /// `#[[name]]`: an element of a list.
    Element,
}

fn table(text: &mut String, entry: &Entry, name: &str, header: Header) {
    match header {
        Header::None => {}
        Header::Live => push(text, &format!("[{name}]")),
        Header::Commented => push(text, &format!("#[{name}]")),
        Header::Element => push(text, &format!("#[[{name}]]")),
    }
    let Shape::Table { keys, .. } = &entry.shape else {
        return;
    };
    for (key, child) in keys.iter().filter(|(_, child)| is_plain(child)) {
        explain(text, &child.description);
        if let Shape::Leaf(shape::Leaf::Choice(choices)) = &child.shape {
            for choice in choices {
                explain(text, &format!("  {}: {}", choice.word, choice.meaning));
            }
        }
        push(text, &format!("#{} = {}", quoted(key), value(child)));
    }
    push(text, "");
    for (key, child) in keys.iter().filter(|(_, child)| !is_plain(child)) {
        let name = match name {
            "" => quoted(key),
            parent => format!("{parent}.{}", quoted(key)),
        };
        section(text, child, &name, header);
    }
}

fn section(text: &mut String, entry: &Entry, name: &str, parent: Header) {
    explain(text, &entry.description);
    match &entry.shape {
        Shape::Table { .. } => {
            // A table without a default is one that may be left out.
            let live = entry.default.is_some() && matches!(parent, Header::None | Header::Live);
            let header = if live { Header::Live } else { Header::Commented };
            table(text, entry, name, header);
        }
        Shape::List(item) => table(text, item, name, Header::Element),
        Shape::Map(item) if item.is_leaf() => {
            let live = matches!(parent, Header::None | Header::Live);
            push(text, &format!("{}[{name}]", if live { "" } else { "#" }));
            if let Some(Value::Object(examples)) = &entry.example {
                for (key, example) in examples {
                    push(text, &format!("#{} = {}", quoted(key), inline(example)));
                }
            }
            push(text, "");
        }
        Shape::Map(item) => {
            let example = entry.example_name.as_deref().unwrap_or("name");
            let name = format!("{name}.{}", quoted(example));
            table(text, item, &name, Header::Commented);
        }
        Shape::Leaf(_) => {}
    }
}

/// The default, or an example where there is none or where it is empty.
fn value(entry: &Entry) -> String {
    match (&entry.default, &entry.example) {
        (Some(Value::Array(items)), Some(example)) if items.is_empty() => {
            format!("[]  # for example {}", inline(example))
        }
        (Some(default), _) => inline(default),
        (None, Some(example)) => inline(example),
        (None, None) => "\"\"".to_owned(),
    }
}

/// JSON as inline TOML.
pub(crate) fn inline(value: &Value) -> String {
    toml::Value::try_from(value).map_or_else(|_| value.to_string(), |value| value.to_string())
}

/// An explanation, wrapped.
fn explain(text: &mut String, words: &str) {
    let indent: String = words.chars().take_while(|c| *c == ' ').collect();
    let mut line = format!("#{indent}");
    for word in words.split_whitespace() {
        if line.chars().count() + word.chars().count() >= WIDTH {
            push(text, &line);
            line = format!("#{indent}");
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.chars().count() > 1 + indent.len() {
        push(text, &line);
    }
}

fn push(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    writeln!(text, "{line}").unwrap_or_default();
}
