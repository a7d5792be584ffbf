//! A summary of what a configuration file asks for, shown to a person before any of it takes effect. The file may come
//! from a third party, so dangerous settings come first and are never cut: nothing can be hidden behind harmless lines.

use patchboard_core::text::cut_chars;
use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::output::one_line;

/// Harmless lines past this limit are counted, not shown.
const MAX_HARMLESS_LINES: usize = 40;
const MAX_HARMLESS_CHARS: usize = 120;

/// The kind of risk of a line, most dangerous first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RiskKind {
    StartsProgram,
    LoadsPlugin,
    /// Where data is sent, and which clients are let in.
    Address,
    Approval,
    /// Which folders agents and programs may work in, read and write.
    FileAccess,
    Environment,
    Harmless,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ReviewLine {
    risk: RiskKind,
    text: String,
}

/// Lines for display. If lines are cut, the last line has their number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReviewLines {
    lines: Vec<String>,
}

impl ReviewLines {
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines
    }

    /// The first `most` matching lines, for a message that names the command which shows them all.
    pub(crate) fn summary(self, most: usize, matters: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines: Vec<String> = self.lines.into_iter().filter(|line| matters(line)).collect();
        let more = lines.len().saturating_sub(most);
        lines.truncate(most);
        if more > 0 {
            lines.push(format!("and {more} more lines"));
        }
        lines
    }
}

/// A file that is not valid TOML contains no setting that could take effect.
pub(crate) fn review_config(text: &str) -> ReviewLines {
    let Some(mut lines) = review_lines(text) else {
        return ReviewLines { lines: vec!["is not valid TOML".to_owned()] };
    };
    lines.sort_by_key(|line| line.risk);
    let harmless = lines.iter().filter(|line| line.risk == RiskKind::Harmless).count();
    let cut = harmless.saturating_sub(MAX_HARMLESS_LINES);
    lines.truncate(lines.len() - cut);
    let mut lines: Vec<String> = lines.into_iter().map(|line| line.text).collect();
    lines.extend((cut > 0).then(|| omitted_line(cut)));
    ReviewLines { lines }
}

/// The difference between two texts: first dangerous settings, never cut, then the changed lines.
pub(crate) fn review_changes(before: &str, after: &str) -> ReviewLines {
    let dangerous = |text: &str| -> BTreeSet<ReviewLine> {
        let lines = review_lines(text).unwrap_or_default().into_iter();
        lines.filter(|line| line.risk != RiskKind::Harmless).collect()
    };
    let (old, new) = (dangerous(before), dangerous(after));
    let mut shown: Vec<String> = new.difference(&old).map(|line| format!("+ it {}", line.text)).collect();
    shown.extend(old.difference(&new).map(|line| format!("- no longer it {}", line.text)));
    let compared = similar::TextDiff::from_lines(before, after);
    let changed = compared.unified_diff().context_radius(2).to_string();
    let most = MAX_HARMLESS_LINES * 2;
    shown.extend(changed.lines().take(most).map(one_line));
    let cut = changed.lines().count().saturating_sub(most);
    shown.extend((cut > 0).then(|| omitted_line(cut)));
    ReviewLines { lines: shown }
}

fn omitted_line(lines: usize) -> String {
    format!("{lines} more lines are not shown: read the file itself")
}

