//! Cuts long text into messages at good places, for services that take messages of a certain length.

/// What a service takes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of one message, as `width` measures it.
    pub size: usize,
    /// What one character counts.
    pub width: fn(char) -> usize,
    /// So many messages at most; then one more says how much is missing.
    pub messages: usize,
}

/// The text as messages in their order, none of them blank. Joined they are the text, but for white space at the cuts.
#[must_use]
pub fn messages(text: &str, limits: Limits) -> Vec<String> {
    let mut messages = Vec::new();
    let mut rest = text.trim_end().trim_start_matches(['\n', '\r']);
    while !rest.is_empty() {
        if messages.len() == limits.messages {
            messages.push(format!("[… and {} more characters that do not fit here]", rest.chars().count()));
            break;
        }
        let (message, after) = cut(rest, limits);
        let message = message.trim_end();
        if !message.is_empty() {
            messages.push(message.to_owned());
        }
        rest = after;
    }
    messages
}

/// The first message, at least one character, and what is left: without the white space of the cut, but with the
/// indentation of the line it starts with.
fn cut(text: &str, limits: Limits) -> (&str, &str) {
    let end = fitting(text, limits);
    let (window, after) = text.split_at_checked(end).unwrap_or((text, ""));
    // A message that is less than half full because of a better place would make many of few.
    let late = |at: &usize| *at >= end / 2;
    let split = |at: usize, blank: &[char]| {
        (text.get(..at).unwrap_or(text), text.get(at..).unwrap_or_default().trim_start_matches(blank))
    };
    if after.is_empty() {
        return (text, "");
    }
    let ends_line = after.starts_with('\n').then_some(end);
    let paragraph = || window.rfind("\n\n").filter(late);
    let line = || window.rfind('\n').filter(late);
    if let Some(at) = ends_line.or_else(paragraph).or_else(line) {
        return split(at, &['\n', '\r']);
    }
    let ends_word = after.starts_with(char::is_whitespace).then_some(end);
    let word = || window.rfind(char::is_whitespace).filter(late);
    if let Some(at) = ends_word.or_else(word) {
        return split(at, &['\n', '\r', '\t', ' ']);
    }
    split(between_characters(text, end), &[])
}

/// How many bytes fit into one message.
fn fitting(text: &str, limits: Limits) -> usize {
    let mut width = 0;
    for (at, one) in text.char_indices() {
        width += (limits.width)(one);
        if width > limits.size {
            return at.max(text.chars().next().map_or(0, char::len_utf8));
        }
    }
    text.len()
}

/// Moves a cut to the front of what people see as one character, such as a letter with its accent or a family of emoji.
fn between_characters(text: &str, end: usize) -> usize {
    /// A longer chain is no writing.
    const CHAIN: usize = 16;
    let before = text.get(..end).unwrap_or(text);
    let mut next = text.get(end..).and_then(|after| after.chars().next());
    for (at, one) in before.char_indices().rev().take(CHAIN) {
        if !next.is_some_and(joins) && one != JOINER {
            return at + one.len_utf8();
        }
        next = Some(one);
    }
    end
}

const JOINER: char = '\u{200d}';

/// Whether a character belongs to the one before it.
fn joins(one: char) -> bool {
    one == JOINER
        || matches!(one,
            '\u{300}'..='\u{36f}' | '\u{fe00}'..='\u{fe0f}' | '\u{20d0}'..='\u{20ff}' | '\u{1f3fb}'..='\u{1f3ff}')
}

#[cfg(test)]
mod tests;
