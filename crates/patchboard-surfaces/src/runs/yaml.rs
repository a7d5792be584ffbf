//! Writes a tool's definition as YAML for people to read. Uses a subset of YAML that 1.1 and 1.2 parsers read alike:
//! every string that could be parsed as another type is quoted.

use serde_json::Value;

/// A mapping with its keys in the given order; nested mappings keep their own order.
pub(super) fn document(fields: &[(&str, &Value)]) -> String {
    let mut out = String::new();
    for (key, value) in fields {
        field(key, value, 0, &mut out);
    }
    out
}

fn field(key: &str, value: &Value, indent: usize, out: &mut String) {
    let key_text = scalar_text(key);
    // YAML limits simple keys to 1024 characters; longer ones need the `?` form.
    if key_text.chars().count() > 1000 {
        pad(indent, out);
        out.push_str("? ");
        out.push_str(&key_text);
        out.push('\n');
        pad(indent, out);
        out.push(':');
    } else {
        pad(indent, out);
        out.push_str(&key_text);
        out.push(':');
    }
    match value {
        // Sequences are not indented below their key, like most emitters do.
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            sequence(items, indent, out);
        }
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            for (key, value) in fields {
                field(key, value, indent + 2, out);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            out.push(' ');
            leaf_value(value, indent + 2, out);
        }
    }
}

fn sequence(items: &[Value], indent: usize, out: &mut String) {
    for item in items {
        pad(indent, out);
        out.push_str("- ");
        // The first line of the item follows the dash, so the item is written separately and its indentation removed.
        let mut inner = String::new();
        match item {
            Value::Array(items) if !items.is_empty() => sequence(items, indent + 2, &mut inner),
            Value::Object(fields) if !fields.is_empty() => {
                for (key, value) in fields {
                    field(key, value, indent + 2, &mut inner);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                leaf_value(item, indent + 2, &mut inner);
            }
        }
        out.push_str(inner.trim_start_matches(' '));
    }
}

/// Writes a scalar and the end of its line.
fn leaf_value(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number_text(&number.to_string())),
        Value::String(text) if is_block(text) => return block(text, indent, out),
        Value::String(text) => out.push_str(&scalar_text(text)),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
    out.push('\n');
}

/// YAML 1.1 parses `1e9` as a string: it requires a decimal point and a signed exponent.
fn number_text(number: &str) -> String {
    let Some((digits, exponent)) = number.split_once(['e', 'E']) else { return number.to_owned() };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['-', '+']) { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

fn scalar_text(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Whether an unquoted text can only be parsed as this string.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let Some(first) = text.chars().next() else { return false };
    // Digits, signs and points may begin a number or a date; the other excluded characters are YAML indicators.
    let begins_well = first.is_alphabetic() || matches!(first, '/' | '(' | '$' | '^' | '_');
    begins_well
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(is_printable)
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Printable within a line; tabs are excluded for simplicity.
fn is_printable(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' => !matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}'),
        '\u{10000}'..='\u{10ffff}' => true,
        _ => false,
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            printable if is_printable(printable) => out.push(printable),
            other => out.push_str(&format!("\\u{:04x}", u32::from(other))),
        }
    }
    out.push('"');
    out
}

/// Whether a literal block reproduces the text exactly.
fn is_block(text: &str) -> bool {
    let lines_are_fine =
        || text.split('\n').all(|line| line.chars().all(is_printable) && (line.is_empty() || !line.trim().is_empty()));
    // The first line determines the block's indentation, so it must begin with text.
    text.contains('\n') && !text.starts_with([' ', '\n']) && lines_are_fine()
}

fn block(text: &str, indent: usize, out: &mut String) {
    let (body, chomping) = match text.strip_suffix('\n') {
        None => (text, "|-\n"),
        Some(body) if body.ends_with('\n') => (body, "|+\n"),
        Some(body) => (body, "|\n"),
    };
    out.push_str(chomping);
    for line in body.split('\n') {
        if !line.is_empty() {
            pad(indent, out);
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests;