/// One line per setting. Returns `None` if the text is not valid TOML.
fn review_lines(text: &str) -> Option<Vec<ReviewLine>> {
    let table = text.parse::<Table>().ok()?;
    let mut lines = Vec::new();
    for (key, value) in &table {
        match (key.as_str(), value) {
            ("workers", Value::Array(workers)) => {
                for worker in workers {
                    let name = text_of(worker, "name");
                    push_program(&format!("worker `{name}`"), &format!("workers.{name}"), worker, &mut lines);
                }
            }
            ("mcp", Value::Table(servers)) => {
                for (name, server) in servers {
                    push_program(&format!("MCP server `{name}`"), &format!("mcp.{name}"), server, &mut lines);
                }
            }
            ("plugins", Value::Array(plugins)) => {
                for plugin in plugins {
                    let text = format!("loads the plugin {} {}", text_of(plugin, "path"), grants_text(plugin));
                    push_line(&mut lines, RiskKind::LoadsPlugin, &text);
                    push_other_settings(
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
                    push_line(&mut lines, RiskKind::Address, &text);
                    push_other_settings(&format!("providers.{name}"), provider, &["base_url"], &mut lines);
                }
            }
            (key, value) => push_settings(key, value, &mut lines),
        }
    }
    Some(lines)
}

/// A worker or an MCP server: its command or URL, then all other keys of its table.
fn push_program(what: &str, path: &str, table: &Value, lines: &mut Vec<ReviewLine>) {
    if let Some(command) = table.get("command") {
        let words = command.as_array().map(Vec::as_slice).unwrap_or_default();
        let command = words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        push_line(lines, RiskKind::StartsProgram, &format!("starts `{command}` as {what}"));
    }
    if let Some(url) = table.get("url") {
        push_line(lines, RiskKind::Address, &format!("uses the {what} at {}", url.as_str().unwrap_or_default()));
    }
    push_other_settings(path, table, &["command", "url", "name"], lines);
}

fn push_other_settings(path: &str, table: &Value, said: &[&str], lines: &mut Vec<ReviewLine>) {
    let keys = table.as_table().into_iter().flatten().filter(|(key, _)| !said.contains(&key.as_str()));
    keys.for_each(|(key, value)| push_settings(&format!("{path}.{key}"), value, lines));
}

fn push_settings(path: &str, value: &Value, lines: &mut Vec<ReviewLine>) {
    if let Some(keys) = value.as_table().filter(|keys| !keys.is_empty()) {
        keys.iter().for_each(|(key, value)| push_settings(&format!("{path}.{key}"), value, lines));
        return;
    }
    let danger = risk_of(path);
    let value = if danger == RiskKind::Harmless { clipped(value) } else { value.to_string() };
    push_line(lines, danger, &format!("sets `{path}` to {value}"));
}

/// Classifies by segments of the key. A false positive costs only a line of output.
fn risk_of(path: &str) -> RiskKind {
    const WORDS: &[(RiskKind, &[&str])] = &[
        (RiskKind::StartsProgram, &["command", "enabled"]),
        (RiskKind::LoadsPlugin, &["wasm", "grants", "settings", "plugin", "sha256", "weights"]),
        (RiskKind::Approval, &["approval", "pairing", "expose", "allow_pickle", "unregistered", "tools"]),
        (
            RiskKind::Address,
            &[
                "url",
                "base_url",
                "listen",
                "insecure",
                "token",
                "api_key",
                "secret",
                "secrets",
                "keys",
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
                "unix_socket",
                "private_ports",
            ],
        ),
        (
            RiskKind::FileAccess,
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
        (RiskKind::Environment, &["env"]),
    ];
    let words: Vec<&str> = path.split('.').collect();
    let known = WORDS.iter().find(|(_, known)| words.iter().any(|word| known.contains(word)));
    known.map_or(RiskKind::Harmless, |(danger, _)| *danger)
}

fn push_line(lines: &mut Vec<ReviewLine>, danger: RiskKind, text: &str) {
    lines.push(ReviewLine { risk: danger, text: one_line(text) });
}

fn grants_text(plugin: &Value) -> String {
    match plugin.get("grants") {
        Some(grants) => format!("with the grants {grants}"),
        None => "without grants".to_owned(),
    }
}

fn text_of(table: &Value, key: &str) -> String {
    table.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn clipped(value: &Value) -> String {
    cut_chars(&value.to_string(), MAX_HARMLESS_CHARS).into_owned()
}

#[cfg(test)]
mod tests;
