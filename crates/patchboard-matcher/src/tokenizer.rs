//! Splits text into comparable words: lower case, no accents, contractions expanded, each with its stem and weight.
//! Scripts without spaces become pairs of characters.

use std::collections::HashSet;
use std::sync::LazyLock;

mod fold;
mod stem;
mod stop_words;

pub(super) use stem::stem;

/// Characters read of a text: the app is usually named early, and a pasted page must not cost more than a long
/// sentence.
const MAX_CHARACTERS: usize = 4096;
pub(super) const MAX_WORDS: usize = 160;
/// Longer runs of letters are not words; the part cut off could not match anything.
const MAX_WORD_BYTES: usize = 40;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct WordToken {
    /// Case-folded, but not stemmed.
    pub(super) text: String,
    pub(super) stem: String,
    /// From 0 (no topic) to 1.
    pub(super) weight: f32,
    /// The clause or list boundary after this word, if any.
    pub(super) boundary: TokenBoundary,
}

impl WordToken {
    pub(super) fn is_number(&self) -> bool {
        self.text.bytes().all(|byte| byte.is_ascii_digit())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenBoundary {
    Absent,
    Phrase,
    Sentence,
}

pub(super) fn tokenize(text: &str) -> Vec<WordToken> {
    let mut reader = Tokenizer::default();
    for character in text.chars().take(MAX_CHARACTERS) {
        if reader.words.len() >= MAX_WORDS {
            break;
        }
        reader.read(character);
    }
    reader.flush();
    let mut words = reader.words;
    words.truncate(MAX_WORDS);
    words
}

/// The weight of an English word by itself.
fn weight(text: &str, stem: &str) -> f32 {
    static FUNCTION: LazyLock<HashSet<&'static str>> =
        LazyLock::new(|| stop_words::FUNCTION_WORDS.split_whitespace().collect());
    static VAGUE: LazyLock<HashSet<String>> =
        LazyLock::new(|| stop_words::VAGUE_WORDS.split_whitespace().map(self::stem).collect());
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0.1;
    }
    if text.len() == 1 && text.is_ascii() {
        return 0.0;
    }
    match () {
        () if FUNCTION.contains(text) => 0.0,
        () if VAGUE.contains(stem) => 0.3,
        () => 1.0,
    }
}

#[derive(Debug, Default)]
struct Tokenizer {
    words: Vec<WordToken>,
    /// The word being read; an apostrophe inside is kept until the word is complete.
    current: String,
    /// The previous character of an unspaced run.
    previous: Option<char>,
}

impl Tokenizer {
    fn read(&mut self, character: char) {
        if fold::is_unspaced(character) {
            self.finish_word();
            self.unspaced(character);
        } else if character.is_alphanumeric() {
            self.previous = None;
            if self.current.len() < MAX_WORD_BYTES {
                fold::push(character, &mut self.current);
            }
        } else if fold::is_apostrophe(character) && !self.current.is_empty() {
            self.current.push('\'');
        } else if !fold::is_mark(character) {
            self.finish_word();
            self.previous = None;
            if fold::is_pictograph(character) {
                self.push(character.to_string());
            }
            let boundary = match character {
                '.' | '!' | '?' | '\n' | '。' | '？' | '！' => TokenBoundary::Sentence,
                ',' | ';' | ':' | '(' | ')' | '、' | '，' | '–' | '—' => TokenBoundary::Phrase,
                _ => TokenBoundary::Absent,
            };
            if let (Some(last), true) = (self.words.last_mut(), boundary != TokenBoundary::Absent) {
                last.boundary = boundary;
            }
        }
    }

    /// Emits pairs of characters, and the first character alone, so that a single character is not lost.
    fn unspaced(&mut self, character: char) {
        match self.previous.replace(character) {
            Some(previous) => self.push([previous, character].iter().collect()),
            None => self.push(character.to_string()),
        }
    }

    fn flush(&mut self) {
        self.finish_word();
    }

    fn finish_word(&mut self) {
        if self.current.is_empty() {
            return;
        }
        let raw = std::mem::take(&mut self.current);
        let raw = raw.trim_end_matches('\'');
        if let Some((head, tail)) = raw.rsplit_once('\'') {
            let head = head.replace('\'', "");
            let rest = match tail {
                "s" if stop_words::HEADS_BEFORE_IS.contains(&head.as_str()) => Some("is"),
                "s" => None,
                "m" => Some("am"),
                "re" => Some("are"),
                "ve" => Some("have"),
                "ll" => Some("will"),
                "d" => Some("would"),
                "t" => {
                    let verb = head.strip_suffix('n').unwrap_or(&head);
                    self.push(if verb == "ca" { "can".to_owned() } else { verb.to_owned() });
                    self.push("not".to_owned());
                    return;
                }
                other => {
                    self.push(head + other);
                    return;
                }
            };
            self.push(head);
            if let Some(rest) = rest {
                self.push(rest.to_owned());
            }
            return;
        }
        match stop_words::CONTRACTIONS.iter().find(|(short, _)| *short == raw) {
            Some((_, long)) => long.split(' ').for_each(|word| self.push(word.to_owned())),
            None => self.push(raw.to_owned()),
        }
    }

    fn push(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        let stem = stem(&text);
        self.words.push(WordToken { weight: weight(&text, &stem), stem, text, boundary: TokenBoundary::Absent });
    }
}

#[cfg(test)]
mod tests;
