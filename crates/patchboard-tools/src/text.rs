//! Paths, values and errors from elsewhere for one line of a message: bounded, and without control characters.

use std::ffi::OsStr;

pub(crate) use patchboard_core::text::clipped;

use patchboard_core::text::{controls_as_spaces, cut_with_mark};

/// Longer paths are cut in messages.
const MAX_PATH_BYTES: usize = 240;
/// Of an error and all its causes.
const MAX_ERROR_CHAIN: usize = 400;

/// A path or name in backticks.
pub(crate) fn quoted(text: impl AsRef<OsStr>) -> String {
    format!("`{}`", clipped(&escape_control_chars(text.as_ref()), MAX_PATH_BYTES))
}

/// A file's name on one line: bytes that are not UTF-8 become `�`, control characters are escaped, so that a name cannot
/// fake another line. Other invisible characters stay: the name is what opens the file.
pub(crate) fn escape_control_chars(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    if !text.chars().any(char::is_control) {
        return text.into_owned();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if character.is_control() { escaped.extend(character.escape_default()) } else { escaped.push(character) }
    }
    escaped
}

/// An error and its causes on one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    cut_with_mark(&controls_as_spaces(&text), MAX_ERROR_CHAIN).into_owned()
}

#[cfg(test)]
mod tests;
