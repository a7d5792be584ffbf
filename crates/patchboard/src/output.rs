//! The only place that prints. Standard output is for what the user asked for, standard error for everything else.
//!
//! * `paint` – colour, where there is a terminal that shows it.
//! * `table` – every listing.
//! * `width` – how much room text takes, and how it is made to fit.
//! * `clock` – times as the user's clock shows them.
//! * `screen` – a block that is drawn again in its place.

use std::io::{self, Write};

pub(crate) mod clock;
mod paint;
pub(crate) mod screen;
mod table;
mod width;

pub(crate) use paint::{OutputStream, TextRole, colour, paint};
pub(crate) use table::{Column, PageLayout, TableCell, TextTable};
pub(crate) use width::{cut, wrap};

/// Text that came from elsewhere, fit for a terminal: control characters, which could move the cursor, change the
/// title or hide what follows, are shown as what they are.
pub(crate) fn plain(text: &str) -> String {
    escape_where(text, |c| is_hidden(c) && c != '\n' && c != '\t')
}

/// The same on one line.
pub(crate) fn one_line(text: &str) -> String {
    escape_where(text, is_hidden)
}

/// Acts on a terminal, or makes what is read differ from what is there.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}

fn escape_where(text: &str, hidden: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// A whole line of what was asked for. A closed pipe is not an error: the reader has enough.
pub(crate) fn print_line(text: &str) {
    let mut out = io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")));
}

/// A part of a line, shown at once.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

pub(crate) fn eprint_line(text: &str) {
    let mut out = io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")));
}

/// A part of a line that was not asked for, shown at once.
pub(crate) fn eprint(text: &str) {
    let mut out = io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// What was asked for, shown at once, by a command that goes on until nobody reads any more: then it fails.
pub(crate) fn try_print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
