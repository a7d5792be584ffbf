//! Evidence in words a person can check.

use std::sync::Arc;

use super::learned::Evidence;
use super::profile::{Bond, Profile, Source};
use super::query::{ComparedWord, Query};

const MOST_REASONS: usize = 3;
/// Less is noise.
const LEAST_STRENGTH: f32 = 0.15;
const LEAST_LIKENESS: f32 = 0.35;
const LEAST_NEARNESS: f32 = 0.15;

pub(super) fn reasons(query: &Query, profile: &Profile, evidence: &Evidence) -> Vec<Arc<str>> {
    let mut reasons: Vec<Arc<str>> = Vec::new();
    if evidence.near_wrong > LEAST_LIKENESS {
        reasons.push("like a message that was not for it".into());
    }
    match evidence.alike {
        0 if evidence.near > LEAST_LIKENESS => reasons.push("somewhat like messages it took".into()),
        0 if evidence.linear > 1.0 => reasons.push("in the words of messages it took".into()),
        0 => {}
        1 => reasons.push("like a message it took".into()),
        alike => reasons.push(format!("like {alike} messages it took").into()),
    }
    let mut bonds: Vec<(f32, String)> = query
        .cues
        .iter()
        .filter_map(|cue| {
            let (strength, bond) = profile.bond(cue)?;
            let strength = strength * cue.weight;
            (strength >= LEAST_STRENGTH).then(|| (strength, said(&cue.text, bond, profile)))
        })
        .collect();
    let is_told = |word: &ComparedWord, bonds: &[(f32, String)]| {
        bonds.iter().any(|(_, told)| told.starts_with(&format!("`{}` ", word.text)))
    };
    for word in &query.words {
        let Some((nearness, own)) = profile.nearest(word).filter(|(nearness, _)| *nearness >= LEAST_NEARNESS) else {
            continue;
        };
        if !is_told(word, &bonds) {
            bonds.push((nearness * word.weight, close(&word.text, own)));
        }
    }
    bonds.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.cmp(other)));
    let room = MOST_REASONS.saturating_sub(reasons.len());
    reasons.extend(bonds.into_iter().take(room).map(|(_, said)| said.into()));
    reasons
}

fn said(text: &str, bond: Bond, profile: &Profile) -> String {
    match bond {
        Bond::Word(Source::Name) => format!("`{text}` is in its name"),
        Bond::Word(Source::Capability) => format!("`{text}` is among its capabilities"),
        Bond::Word(Source::Description) => format!("`{text}` is in its description"),
        Bond::Spelling => format!("`{text}` is spelt much like a word of its description"),
        Bond::Concept(_) | Bond::Topic(_) => close(text, profile.word_of(bond).unwrap_or_default()),
    }
}

/// In the words of the message and of the app: what they have in common has no name that a reader would know.
fn close(text: &str, own: &str) -> String {
    format!("`{text}` is close to its word `{own}`")
}

#[cfg(test)]
mod tests;
