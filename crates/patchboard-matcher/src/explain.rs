//! Evidence as text that a person can check.

use std::sync::Arc;

use super::profile::{CompiledProfile, TermMatch, TermSource};
use super::query::{ComparedWord, Query};
use super::trained_model::AppEvidence;

const MAX_REASONS: usize = 3;
/// Weaker matches are noise.
const MIN_STRENGTH: f32 = 0.15;
const MIN_SIMILARITY: f32 = 0.35;
const MIN_WORD_SIMILARITY: f32 = 0.15;

pub(super) fn reasons(query: &Query, profile: &CompiledProfile, evidence: &AppEvidence) -> Vec<Arc<str>> {
    let mut reasons: Vec<Arc<str>> = Vec::new();
    if evidence.nearest_refused > MIN_SIMILARITY {
        reasons.push("like a message that was not for it".into());
    }
    match evidence.similar_count {
        0 if evidence.nearest_accepted > MIN_SIMILARITY => reasons.push("somewhat like messages it took".into()),
        0 if evidence.classifier_score > 1.0 => reasons.push("in the words of messages it took".into()),
        0 => {}
        1 => reasons.push("like a message it took".into()),
        count => reasons.push(format!("like {count} messages it took").into()),
    }
    let mut matches: Vec<(f32, String)> = query
        .terms
        .iter()
        .filter_map(|term| {
            let (strength, matched) = profile.best_match(term)?;
            let strength = strength * term.weight;
            (strength >= MIN_STRENGTH).then(|| (strength, match_text(&term.text, matched, profile)))
        })
        .collect();
    let is_listed = |word: &ComparedWord, matches: &[(f32, String)]| {
        matches.iter().any(|(_, text)| text.starts_with(&format!("`{}` ", word.text)))
    };
    for word in &query.words {
        let Some((nearness, profile_word)) =
            profile.nearest_word(word).filter(|(nearness, _)| *nearness >= MIN_WORD_SIMILARITY)
        else {
            continue;
        };
        if !is_listed(word, &matches) {
            matches.push((nearness * word.weight, close_word_text(&word.text, profile_word)));
        }
    }
    matches.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.cmp(other)));
    let remaining = MAX_REASONS.saturating_sub(reasons.len());
    reasons.extend(matches.into_iter().take(remaining).map(|(_, text)| text.into()));
    reasons
}

fn match_text(text: &str, matched: TermMatch, profile: &CompiledProfile) -> String {
    match matched {
        TermMatch::Word(TermSource::Name) => format!("`{text}` is in its name"),
        TermMatch::Word(TermSource::Capability) => format!("`{text}` is among its capabilities"),
        TermMatch::Word(TermSource::Description) => format!("`{text}` is in its description"),
        TermMatch::Spelling => format!("`{text}` is spelt much like a word of its description"),
        TermMatch::Concept(_) | TermMatch::Topic(_) => {
            close_word_text(text, profile.matched_word(matched).unwrap_or_default())
        }
    }
}

/// In the words of the message and of the app: the concept they share has no name that a reader would know.
fn close_word_text(text: &str, profile_word: &str) -> String {
    format!("`{text}` is close to its word `{profile_word}`")
}

#[cfg(test)]
mod tests;
