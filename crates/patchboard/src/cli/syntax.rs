//! Reports errors of the command line in the format of other failures, with suggestions.

use std::error::Error as _;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, FromArgMatches};
use patchboard_core::text::{did_you_mean, nearest};

use super::failure::CommandFailure;
use super::{Cli, help};
use crate::output;

/// Common names for commands that are called differently here.
const COMMAND_SYNONYMS: &[(&str, &str)] = &[
    ("ask", "chat"),
    ("init", "onboard"),
    ("login", "onboard"),
    ("setup", "onboard"),
    ("start", "serve"),
    ("up", "serve"),
    ("app", "hub clients"),
    ("apps", "hub clients"),
    ("clients", "hub clients"),
    ("message", "hub messages"),
    ("say", "hub send"),
];

/// Parses this process's command line. Otherwise prints help or the error and returns the exit code.
pub(super) fn parse() -> Result<Cli, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    parse_words(&words).map_err(|error| {
        let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
        if is_help || error.exit_code() == 0 {
            // A closed pipe is not an error: the reader has finished.
            drop(error.print());
            return if is_help { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
        parse_failure(&error, &words).report()
    })
}

fn parse_words(words: &[OsString]) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches_mut(&mut help::command().try_get_matches_from(words)?)
}

fn parse_failure(error: &clap::Error, words: &[OsString]) -> CommandFailure {
    let mut root = help::command();
    root.build();
    let context_value = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(" "),
        Some(ContextValue::StyledStr(text)) => text.to_string(),
        _ => String::new(),
    };
    let argument = context_value(ContextKind::InvalidArg);
    let at = MatchedCommand::new(&root, words, &context_value(ContextKind::InvalidSubcommand));
    let (message, hint) = match error.kind() {
        ErrorKind::InvalidSubcommand => at.unknown_command(&root, &context_value(ContextKind::InvalidSubcommand)),
        ErrorKind::UnknownArgument => at.unknown_argument(words, &argument),
        ErrorKind::InvalidValue => {
            let value = context_value(ContextKind::InvalidValue);
            let choices = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(choices)) => choices.as_slice(),
                _ => &[],
            };
            let hint = match choices {
                [] => at.see_help(),
                choices => {
                    let all = format!("it is one of {}", choices.join(", "));
                    did_you_mean(&value, choices.iter().map(String::as_str), &all)
                }
            };
            let name = name_of(&argument);
            let message = match value.as_str() {
                "" => format!("{name} needs a value"),
                value => format!("`{value}` is nothing that {name} can be"),
            };
            (message, hint)
        }
        ErrorKind::ValueValidation => {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            let value = context_value(ContextKind::InvalidValue);
            (format!("`{value}` is nothing that {} can be: {why}", name_of(&argument)), at.see_help())
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(missing)) => missing.join(" and "),
                _ => argument,
            };
            (format!("`{}` needs {missing}", at.path), at.usage())
        }
        ErrorKind::ArgumentConflict => {
            let other = context_value(ContextKind::PriorArg);
            let other = if other.is_empty() { "what else was given".to_owned() } else { name_of(&other).to_owned() };
            (format!("{} and {other} cannot be used together", name_of(&argument)), at.usage())
        }
        ErrorKind::MissingSubcommand
        | ErrorKind::NoEquals
        | ErrorKind::TooManyValues
        | ErrorKind::TooFewValues
        | ErrorKind::WrongNumberOfValues
        | ErrorKind::InvalidUtf8
        | ErrorKind::DisplayHelp
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::DisplayVersion
        | ErrorKind::Io
        | ErrorKind::Format
        | _ => {
            let text = error.render().to_string();
            let line = text.lines().next().unwrap_or_default();
            (line.strip_prefix("error: ").unwrap_or(line).to_owned(), at.see_help())
        }
    };
    CommandFailure::unusable(output::one_line(&message)).hint(output::one_line(&hint))
}

/// `--by` of `--by <BY>`.
fn name_of(argument: &str) -> &str {
    argument.split([' ', '=']).next().unwrap_or(argument)
}

/// The innermost command named by the arguments.
struct MatchedCommand<'a> {
    command: &'a Command,
    /// `patchboard hub send`
    path: String,
}

impl<'a> MatchedCommand<'a> {
    /// Stops at the word `stop`.
    fn new(root: &'a Command, words: &[OsString], stop: &str) -> Self {
        let mut reached = Self { command: root, path: root.get_name().to_owned() };
        for word in words.iter().skip(1).filter_map(|word| word.to_str()).take_while(|word| *word != stop) {
            if let Some(command) = reached.command.find_subcommand(word) {
                reached = Self { command, path: format!("{} {}", reached.path, command.get_name()) };
            }
        }
        reached
    }

    fn unknown_command(&self, root: &Command, word: &str) -> (String, String) {
        let message = format!("there is no command `{} {word}`", self.path);
        let names = self.command.get_subcommands().map(Command::get_name);
        if let Some(meant) = nearest(word, names) {
            return (message, format!("did you mean `{} {meant}`?", self.path));
        }
        let called = || COMMAND_SYNONYMS.iter().find(|(also, _)| *also == word).map(|(_, path)| (*path).to_owned());
        // Inside a group only that group's commands are suggested; a word that several groups share is ambiguous.
        let is_first = self.command.get_name() == root.get_name();
        let meant = if is_first { called().or_else(|| only_path(root, word)) } else { None };
        let hint = match meant {
            Some(path) => format!("did you mean `{} {path}`?", root.get_name()),
            None => format!("`{} --help` lists the commands", self.path),
        };
        (message, hint)
    }

    fn unknown_argument(&self, words: &[OsString], argument: &str) -> (String, String) {
        if !argument.starts_with('-') {
            let message = format!("`{argument}` is one word too many for `{}`", self.path);
            return (message, format!("put a text of several words in quotes; {}", self.usage()));
        }
        let message = format!("`{}` has no option {argument}", self.path);
        let flags: Vec<String> =
            self.command.get_arguments().filter_map(|flag| Some(format!("--{}", flag.get_long()?))).collect();
        let is_there = flags.iter().any(|flag| flag == argument);
        if is_there {
            // The option was given before its subcommand.
            let rest: Vec<&str> = self.path.split(' ').collect();
            return (
                format!("{argument} stands before its command"),
                format!("write it behind: `{} {argument} …`", rest.join(" ")),
            );
        }
        let is_text =
            words.iter().filter_map(|word| word.to_str()).any(|word| word.starts_with('-') && word.contains(' '));
        let otherwise =
            if is_text { "a text that begins with `-` goes behind `--`".to_owned() } else { self.see_help() };
        (message, did_you_mean(argument, flags.iter().map(String::as_str), &otherwise))
    }

    fn usage(&self) -> String {
        let usage = self.command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").split_whitespace().collect::<Vec<_>>().join(" ");
        format!("usage: {usage}")
    }

    fn see_help(&self) -> String {
        format!("`{} --help` tells what there is", self.path)
    }
}

/// The path of the only subcommand with this name, if it is unique.
fn only_path(root: &Command, word: &str) -> Option<String> {
    let mut found = paths(root).into_iter().filter(|path| path.split(' ').next_back() == Some(word));
    let (path, None) = (found.next()?, found.next()) else { return None };
    Some(path)
}

/// The paths of all subcommands, as they are typed.
fn paths(command: &Command) -> Vec<String> {
    let mut found = Vec::new();
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        let name = below.get_name();
        found.push(name.to_owned());
        found.extend(paths(below).into_iter().map(|path| format!("{name} {path}")));
    }
    found
}

#[cfg(test)]
mod tests;
