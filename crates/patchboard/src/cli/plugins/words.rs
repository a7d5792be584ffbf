//! Plugins in words, for people. Whatever came from plugins is made fit for a terminal here.

use super::report::Plugin;
use crate::cli::output;

/// Where there is nothing to show.
const NONE: &str = "–";
/// Digits of a hash that tell two versions apart.
const SHORT: usize = 12;

/// A row for each plugin, and beneath it what is wrong with it or what it waits for.
pub(super) fn plugins(plugins: &[Plugin]) -> Vec<String> {
    if plugins.is_empty() {
        return vec!["no plugin is there: [[plugins]], or a file in the plugins folder, adds one".to_owned()];
    }
    let rows: Vec<Vec<String>> = plugins.iter().map(row).collect();
    let mut table =
        output::columns(&["NAME", "STATE", "KINDS", "CALLS", "SHA256", "GRANTS", "TOOLS"], &rows).into_iter();
    let mut lines: Vec<String> = table.next().into_iter().collect();
    for (line, plugin) in table.zip(plugins) {
        lines.push(line);
        lines.extend(beneath(plugin).into_iter().map(|said| format!("  {said}")));
    }
    lines
}

/// `loaded echo: ready, 0123456789ab, tools echo, shout`
pub(super) fn changed(done: &str, plugin: &Plugin) -> String {
    let mut said = format!("{done} {}: {}", plugin.name, plugin.state);
    if let Some(sha256) = &plugin.sha256 {
        said.push_str(&format!(", {}", short(sha256)));
    }
    if !plugin.tools.is_empty() {
        said.push_str(&format!(", tools {}", plugin.tools.join(", ")));
    }
    output::one_line(&said)
}

fn row(plugin: &Plugin) -> Vec<String> {
    let listed = |items: &[String]| if items.is_empty() { NONE.to_owned() } else { items.join(", ") };
    vec![
        plugin.name.clone(),
        plugin.state.clone(),
        listed(&plugin.kinds),
        plugin.calls.to_string(),
        plugin.sha256.as_deref().map_or_else(|| NONE.to_owned(), short),
        listed(&plugin.grants),
        listed(&plugin.tools),
    ]
}

fn beneath(plugin: &Plugin) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(error) = &plugin.error {
        lines.push(output::one_line(error));
    }
    if let Some(waiting) = &plugin.waiting_for_approval {
        let name = output::one_line(&plugin.name);
        lines.push(format!("a newer version waits for `patchboard plugins approve {name}`:"));
        lines.extend(waiting.changes.iter().map(|change| format!("- {}", output::one_line(change))));
    }
    lines
}

fn short(sha256: &str) -> String {
    sha256.chars().take(SHORT).collect()
}

#[cfg(test)]
mod tests;
