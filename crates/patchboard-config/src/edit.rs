//! Changes a few keys of a configuration file and preserves everything else as written, including comments and order.

use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

/// A provider to write into the file and to assign to the default agent.
#[derive(Clone, Debug)]
pub struct ProviderEdit<'a> {
    pub name: &'a str,
    pub kind: &'a str,
    /// `None` leaves the file's value.
    pub base_url: Option<&'a str>,
    pub model: &'a str,
}

/// Applies the edit to the text of a file. Fails with a reason if the text is not TOML or has another item where a
/// section is expected.
pub fn set_provider(text: &str, edit: &ProviderEdit<'_>) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|_| "the file is not valid TOML".to_owned())?;
    let provider = section_table(&mut document, "providers", edit.name)?;
    set_value(provider, "kind", edit.kind);
    if let Some(base_url) = edit.base_url {
        set_value(provider, "base_url", base_url);
    }
    // A reference here would take precedence over the key that is about to be stored.
    provider.remove("api_key");
    let agent = section_table(&mut document, "agents", super::DEFAULT_AGENT)?;
    set_value(agent, "provider", edit.name);
    set_value(agent, "model", edit.model);
    let edited = document.to_string();
    // The edit must never produce invalid TOML.
    match edited.parse::<DocumentMut>() {
        Ok(_) => Ok(edited),
        Err(_) => Err("its sections are written in a way that cannot be edited".to_owned()),
    }
}

/// The text at `[section.name] key`, if present.
pub fn provider_setting(text: &str, section: &str, name: &str, key: &str) -> Option<String> {
    let document: DocumentMut = text.parse().ok()?;
    let item = document.get(section)?.get(name)?.get(key)?;
    item.as_str().map(str::to_owned)
}

fn section_table<'a>(document: &'a mut DocumentMut, parent: &str, name: &str) -> Result<&'a mut dyn TableLike, String> {
    let exists = document.get(parent).and_then(|parent| parent.get(name)).is_some();
    let inline = document.get(parent).is_some_and(Item::is_inline_table);
    // An inline table cannot contain headers and comments.
    let new = if exists || inline { Table::new() } else { table_at_end(document) };
    document
        .entry(parent)
        .or_insert_with(|| {
            // Writes only `[parent.name]`, without an empty `[parent]` before it.
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        })
        .as_table_like_mut()
        .ok_or_else(|| format!("`{parent}` is not a section"))?
        .entry(name)
        .or_insert(Item::Table(new))
        .as_table_like_mut()
        .ok_or_else(|| format!("`{parent}.{name}` is not a section"))
}

/// A table positioned after everything in the file, including trailing comments, which belong to the text above them.
fn table_at_end(document: &mut DocumentMut) -> Table {
    let mut table = Table::new();
    table.set_position(Some(last_position(document.as_table()) + 1));
    let trailing = document.trailing().as_str().unwrap_or_default().trim_end().to_owned();
    if !trailing.is_empty() {
        document.set_trailing("");
        table.decor_mut().set_prefix(format!("{trailing}\n\n"));
    }
    table
}

fn last_position(table: &Table) -> isize {
    let below = table.iter().map(|(_, item)| match item {
        Item::Table(table) => last_position(table),
        Item::ArrayOfTables(tables) => tables.iter().map(last_position).max().unwrap_or(0),
        Item::None | Item::Value(_) => 0,
    });
    below.max().unwrap_or(0).max(table.position().unwrap_or(0))
}

/// Sets a key and keeps the comment after the old value.
fn set_value(table: &mut dyn TableLike, key: &str, text: &str) {
    let mut value = Value::from(text);
    if let Some(old) = table.get(key).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
    }
    table.insert(key, Item::Value(value));
}

#[cfg(test)]
mod tests;
