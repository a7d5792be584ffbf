//! Slash commands such as `/model` and `/quit`, which are handled by this program and not sent to the agent.
//!
//! Pure: parses a line, and computes completions and hints.

use patchboard_core::text::nearest;

use crate::output::wrap;

/// Completions offered at once; longer lists are of no use.
const MAX_COMPLETIONS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlashCommand {
    Help,
    Model(Option<String>),
    Agent(Option<String>),
    New(Option<String>),
    Sessions(Option<String>),
    Tools(Option<String>),
    Usage,
    Quit,
}

/// The meaning of a typed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedLine {
    Empty,
    /// A message for the agent.
    Message(String),
    Command(SlashCommand),
    /// An unknown or misused command, with the error text.
    Invalid(String),
}

pub(super) struct CommandHelp {
    pub(super) name: &'static str,
    /// The argument, empty if there is none.
    pub(super) argument: &'static str,
    pub(super) about: &'static str,
}

pub(super) const COMMANDS: [CommandHelp; 8] = [
    CommandHelp { name: "/help", argument: "", about: "what can be typed here" },
    CommandHelp { name: "/model", argument: "[MODEL]", about: "show the models, or answer with another one" },
    CommandHelp { name: "/agent", argument: "[AGENT]", about: "show the agents, or talk to another one" },
    CommandHelp { name: "/new", argument: "[NAME]", about: "begin a new conversation; this one is kept" },
    CommandHelp { name: "/sessions", argument: "[NAME]", about: "show the conversations, or go on with one" },
    CommandHelp { name: "/tools", argument: "[NAME]", about: "show the tools, or what one does" },
    CommandHelp { name: "/usage", argument: "", about: "tokens and cost of this chat, and what budgets leave" },
    CommandHelp { name: "/quit", argument: "", about: "leave; Ctrl-D does the same" },
];

/// Names offered by the server for completion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CompletionChoices {
    pub(super) models: Vec<String>,
    pub(super) agents: Vec<String>,
    pub(super) sessions: Vec<String>,
    pub(super) tools: Vec<String>,
}

pub(super) fn parse_line(line: &str) -> ParsedLine {
    // A backslash before a line break continues the line.
    let line = line.replace("\\\n", "\n");
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return ParsedLine::Empty;
    }
    if !is_slash(&line) {
        // A leading space marks a message that begins with `/`; it is not part of the message.
        let message = if trimmed.starts_with('/') { line.trim_start() } else { &line };
        return ParsedLine::Message(message.trim_end().to_owned());
    }
    let (name, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
    let rest = rest.trim();
    let argument = (!rest.is_empty()).then(|| rest.to_owned());
    let slash = match name {
        "/help" | "/?" => SlashCommand::Help,
        "/model" => SlashCommand::Model(argument.clone()),
        "/agent" => SlashCommand::Agent(argument.clone()),
        "/new" => SlashCommand::New(argument.clone()),
        "/sessions" => SlashCommand::Sessions(argument.clone()),
        "/tools" => SlashCommand::Tools(argument.clone()),
        "/usage" => SlashCommand::Usage,
        "/quit" | "/exit" => SlashCommand::Quit,
        // The built-in offline provider has its own `/call` command, so it is sent as a message.
        "/call" => return ParsedLine::Message(trimmed.to_owned()),
        unknown => return ParsedLine::Invalid(unknown_command(unknown)),
    };
    match (&slash, argument) {
        (SlashCommand::Help | SlashCommand::Usage | SlashCommand::Quit, Some(extra)) => {
            ParsedLine::Invalid(format!("{name} takes no `{extra}`"))
        }
        _ => ParsedLine::Command(slash),
    }
}

/// True if a line begins with a command. A path such as `/etc/hosts` does not count.
fn is_slash(line: &str) -> bool {
    let word = line.split(char::is_whitespace).next().unwrap_or_default();
    word.strip_prefix('/').is_some_and(|name| !name.contains('/') && !name.is_empty())
        && !line.trim_end().contains('\n')
}

