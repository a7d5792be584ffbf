//! Text helpers: cutting, escaping of foreign text before a model or a terminal shows it, and suggestions for mistyped
//! names.

use std::borrow::Cow;

mod clip;
mod nearest;
mod title;

pub use clip::clipped;
pub use nearest::{did_you_mean, nearest};
pub use title::title;

/// Appended to a text that was cut.
const CUT_MARK: char = '…';

/// The longest prefix of at most `max_bytes`.
pub fn cut(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or(text)
}

/// At most `max_bytes` of the text, followed by `…` if it was cut.
pub fn cut_with_mark(text: &str, max_bytes: usize) -> Cow<'_, str> {
    with_mark(text, cut(text, max_bytes))
}

/// At most `max_chars` characters of the text, followed by `…` if it was cut.
pub fn cut_chars(text: &str, max_chars: usize) -> Cow<'_, str> {
    let end = text.char_indices().nth(max_chars).map_or(text.len(), |(end, _)| end);
    with_mark(text, text.get(..end).unwrap_or(text))
}

/// At most `max_bytes` of the text; if it was cut, followed by a line for the model with the sizes.
pub fn cut_with_size(text: &str, max_bytes: usize) -> Cow<'_, str> {
    let shown = cut(text, max_bytes);
    if shown.len() == text.len() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{shown}\n[cut: {} of {} bytes shown]", shown.len(), text.len()))
}

/// Replaces each control character, line breaks included, with a space.
pub fn controls_as_spaces(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// For a model: escapes characters that are invisible to a human reader or displayed out of order, as `\u{202e}`. Keeps
/// line breaks, tabs and the zero-width space, which prompts insert into tags to keep them from closing.
pub(crate) fn escape_hidden(text: &str) -> Cow<'_, str> {
    let is_escaped = |character| is_hidden(character) && !matches!(character, '\n' | '\t' | '\u{200b}');
    escape(text, is_escaped, char::escape_unicode)
}

/// For a terminal: as `escape_hidden`, and also escapes the zero-width space. Carriage returns become `\r`.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |character| is_hidden(character) && !matches!(character, '\n' | '\t'), char::escape_default)
}

/// For one line of a terminal or log: also escapes line breaks and tabs, as `\n` and `\t`.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, is_hidden, char::escape_default)
}

/// Control characters, bidirectional marks, and zero-width characters.
fn is_hidden(character: char) -> bool {
    let is_mark = matches!(
        character,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    );
    is_mark || character.is_control()
}

fn escape<E: Iterator<Item = char>>(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    escaped: impl Fn(char) -> E,
) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_escaped(character) { shown.extend(escaped(character)) } else { shown.push(character) }
    }
    Cow::Owned(shown)
}

fn with_mark<'a>(text: &'a str, shown: &'a str) -> Cow<'a, str> {
    if shown.len() == text.len() { Cow::Borrowed(text) } else { Cow::Owned(format!("{shown}{CUT_MARK}")) }
}

#[cfg(test)]
mod tests;
