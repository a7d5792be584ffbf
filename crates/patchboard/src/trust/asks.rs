//! What a configuration file asks for, in words a person can decide on before anything of it counts. The file may come from
//! anybody, so what is dangerous comes first and is never cut: nothing can be hidden behind harmless lines.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::cli::output::one_line;

/// More harmless lines than this are counted, not shown.
const MAX_HARMLESS_LINES: usize = 40;
const MAX_HARMLESS_CHARS: usize = 120;

/// What a line is about, the most dangerous first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Danger {
    StartsProgram,
    LoadsPlugin,
    /// Where data goes, and who is let in.
    Address,
    Approval,
    /// Where agents and programs may work, read and write.
    Reach,
    Environment,
    Harmless,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    danger: Danger,
    text: String,
}

/// Lines to be shown. A cut says how many there would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    lines: Vec<String>,
}

impl Shown {
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines
    }

    /// The first lines of those that matter, for a message that names the command which shows all.
    pub(crate) fn in_short(self, most: usize, matters: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines: Vec<String> = self.lines.into_iter().filter(|line| matters(line)).collect();
        let more = lines.len().saturating_sub(most);
        lines.truncate(most);
        if more > 0 {
            lines.push(format!("and {more} more lines"));
        }
        lines
    }
}

/// A file that is no TOML asks for nothing that would be obeyed.
pub(crate) fn asks(text: &str) -> Shown {
    let Some(mut lines) = lines(text) else { return Shown { lines: vec!["is not valid TOML".to_owned()] } };
    lines.sort_by_key(|line| line.danger);
    let harmless = lines.iter().filter(|line| line.danger == Danger::Harmless).count();
    let cut = harmless.saturating_sub(MAX_HARMLESS_LINES);
    lines.truncate(lines.len() - cut);
    let mut lines: Vec<String> = lines.into_iter().map(|line| line.text).collect();
    lines.extend((cut > 0).then(|| left_out(cut)));
    Shown { lines }
}

/// What changed: first what is dangerous in it, never cut, then the lines of the file.
pub(crate) fn difference(before: &str, after: &str) -> Shown {
    let dangerous = |text: &str| -> BTreeSet<Line> {
        let lines = lines(text).unwrap_or_default().into_iter();
        lines.filter(|line| line.danger != Danger::Harmless).collect()
    };
    let (old, new) = (dangerous(before), dangerous(after));
    let mut shown: Vec<String> = new.difference(&old).map(|line| format!("+ it {}", line.text)).collect();
    shown.extend(old.difference(&new).map(|line| format!("- no longer it {}", line.text)));
    let compared = similar::TextDiff::from_lines(before, after);
    let changed = compared.unified_diff().context_radius(2).to_string();
    let most = MAX_HARMLESS_LINES * 2;
    shown.extend(changed.lines().take(most).map(one_line));
    let cut = changed.lines().count().saturating_sub(most);
    shown.extend((cut > 0).then(|| left_out(cut)));
    Shown { lines: shown }
}

fn left_out(lines: usize) -> String {
    format!("{lines} more lines are not shown: read the file itself")
}

/// One for each thing.
fn lines(text: &str) -> Option<Vec<Line>> {
    let table = text.parse::<Table>().ok()?;
    let mut lines = Vec::new();
    for (key, value) in &table {
        match (key.as_str(), value) {
            ("workers", Value::Array(workers)) => {
                for worker in workers {
                    let name = text_of(worker, "name");
                    program(&format!("worker `{name}`"), &format!("workers.{name}"), worker, &mut lines);
                }
            }
            ("mcp", Value::Table(servers)) => {
                for (name, server) in servers {
                    program(&format!("MCP server `{name}`"), &format!("mcp.{name}"), server, &mut lines);
                }
            }
            ("plugins", Value::Array(plugins)) => {
                for plugin in plugins {
                    let text = format!("loads the plugin {} {}", text_of(plugin, "path"), granted(plugin));
                    push(&mut lines, Danger::LoadsPlugin, &text);
                    rest(
                        &format!("plugins.{}", text_of(plugin, "name")),
                        plugin,
                        &["path", "grants", "name"],
                        &mut lines,
                    );
                }
            }
            ("providers", Value::Table(providers)) => {
                for (name, provider) in providers {
                    let address = text_of(provider, "base_url");
                    let address = if address.is_empty() { "its usual address".to_owned() } else { address };
                    let text = format!("sends prompts to the provider `{name}` at {address}");
                    push(&mut lines, Danger::Address, &text);
                    rest(&format!("providers.{name}"), provider, &["base_url"], &mut lines);
                }
            }
            (key, value) => settings(key, value, &mut lines),
        }
    }
    Some(lines)
}

