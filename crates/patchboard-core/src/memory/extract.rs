//! Extracts facts that users state about themselves. No model is involved; phrases are matched word by word, never by
//! byte offsets, so that text in any script is safe to process.

use crate::text::cut;

/// `subject`'s `predicate` is `object`.
#[derive(Debug, Clone, PartialEq)]
pub struct StatedFact {
    pub subject: &'static str,
    pub predicate: String,
    pub object: String,
    pub confidence: f32,
}

/// Longest object and predicate in characters; longer statements are dropped, as they are hardly plain facts.
const MAX_OBJECT: usize = 200;
const MAX_PREDICATE: usize = 60;
/// Most facts taken from one message.
const MAX_FACTS: usize = 16;
/// Bytes of a message that are read: facts are stated in short messages, not in pasted documents.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The words of a phrase and what it states. The part after the phrase is the object.
const PHRASES: &[(&[&str], StatementKind)] = &[
    (&["my", "name", "is"], StatementKind::Fact("name", 0.9)),
    (&["call", "me"], StatementKind::Fact("name", 0.8)),
    (&["i", "live", "in"], StatementKind::Fact("location", 0.85)),
    (&["i", "am", "from"], StatementKind::Fact("from", 0.85)),
    (&["i'm", "from"], StatementKind::Fact("from", 0.85)),
    (&["i", "moved", "from"], StatementKind::Relocation),
    (&["i", "moved", "to"], StatementKind::Fact("location", 0.85)),
    (&["i", "work", "at"], StatementKind::Fact("employer", 0.85)),
    (&["i", "work", "for"], StatementKind::Fact("employer", 0.85)),
];

#[derive(Clone, Copy)]
enum StatementKind {
    Fact(&'static str, f32),
    /// `i moved from X to Y`: a previous and a current location.
    Relocation,
}

pub fn stated_facts(text: &str) -> Vec<StatedFact> {
    let mut found = Vec::new();
    for sentence in cut(text, MAX_TEXT_BYTES).split_inclusive(['.', '!', '?', '\n']) {
        read_sentence(sentence, &mut found);
        if found.len() >= MAX_FACTS {
            found.truncate(MAX_FACTS);
            break;
        }
    }
    found
}

fn read_sentence(sentence: &str, found: &mut Vec<StatedFact>) {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let lower: Vec<String> = words.iter().map(|word| trim_punctuation(word).to_lowercase().replace('’', "'")).collect();
    // Questions state no facts.
    if sentence.trim_end().ends_with('?') {
        return;
    }
    let mut at = 0;
    while at < words.len() {
        at += match_phrase_at(&words, &lower, at, found).max(1);
    }
}

/// Tries every phrase at word `at`; returns how many words were consumed.
fn match_phrase_at(words: &[&str], lower: &[String], at: usize, found: &mut Vec<StatedFact>) -> usize {
    let rest = lower.get(at..).unwrap_or_default();
    for (phrase, kind) in PHRASES {
        let matches = rest.len() > phrase.len() && phrase.iter().zip(rest).all(|(expected, word)| expected == word);
        if !matches {
            continue;
        }
        let start = at + phrase.len();
        return match kind {
            StatementKind::Fact(predicate, confidence) => {
                let (object, used) = parse_object(words, lower, start, &[]);
                push_fact(found, (*predicate).to_owned(), object, *confidence);
                phrase.len() + used
            }
            StatementKind::Relocation => {
                let (origin, used) = parse_object(words, lower, start, &["to"]);
                push_fact(found, "previous_location".to_owned(), origin, 0.8);
                let to = start + used;
                if lower.get(to).is_some_and(|word| word == "to") {
                    let (destination, more) = parse_object(words, lower, to + 1, &[]);
                    push_fact(found, "location".to_owned(), destination, 0.85);
                    return phrase.len() + used + 1 + more;
                }
                phrase.len() + used
            }
        };
    }
    match_possession(words, lower, at, found)
}

/// `my favourite colour is blue`: the words between `my` and `is` are the predicate.
fn match_possession(words: &[&str], lower: &[String], at: usize, found: &mut Vec<StatedFact>) -> usize {
    if lower.get(at).is_none_or(|word| word != "my") {
        return 1;
    }
    for length in 1..=3 {
        let verb_index = at + 1 + length;
        if lower.get(verb_index).is_none_or(|word| word != "is" && word != "are") {
            continue;
        }
        let names = lower.get(at + 1..verb_index).unwrap_or_default();
        let is_plain =
            |word: &String| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "'-".contains(c));
        let ends_clause = words.get(at + 1..verb_index).unwrap_or_default().iter().any(|word| clause_ends(word));
        if !names.iter().all(is_plain) || ends_clause {
            return 1;
        }
        let predicate = names.join("_");
        if predicate.chars().count() > MAX_PREDICATE {
            return 1;
        }
        let (object, used) = parse_object(words, lower, verb_index + 1, &[]);
        push_fact(found, predicate, object, 0.75);
        return length + 2 + used;
    }
    1
}

/// The words from `start` to the end of the clause, and their number.
fn parse_object(words: &[&str], lower: &[String], start: usize, stop_words: &[&str]) -> (String, usize) {
    let mut taken: Vec<&str> = Vec::new();
    for (index, word) in words.iter().enumerate().skip(start) {
        let next_starts_clause = lower.get(index).is_some_and(|word| {
            stop_words.contains(&word.as_str()) || word == "but" || starts_new_clause(lower, index)
        });
        if next_starts_clause || word.starts_with('(') {
            break;
        }
        taken.push(word);
        if clause_ends(word) {
            break;
        }
    }
    let used = taken.len();
    (trim_punctuation(&taken.join(" ")).to_owned(), used)
}

/// `… and I …`, `… and my …` start another statement.
fn starts_new_clause(lower: &[String], index: usize) -> bool {
    let joins = lower.get(index).is_some_and(|word| word == "and" || word == "then");
    joins
        && lower
            .get(index + 1)
            .is_some_and(|next| matches!(next.as_str(), "i" | "i'm" | "my" | "we" | "you" | "please"))
}

fn clause_ends(word: &str) -> bool {
    word.ends_with([',', ';', ')', '.', '!', '?', ':'])
}

/// The word without surrounding punctuation.
fn trim_punctuation(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric() && !"'’+#&@/".contains(c)).trim_matches(['\'', '’'])
}

fn push_fact(found: &mut Vec<StatedFact>, predicate: String, object: String, confidence: f32) {
    if !object.is_empty() && object.chars().count() <= MAX_OBJECT {
        found.push(StatedFact { subject: "user", predicate, object, confidence });
    }
}

#[cfg(test)]
mod tests;
