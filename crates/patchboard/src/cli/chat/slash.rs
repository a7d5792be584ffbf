//! What a person types that is for this program and not for the agent: `/model`, `/quit` and the like.
//!
//! Pure: a line in, what is meant out; and what a line may go on to.

use patchboard_core::text::nearest;

use crate::output::wrap;

/// Completions offered at once; a longer list helps nobody.
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

/// What a typed line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedLine {
    Empty,
    /// For the agent.
    Message(String),
    Command(SlashCommand),
    /// A command there is none of, or one that is used wrongly: why.
    Invalid(String),
}

pub(super) struct CommandHelp {
    pub(super) name: &'static str,
    /// What may follow, empty for nothing.
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

/// What the server offers to choose from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CompletionChoices {
    pub(super) models: Vec<String>,
    pub(super) agents: Vec<String>,
    pub(super) sessions: Vec<String>,
    pub(super) tools: Vec<String>,
}

pub(super) fn parse_line(line: &str) -> ParsedLine {
    // A line's end after a backslash was typed, not meant as an end.
    let line = line.replace("\\\n", "\n");
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return ParsedLine::Empty;
    }
    if !is_slash(&line) {
        // The space that says that it is no command is not a part of the message.
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
        // What the built-in offline provider tells people to type is said to it.
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

/// Begins with a command's mark. A path at the beginning of a message, `/etc/hosts`, does not.
fn is_slash(line: &str) -> bool {
    let word = line.split(char::is_whitespace).next().unwrap_or_default();
    word.strip_prefix('/').is_some_and(|name| !name.contains('/') && !name.is_empty())
        && !line.trim_end().contains('\n')
}

fn unknown_command(name: &str) -> String {
    let names = || COMMANDS.iter().map(|command| command.name);
    let mut near: Vec<&str> = names().filter(|known| known.starts_with(name)).collect();
    near.extend(nearest(name, names()).filter(|meant| !near.contains(meant)));
    let meant = match near.as_slice() {
        [] => String::new(),
        near => format!(": did you mean {}?", near.join(" or ")),
    };
    format!(
        "there is no command {name}{meant}\nhint: /help shows what there is; a message that begins with / is sent with a space before it"
    )
}

/// What stands at the end of `line` may become one of these; the number is where it begins.
pub(super) fn completions(line: &str, choices: &CompletionChoices) -> (usize, Vec<String>) {
    let Some((name, argument)) = line.split_once(' ') else {
        let named = COMMANDS.iter().filter(|command| line.starts_with('/') && command.name.starts_with(line));
        let words = named.map(|command| match command.argument {
            "" => command.name.to_owned(),
            _ => format!("{} ", command.name),
        });
        return (0, words.collect());
    };
    let known = match name {
        "/model" => &choices.models,
        "/agent" => &choices.agents,
        "/sessions" => &choices.sessions,
        "/tools" => &choices.tools,
        _ => return (line.len(), Vec::new()),
    };
    let word = argument.trim_start();
    let start = line.len() - word.len();
    // What begins so comes first; for a model also what is called so by its provider.
    let begins = known.iter().filter(|one| one.starts_with(word));
    let holds = known.iter().filter(|one| !one.starts_with(word) && !word.is_empty() && one.contains(word));
    (start, begins.chain(holds).take(MAX_COMPLETIONS).cloned().collect())
}

/// What is shown behind a command that is being typed: its rest, which may be taken over, and what it is for.
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

/// Below each other, within so many columns.
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

/// Narrower, help would be a column of words.
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
