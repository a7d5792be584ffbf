//! The width of text on a terminal, cutting and wrapping. For text without control characters.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// At most `columns` columns, with an ellipsis if the text was cut.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = fitting_prefix(text, columns.saturating_sub(1)).to_owned();
    kept.push('…');
    kept
}

/// Lines of at most `columns` columns, broken between words; a longer word is broken at the line's end.
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

/// The characters that fit. Zero-width characters stay with the one before.
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
