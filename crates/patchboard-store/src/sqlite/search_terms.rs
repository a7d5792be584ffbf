//! Splits text into search terms. Terms consist of letters and digits only, so no query syntax gets through.

use std::collections::HashSet;

/// Terms per text; further ones are ignored.
const MAX_TERMS: usize = 64;
/// Longer terms are truncated; index and query truncate alike, so they still match.
const MAX_CHARACTERS: usize = 64;

/// The distinct words of a text, in lower case, in order.
pub(super) fn distinct_terms(text: &str) -> Vec<String> {
    distinct_terms_up_to(text, MAX_TERMS)
}

/// The same, with another limit.
pub(super) fn distinct_terms_up_to(text: &str, max_terms: usize) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut words = Vec::new();
    for part in text.split(|character: char| !character.is_alphanumeric()).filter(|part| !part.is_empty()) {
        for word in split_ideographs(part) {
            if words.len() == max_terms {
                return words;
            }
            let word: String = word.chars().take(MAX_CHARACTERS).flat_map(char::to_lowercase).collect();
            if seen.insert(word.clone()) {
                words.push(word);
            }
        }
    }
    words
}

/// The terms of a query. Short Latin words occur in every sentence, so they are used only if there are no others.
pub(super) fn query_terms(text: &str) -> Vec<String> {
    let words = distinct_terms(text);
    let is_significant = |word: &&String| word.len() > 2 || !word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let significant: Vec<String> = words.iter().filter(is_significant).cloned().collect();
    if significant.is_empty() { words } else { significant }
}

/// A term as stored in the index: the owner's number is its prefix, so terms of different owners never match.
pub(super) fn owner_term(owner: i64, word: &str) -> String {
    format!("{owner}x{word}")
}

/// The FTS expression for one word. Longer words also match as prefixes.
pub(super) fn match_expression(owner: i64, word: &str) -> String {
    expression(&owner_term(owner, word), word)
}

/// The same for a word that no owner's number precedes.
pub(super) fn plain_expression(word: &str) -> String {
    expression(word, word)
}

fn expression(term: &str, word: &str) -> String {
    let long = word.chars().count() >= if word.is_ascii() { 4 } else { 2 };
    let wildcard = if long && !word.chars().any(is_ideograph) { "*" } else { "" };
    format!("\"{term}\"{wildcard}")
}

/// Chinese and Japanese have no spaces between words: every character becomes a term.
fn split_ideographs(part: &str) -> impl Iterator<Item = &str> {
    let mut rest = part;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = if is_ideograph(first) { first.len_utf8() } else { rest.find(is_ideograph).unwrap_or(rest.len()) };
        let (word, following) = rest.split_at_checked(end)?;
        rest = following;
        Some(word)
    })
}

fn is_ideograph(character: char) -> bool {
    matches!(
        character,
        '\u{3040}'..='\u{30FF}'
            | '\u{3400}'..='\u{4DBF}'
            | '\u{4E00}'..='\u{9FFF}'
            | '\u{F900}'..='\u{FAFF}'
            | '\u{20000}'..='\u{2FA1F}'
    )
}

#[cfg(test)]
mod tests;
