//! Colour: on a terminal, unless `NO_COLOR` is set or the terminal is dumb. Output must be understandable without it.

use std::io::{IsTerminal, stderr, stdout};
use std::sync::OnceLock;

use patchboard_config::Environment;
use patchboard_config::env::{NO_COLOR, TERM};

use crate::telemetry::LogColour;

/// An output stream; each may be a terminal or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Out,
    Err,
}

/// The role of a text, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextRole {
    /// A title or a table heading.
    Title,
    /// Something the user can type: a command, a flag, a name.
    Name,
    Good,
    Note,
    Bad,
    /// Less important text.
    Faint,
}

impl TextRole {
    const fn code(self) -> &'static str {
        match self {
            Self::Title => "1",
            Self::Name => "36",
            Self::Good => "32",
            Self::Note => "33",
            Self::Bad => "1;31",
            Self::Faint => "2",
        }
    }
}

/// Whether the stream shows colour; determined once per process.
pub(crate) fn colour(stream: OutputStream) -> LogColour {
    static OUT: OnceLock<LogColour> = OnceLock::new();
    static ERR: OnceLock<LogColour> = OnceLock::new();
    match stream {
        OutputStream::Out => *OUT.get_or_init(|| detect_colour(stdout().is_terminal(), &Environment::from_process())),
        OutputStream::Err => *ERR.get_or_init(|| detect_colour(stderr().is_terminal(), &Environment::from_process())),
    }
}

fn detect_colour(is_terminal: bool, env: &Environment) -> LogColour {
    let is_dumb = env.get(TERM) == Some("dumb");
    if is_terminal && !is_dumb && env.get(NO_COLOR).is_none() { LogColour::On } else { LogColour::Off }
}

/// Adds the colour of a role. The text must be sanitised already.
pub(crate) fn paint(text: &str, role: TextRole, colour: LogColour) -> String {
    match colour {
        LogColour::On if !text.is_empty() => format!("\x1b[{}m{text}\x1b[0m", role.code()),
        LogColour::On | LogColour::Off => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
