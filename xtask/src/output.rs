//! The only place that writes to the terminal.

use std::fmt;
use std::io::{IsTerminal, Write};

/// Prints one line to stdout.
macro_rules! say {
    ($($part:tt)*) => { $crate::output::line(format_args!($($part)*)) };
}
pub(crate) use say;

pub(crate) fn line(text: fmt::Arguments<'_>) {
    let mut stdout = std::io::stdout().lock();
    if writeln!(stdout, "{text}").is_err() {
        // The reader went away (`cargo xtask … | head`); nobody is left to tell.
        std::process::exit(1);
    }
}

/// Prints one line to stderr.
pub(crate) fn complain(text: &str) {
    let mut stderr = std::io::stderr().lock();
    if writeln!(stderr, "{text}").is_err() {
        std::process::exit(1);
    }
}

/// Whether a person is looking, so that children may use colour although their output passes through us.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}
