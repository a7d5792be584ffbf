//! What a configuration file asks for, in words a person can decide on before anything of it counts. The file may come from
//! anybody: who shows these lines escapes what could steer a terminal.

use toml::{Table, Value};

/// More lines than this are counted, not shown.
const MAX_LINES: usize = 40;
const MAX_VALUE_CHARS: usize = 120;

/// A line for each thing. A file that is no TOML asks for nothing that would be obeyed.
pub(crate) fn asks(text: &str) -> Vec<String> {
    let Ok(table) = text.parse::<Table>() else { return vec!["is not valid TOML".to_owned()] };
    let mut lines = Vec::new();
    for (key, value) in &table {
        match (key.as_str(), value) {
            ("workers", Value::Array(workers)) => {
                lines.extend(workers.iter().map(|worker| starts("worker", &text_of(worker, "name"), worker)));
            }
            ("mcp", Value::Table(servers)) => {
                lines.extend(servers.iter().map(|(name, server)| match server.get("url") {
                    Some(url) => format!("uses the MCP server `{}` at {}", name, shown(url)),
                    None => starts("MCP server", name, server),
                }));
            }
            ("plugins", Value::Array(plugins)) => lines.extend(
                plugins
                    .iter()
                    .map(|plugin| format!("loads the plugin {} {}", text_of(plugin, "path"), granted(plugin))),
            ),
            ("providers", Value::Table(providers)) => {
                lines.extend(providers.iter().map(|(name, provider)| {
                    let address = text_of(provider, "base_url");
                    let address = if address.is_empty() { "its usual address".to_owned() } else { address };
                    format!("sends prompts to the provider `{name}` at {address}")
                }));
            }
            (section, Value::Table(keys)) => {
                lines.extend(
                    keys.iter().map(|(key, value)| format!("sets `{}.{}` to {}", section, key, clipped(value))),
                );
            }
            (key, value) => lines.push(format!("sets `{}` to {}", key, clipped(value))),
        }
    }
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("and {more} more"));
    }
    lines
}

/// What changed, as a unified difference.
pub(crate) fn difference(before: &str, after: &str) -> Vec<String> {
    let compared = similar::TextDiff::from_lines(before, after);
    let lines = compared.unified_diff().context_radius(2).to_string();
    lines.lines().take(MAX_LINES * 2).map(str::to_owned).collect()
}

fn starts(what: &str, name: &str, table: &Value) -> String {
    let words = table.get("command").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let command = words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    format!("starts `{command}` as {what} `{name}`")
}

fn granted(plugin: &Value) -> String {
    match plugin.get("grants") {
        Some(grants) => format!("with the grants {}", clipped(grants)),
        None => "without grants".to_owned(),
    }
}

fn text_of(table: &Value, key: &str) -> String {
    table.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn clipped(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests;
