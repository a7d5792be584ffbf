//! Suggestions for mistyped names.

/// The candidate closest to `word`, if it is close enough to be a typing error rather than another word.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Input may be any key of a file. Comparing the first 64 characters bounds the work without loss, because no known
    // key is that long.
    let normalize = |text: &str| text.to_lowercase().replace('-', "_").chars().take(64).collect::<Vec<char>>();
    let word = normalize(word);
    candidates
        .into_iter()
        .map(|candidate| {
            let normalized = normalize(candidate);
            // A third of the longer word may differ; short words may have one error.
            let max_edits = (word.len().max(normalized.len()) / 3).max(1);
            (distance(&word, &normalized), max_edits, candidate)
        })
        .filter(|(distance, max_edits, _)| distance <= max_edits)
        .min()
        .map(|(_, _, candidate)| candidate)
}

/// A hint for a `word` that is none of the candidates: the nearest candidate, or else `otherwise`.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>, otherwise: &str) -> String {
    match nearest(word, candidates) {
        Some(suggestion) => format!("did you mean `{suggestion}`?"),
        None => otherwise.to_owned(),
    }
}

/// Number of single-character edits between two words; swapping two neighbours counts as one.
fn distance(one: &[char], two: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=two.len()).collect();
    for (row, left) in one.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, right) in two.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX);
            let replaced = at(&last, column) + usize::from(left != right);
            let inserted = at(&current, column) + 1;
            let deleted = at(&last, column + 1) + 1;
            let mut best = replaced.min(inserted).min(deleted);
            let swapped = row > 0 && column > 0 && one.get(row - 1) == Some(right) && two.get(column - 1) == Some(left);
            if swapped {
                best = best.min(at(&before_last, column - 1) + 1);
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or(0)
}
