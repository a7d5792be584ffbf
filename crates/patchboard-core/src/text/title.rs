//! Titles: the first words of a text, for lists.

use super::CUT_MARK;

/// Most characters of a title, the mark of a cut one not counted.
const MAX_CHARS: usize = 80;

/// The first words of a text on one line; a longer text is cut after a word and marked. Only the beginning of the text
/// is read.
pub fn title(text: &str) -> String {
    let mut title = String::new();
    let mut length = 0;
    for word in text.split(|character: char| character.is_whitespace() || character.is_control()) {
        if word.is_empty() {
            continue;
        }
        let gap = usize::from(length > 0);
        let room = MAX_CHARS.saturating_sub(length + gap);
        let taken = word.chars().take(room + 1).count();
        if taken > room {
            // A first word that alone is too long is cut within.
            if length == 0 {
                title.extend(word.chars().take(MAX_CHARS));
            }
            title.push(CUT_MARK);
            return title;
        }
        if gap > 0 {
            title.push(' ');
        }
        title.push_str(word);
        length += gap + taken;
    }
    title
}

#[cfg(test)]
mod tests;
