//! Text helpers: escaping of foreign text before a model sees it, and suggestions for mistyped names.

use std::borrow::Cow;
use std::fmt::Write;

mod clip;
mod nearest;

pub use clip::clipped;
pub use nearest::{did_you_mean, nearest};

/// Escapes characters that a human reader does not see, or sees elsewhere than they are, as `\u{202e}`: control
/// characters, marks that change the direction of text, and invisible tags. Line breaks and tabs are kept.
pub(crate) fn escape_hidden(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_hidden(character) {
            // Writing to a string cannot fail.
            let _written = write!(escaped, "{}", character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

fn is_hidden(character: char) -> bool {
    let is_mark = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    );
    is_mark || (character.is_control() && !matches!(character, '\n' | '\t'))
}

#[cfg(test)]
mod tests;
