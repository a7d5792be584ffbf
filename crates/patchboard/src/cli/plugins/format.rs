//! Plugins as text. Everything from plugins is sanitised for the terminal here.

use super::report::PluginReport;
use crate::output::{self, Column, PageLayout, TableCell, TextRole, TextTable};

/// Shown for an empty value.
const NONE: &str = "–";
/// Shown digits of a hash.
const SHORT: usize = 12;

/// A row per plugin, with its error or pending approval below.
pub(super) fn plugins(plugins: &[PluginReport], page: PageLayout) -> Vec<String> {
    if plugins.is_empty() {
        return vec!["no plugin is there: [[plugins]], or a file in the plugins folder, adds one".to_owned()];
    }
    let mut table = TextTable::new([
        Column::whole("NAME"),
        Column::whole("STATE"),
        Column::whole("KINDS"),
        Column::number("CALLS"),
        Column::whole("SHA256"),
        Column::wrap("GRANTS"),
        Column::wrap("TOOLS"),
    ]);
    for plugin in plugins {
        table.push_row(row(plugin));
        remarks(plugin).iter().for_each(|remark| table.add_remark(remark));
    }
    table.lines(page)
}

/// `loaded echo: ready, 0123456789ab, tools echo, shout`
pub(super) fn change_line(done: &str, plugin: &PluginReport) -> String {
    let mut line = format!("{done} {}: {}", plugin.name, plugin.state);
    if let Some(sha256) = &plugin.sha256 {
        line.push_str(&format!(", {}", short(sha256)));
    }
    if !plugin.tools.is_empty() {
        line.push_str(&format!(", tools {}", plugin.tools.join(", ")));
    }
    output::one_line(&line)
}

fn row(plugin: &PluginReport) -> [TableCell; 7] {
    let listed = |items: &[String]| TableCell::from(if items.is_empty() { NONE.to_owned() } else { items.join(", ") });
    let is_well = plugin.error.is_none() && plugin.waiting_for_approval.is_none();
    [
        TableCell::painted(&plugin.name, TextRole::Name),
        TableCell::painted(&plugin.state, if is_well { TextRole::Good } else { TextRole::Bad }),
        listed(&plugin.kinds),
        plugin.calls.to_string().into(),
        plugin.sha256.as_deref().map_or_else(|| NONE.to_owned(), short).into(),
        listed(&plugin.grants),
        listed(&plugin.tools),
    ]
}

fn remarks(plugin: &PluginReport) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(error) = &plugin.error {
        lines.push(error.trim_end().to_owned());
    }
    if let Some(waiting) = &plugin.waiting_for_approval {
        lines.push(format!("a newer version waits for `patchboard plugins approve {}`:", plugin.name));
        lines.extend(waiting.changes.iter().map(|change| format!("- {change}")));
    }
    lines
}

fn short(sha256: &str) -> String {
    sha256.chars().take(SHORT).collect()
}

#[cfg(test)]
mod tests;
