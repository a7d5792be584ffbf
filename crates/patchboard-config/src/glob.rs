//! Checks and ranking of patterns with `*` (any text) and `?` (one character). The core does the matching.

use std::cmp::Reverse;

/// Sorts patterns from most to least specific: more fixed characters first,
/// then fewer wildcards.
pub(crate) fn specificity(pattern: &str) -> (Reverse<usize>, usize) {
    let wildcards = pattern.chars().filter(|c| matches!(c, '*' | '?')).count();
    (Reverse(pattern.chars().count() - wildcards), wildcards)
}

/// Why `pattern` is invalid as a pattern over names of tools or models.
pub(crate) fn invalid_reason(pattern: &str) -> Option<&'static str> {
    if pattern.is_empty() {
        Some("an empty pattern fits nothing")
    } else if pattern.chars().count() > 128 {
        Some("a pattern has at most 128 characters")
    } else if pattern.chars().any(|c| !(c.is_ascii_alphanumeric() || "*?._-/:".contains(c))) {
        Some("a pattern has letters, digits, `.`, `_`, `-`, `/`, `:`, `*` and `?` only")
    } else {
        None
    }
}
