//! Descriptions of common requests for which there may be no app. They compete with the apps, so that a message about
//! something else is not sent to the closest app.

use std::sync::{Arc, LazyLock};

use super::profile::CompiledProfile;
use super::query::Query;
use super::signals::DescriptionSimilarity;
use crate::AppProfile;

/// An app this similar to a line covers the same subject, and the line is ignored.
const TOO_SIMILAR: f32 = 0.5;
/// Lines compared word by word: those nearest as a whole.
const MAX_COMPARED: usize = 8;

static LINES: LazyLock<Vec<CompiledProfile>> = LazyLock::new(|| {
    let lines = include_str!("background.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(profile).collect()
});

fn profile(line: &str) -> CompiledProfile {
    let (name, capabilities) = ("".into(), Vec::new());
    CompiledProfile::new(&AppProfile { name, description: line.into(), version: None, capabilities })
}

/// Similarity of an utterance to subjects that none of these apps covers.
pub(super) fn similarity(query: &Query, apps: &[Arc<CompiledProfile>]) -> DescriptionSimilarity {
    let mut lines: Vec<(f32, &CompiledProfile)> =
        LINES.iter().map(|line| (line.similarity_to_query(query), line)).collect();
    lines.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let uncovered =
        lines.into_iter().filter(|(_, line)| apps.iter().all(|app| app.similarity_to_profile(line) < TOO_SIMILAR));
    let mut best = DescriptionSimilarity::default();
    for (_, line) in uncovered.take(MAX_COMPARED) {
        let one = DescriptionSimilarity::new(query, line);
        best.shared_terms = best.shared_terms.max(one.shared_terms);
        best.whole_text = best.whole_text.max(one.whole_text);
        best.word_by_word = best.word_by_word.max(one.word_by_word);
    }
    best
}

#[cfg(test)]
mod tests;
