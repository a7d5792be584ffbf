//! The overview page of help: commands in groups, the most important first, within 80 columns.

use clap::builder::StyledStr;
use clap::builder::styling::{AnsiColor, Effects, Style, Styles};
use clap::{Command, CommandFactory};

use super::Cli;

/// Every command must be listed here. The first group is all a new user needs.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start here", &["serve", "chat", "run", "onboard", "doctor"]),
    ("Work", &["hub", "tools", "approvals", "runs", "attach", "sessions", "memory"]),
    ("Look", &["status", "models", "workers", "plugins", "channels", "usage", "audit", "figures", "faults", "logs"]),
    ("Run the server", &["config", "trust", "keys", "reload", "stop", "account"]),
    ("More", &["mcp", "completions", "explain"]),
];
/// The column of descriptions.
const MARGIN: usize = 15;
const TITLE: Style = Style::new().effects(Effects::BOLD);
const NAME: Style = AnsiColor::Cyan.on_default();

/// The complete clap command, used for parsing, completion and help.
pub(super) fn command() -> Command {
    let styles = Styles::plain().header(TITLE).usage(TITLE).literal(NAME);
    let command = Cli::command().styles(styles);
    let groups = groups(&command);
    command.help_template(StyledStr::from(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{TITLE}Options:{TITLE:#}\n{{options}}\n\n\
         `patchboard COMMAND --help` tells more about a command. With nothing configured,\n\
         `patchboard chat` works at once; `patchboard onboard` chooses a model.\n"
    )))
}

fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        let found: Vec<&Command> = names.iter().filter_map(|name| command.find_subcommand(name)).collect();
        if found.is_empty() {
            continue;
        }
        text.push_str(&format!("{TITLE}{title}:{TITLE:#}\n"));
        for one in found {
            let (name, about) = (one.get_name(), one.get_about().map(ToString::to_string).unwrap_or_default());
            let space = " ".repeat(MARGIN.saturating_sub(name.len() + 2).max(1));
            text.push_str(&format!("  {NAME}{name}{NAME:#}{space}{}\n", about.trim_end_matches('.')));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
