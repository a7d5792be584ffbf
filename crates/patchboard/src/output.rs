//! The only module that prints. Standard output is for what the user asked for, standard error for everything else.
//!
//! * `paint` – colour, if the terminal supports it.
//! * `table` – every listing.
//! * `width` – the width of text, and how it is made to fit.
//! * `clock` – times in local time.

use std::io::{self, Write};

use patchboard_core::text::{escape_line, escape_lines};

pub(crate) mod clock;
mod paint;
pub(crate) mod screen;
mod table;
mod width;

pub(crate) use paint::{OutputStream, TextRole, colour, paint};
pub(crate) use table::{Column, PageLayout, TableCell, TextTable};
pub(crate) use width::{cut, wrap};

/// Sanitises untrusted text for a terminal: control characters, which could move the cursor, change the title or hide
/// text, are escaped.
pub(crate) fn plain(text: &str) -> String {
    escape_lines(text).into_owned()
}

/// The same, with line breaks escaped too.
pub(crate) fn one_line(text: &str) -> String {
    escape_line(text).into_owned()
}

/// Prints a line of output. A closed pipe is not an error: the reader has finished.
pub(crate) fn print_line(text: &str) {
    let mut out = io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")));
}

/// Prints a partial line and flushes it.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

pub(crate) fn eprint_line(text: &str) {
    let mut out = io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")));
}

/// Prints a partial line to standard error and flushes it.
pub(crate) fn eprint(text: &str) {
    let mut out = io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Prints and flushes output of a command that runs until its reader closes the pipe, which is the error.
pub(crate) fn try_print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
