//! Generates the reference page `docs/configuration.md` from the types.

use std::fmt::Write;

use super::{
    env::VARIABLES,
    key_path::quoted_key,
    reload::{ReloadClass, rows_of},
    sample::inline_toml,
    shape::{self, LeafKind, SchemaEntry, ValueShape},
    show::is_plain,
};

const PREFACE: &str = include_str!("reference/preface.txt");
const RELOAD: &str = include_str!("reference/reload.txt");

/// The whole page.
pub(crate) fn reference() -> String {
    let mut page = PREFACE.to_owned();
    page.push_str("## Environment variables\n\n| variable | does |\n|---|---|\n");
    for (name, meaning) in VARIABLES {
        push(&mut page, &format!("| `{name}` | {meaning} |"));
    }
    reload(&mut page);
    page.push_str("\n## Keys\n\nKeys before the first section:\n\n");
    keys(&mut page, shape::root(), "");
    page
}

/// The section on reloading, generated from the table of reload classes.
fn reload(page: &mut String) {
    page.push_str(RELOAD);
    for (class, meaning) in [
        (ReloadClass::Live, "at once: calls and runs that have already started keep the old values"),
        (ReloadClass::Content, "the content of the file is read again; naming another file requires a restart"),
        (ReloadClass::Restart, "at the next start; the old value applies until then"),
    ] {
        let rows: Vec<String> = rows_of(class).iter().map(|row| format!("`{row}`")).collect();
        push(page, &format!("| {} | {meaning} |", rows.join(", ")));
    }
}

fn keys(page: &mut String, entry: &SchemaEntry, name: &str) {
    let ValueShape::Table { keys, required } = &entry.shape else {
        return;
    };
    let rows: Vec<String> = keys
        .iter()
        .filter(|(_, child)| is_plain(child))
        .map(|(key, child)| {
            let default = match (&child.default, required.contains(key)) {
                (_, true) => "required".to_owned(),
                (Some(default), false) => format!("`{}`", inline_toml(default)),
                (None, false) => "–".to_owned(),
            };
            let form = cell(&form(child));
            let meaning = cell(&meaning(child));
            format!("| `{}` | {form} | {default} | {meaning} |", quoted_key(key))
        })
        .collect();
    if !rows.is_empty() {
        page.push_str("| key | form | default | meaning |\n|---|---|---|---|\n");
        for row in rows {
            push(page, &row);
        }
        push(page, "");
    }
    for (key, child) in keys.iter().filter(|(_, child)| !is_plain(child)) {
        let name = match name {
            "" => key.to_owned(),
            parent => format!("{parent}.{key}"),
        };
        section(page, child, &name);
    }
}

fn section(page: &mut String, entry: &SchemaEntry, name: &str) {
    let (title, inner) = match &entry.shape {
        ValueShape::Table { .. } => (format!("[{name}]"), Some((entry, name.to_owned()))),
        ValueShape::List(item) => (format!("[[{name}]]"), Some((&**item, name.to_owned()))),
        ValueShape::Map(item) if item.is_leaf() => (format!("[{name}]"), None),
        ValueShape::Map(item) => {
            let name = format!("{name}.NAME");
            (format!("[{name}]"), Some((&**item, name)))
        }
        ValueShape::Leaf(_) => return,
    };
    push(page, &format!("### `{title}`\n\n{}\n", entry.description));
    match (inner, &entry.shape) {
        (Some((inner, name)), _) => keys(page, inner, &name),
        (None, ValueShape::Map(item)) => {
            let form = form(item);
            push(page, &format!("Keys are chosen by you; values: {form}.\n"));
            if let ValueShape::Leaf(LeafKind::Choice(_)) = &item.shape {
                push(page, &format!("{}.\n", meaning(item)));
            }
        }
        (None, ValueShape::Table { .. } | ValueShape::List(_) | ValueShape::Leaf(_)) => {}
    }
}

fn meaning(entry: &SchemaEntry) -> String {
    let mut words = entry.description.clone();
    if let ValueShape::Leaf(LeafKind::Choice(choices)) = &entry.shape {
        let choices: Vec<String> =
            choices.iter().map(|choice| format!("`{}`: {}", choice.word, choice.meaning)).collect();
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(&choices.join("; "));
    }
    words
}

fn form(entry: &SchemaEntry) -> String {
    let leaf = match &entry.shape {
        ValueShape::List(item) => return format!("list of {}", form(item)),
        ValueShape::Leaf(leaf) => leaf,
        ValueShape::Table { .. } | ValueShape::Map(_) => return "table".to_owned(),
    };
    match leaf {
        LeafKind::Text | LeafKind::Variable => "text".to_owned(),
        LeafKind::Flag => "true or false".to_owned(),
        LeafKind::Integer(range) => bounds("whole number", range.min, range.max),
        LeafKind::Number(range) => bounds("number", range.min, range.max),
        LeafKind::Choice(choices) => {
            let words = choices.iter().map(|choice| format!("`\"{}\"`", choice.word));
            words.collect::<Vec<_>>().join(" | ")
        }
        LeafKind::Duration { .. } => "duration".to_owned(),
        LeafKind::Size => "size".to_owned(),
        LeafKind::Listen => "address".to_owned(),
        LeafKind::Hours => "hours".to_owned(),
        LeafKind::User => "user".to_owned(),
        LeafKind::Secret => "secret".to_owned(),
        LeafKind::Path | LeafKind::DataPath => "path".to_owned(),
        LeafKind::Url => "web address".to_owned(),
        LeafKind::Glob => "pattern".to_owned(),
    }
}

fn bounds<T: std::fmt::Display>(what: &str, min: Option<T>, max: Option<T>) -> String {
    let max = max.map(|max| max.to_string());
    match (min, max) {
        // The bound of the type itself carries no information.
        (Some(min), Some(max)) if max != u32::MAX.to_string() => format!("{what}, {min} to {max}"),
        (Some(min), _) => format!("{what} from {min}"),
        (None, Some(max)) => format!("{what} up to {max}"),
        (None, None) => what.to_owned(),
    }
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn push(page: &mut String, line: &str) {
    // Writing to a string cannot fail.
    writeln!(page, "{line}").unwrap_or_default();
}