/// A worker or an MCP server: what it starts or calls, and everything else its table says.
fn program(what: &str, path: &str, table: &Value, lines: &mut Vec<Line>) {
    if let Some(command) = table.get("command") {
        let words = command.as_array().map(Vec::as_slice).unwrap_or_default();
        let command = words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        push(lines, Danger::StartsProgram, &format!("starts `{command}` as {what}"));
    }
    if let Some(url) = table.get("url") {
        push(lines, Danger::Address, &format!("uses the {what} at {}", url.as_str().unwrap_or_default()));
    }
    rest(path, table, &["command", "url", "name"], lines);
}

fn rest(path: &str, table: &Value, said: &[&str], lines: &mut Vec<Line>) {
    let keys = table.as_table().into_iter().flatten().filter(|(key, _)| !said.contains(&key.as_str()));
    keys.for_each(|(key, value)| settings(&format!("{path}.{key}"), value, lines));
}

fn settings(path: &str, value: &Value, lines: &mut Vec<Line>) {
    if let Some(keys) = value.as_table().filter(|keys| !keys.is_empty()) {
        keys.iter().for_each(|(key, value)| settings(&format!("{path}.{key}"), value, lines));
        return;
    }
    let danger = danger(path);
    let value = if danger == Danger::Harmless { clipped(value) } else { value.to_string() };
    push(lines, danger, &format!("sets `{path}` to {value}"));
}

/// By words of the key: one that is wrongly taken for dangerous costs a line.
fn danger(path: &str) -> Danger {
    const WORDS: &[(Danger, &[&str])] = &[
        (Danger::StartsProgram, &["command", "enabled"]),
        (Danger::LoadsPlugin, &["wasm", "grants", "settings", "plugin", "sha256", "weights"]),
        (Danger::Approval, &["approval", "pairing", "expose", "allow_pickle", "unregistered", "tools"]),
        (
            Danger::Address,
            &[
                "url",
                "base_url",
                "listen",
                "insecure",
                "token",
                "api_key",
                "secret",
                "secrets",
                "tls",
                "server",
                "topic",
                "webhooks",
                "ntfy",
                "otlp_endpoint",
                "allowed_origins",
                "allowed_hosts",
                "trusted_users",
                "verify",
                "header",
                "timestamp_header",
                "fetch_private_hosts",
                "search",
                "provider",
                "fallback",
                "embedding",
                "extract_with",
                "unix_socket",
                "private_ports",
            ],
        ),
        (
            Danger::Reach,
            &[
                "allowed_roots",
                "working_folder",
                "writable",
                "readable",
                "connect",
                "connect_any",
                "unix_sockets",
                "bash",
                "data_dir",
                "data_dir_group",
                "storage",
                "path",
                "folder",
                "soul",
                "system_prompt",
                "filter",
                "bodies",
                "rules",
                "aliases",
                "catch_all",
                "bindings",
            ],
        ),
        (Danger::Environment, &["env"]),
    ];
    let words: Vec<&str> = path.split('.').collect();
    let known = WORDS.iter().find(|(_, known)| words.iter().any(|word| known.contains(word)));
    known.map_or(Danger::Harmless, |(danger, _)| *danger)
}

fn push(lines: &mut Vec<Line>, danger: Danger, text: &str) {
    lines.push(Line { danger, text: one_line(text) });
}

fn granted(plugin: &Value) -> String {
    match plugin.get("grants") {
        Some(grants) => format!("with the grants {grants}"),
        None => "without grants".to_owned(),
    }
}

fn text_of(table: &Value, key: &str) -> String {
    table.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn clipped(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_HARMLESS_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests;
