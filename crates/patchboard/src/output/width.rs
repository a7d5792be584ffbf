//! How much room text takes on a terminal, and how it is made to fit. For text without control characters.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// At most so many columns, the last of them an ellipsis where something is missing.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = fitting_prefix(text, columns.saturating_sub(1)).to_owned();
    kept.push('…');
    kept
}

/// Lines of at most so many columns, broken between words; a word that is longer is broken where the line ends.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(2);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let gap = usize::from(!line.is_empty());
        if !line.is_empty() && width(&line) + gap + width(word) > columns {
            lines.push(std::mem::take(&mut line));
        }
        let mut rest = word;
        while width(rest) > columns {
            let part = fitting_prefix(rest, columns);
            lines.push(part.to_owned());
            rest = rest.strip_prefix(part).unwrap_or_default();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(rest);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// As many whole characters as fit. What adds no width stays with the character it follows.
fn fitting_prefix(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find_map(|(index, c)| {
        used += c.width().unwrap_or(0);
        (used > columns).then_some(index)
    });
    text.get(..end.unwrap_or(text.len())).unwrap_or(text)
}

#[cfg(test)]
mod tests;