fn unknown_command(name: &str) -> String {
    let names = || COMMANDS.iter().map(|command| command.name);
    let mut similar: Vec<&str> = names().filter(|known| known.starts_with(name)).collect();
    similar.extend(nearest(name, names()).filter(|suggestion| !similar.contains(suggestion)));
    let suggestion = match similar.as_slice() {
        [] => String::new(),
        similar => format!(": did you mean {}?", similar.join(" or ")),
    };
    format!(
        "there is no command {name}{suggestion}\nhint: /help shows what there is; a message that begins with / is sent with a space before it"
    )
}

/// Completions for the end of `line`, with the offset they replace.
pub(super) fn completions(line: &str, choices: &CompletionChoices) -> (usize, Vec<String>) {
    let Some((name, argument)) = line.split_once(' ') else {
        let named = COMMANDS.iter().filter(|command| line.starts_with('/') && command.name.starts_with(line));
        let candidates = named.map(|command| match command.argument {
            "" => command.name.to_owned(),
            _ => format!("{} ", command.name),
        });
        return (0, candidates.collect());
    };
    let values = match name {
        "/model" => &choices.models,
        "/agent" => &choices.agents,
        "/sessions" => &choices.sessions,
        "/tools" => &choices.tools,
        _ => return (line.len(), Vec::new()),
    };
    let word = argument.trim_start();
    let start = line.len() - word.len();
    // Matches at the beginning come first, then matches elsewhere, such as a model's name after its provider.
    let begins = values.iter().filter(|one| one.starts_with(word));
    let holds = values.iter().filter(|one| !one.starts_with(word) && !word.is_empty() && one.contains(word));
    (start, begins.chain(holds).take(MAX_COMPLETIONS).cloned().collect())
}

/// The hint behind a partial command: its rest, which can be accepted, and its description.
pub(super) fn hint(line: &str) -> Option<(String, String)> {
    if !line.starts_with('/') || line.len() < 2 || line.contains(char::is_whitespace) {
        return None;
    }
    let mut named = COMMANDS.iter().filter(|command| command.name.starts_with(line));
    let (command, None) = (named.next()?, named.next()) else { return None };
    let rest = command.name.get(line.len()..).unwrap_or_default().to_owned();
    let shown = [command.argument, command.about].into_iter().filter(|part| !part.is_empty());
    Some((rest, format!("  {}", shown.collect::<Vec<_>>().join("  "))))
}

/// One command per line, wrapped to `columns`.
pub(super) fn help(columns: usize) -> Vec<String> {
    let wide = COMMANDS.iter().map(|one| one.name.len() + 1 + one.argument.len()).max().unwrap_or(0);
    let room = columns.saturating_sub(wide + 2).max(MIN_HELP_COLUMNS);
    let mut lines = Vec::new();
    for one in &COMMANDS {
        let names = std::iter::once(format!("{} {}", one.name, one.argument)).chain(std::iter::repeat(String::new()));
        let about = names.zip(wrap(one.about, room));
        lines.extend(about.map(|(name, part)| format!("{:wide$}  {part}", name.trim_end())));
    }
    lines.push(String::new());
    lines.extend(KEY_HELP.iter().flat_map(|text| wrap(text, columns.max(MIN_HELP_COLUMNS))));
    lines
}

/// Minimum width of a description; narrower text would be one word per line.
const MIN_HELP_COLUMNS: usize = 20;
const KEY_HELP: [&str; 3] = [
    "Tab completes commands, models, agents and conversations. Arrow keys edit the line and go through what was said \
     before, Ctrl-R searches it.",
    "Pasted lines stay one message; a \\ at the end of a line begins another. A space before a line keeps it out of the \
     history.",
    "Ctrl-C stops an answer, Ctrl-D leaves.",
];

#[cfg(test)]
mod tests;
