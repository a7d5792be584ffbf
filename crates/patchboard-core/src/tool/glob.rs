//! Patterns of tool names.

use std::fmt;
use std::sync::Arc;

/// `*` matches any run of characters, `?` any single one; all others match themselves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Glob(Arc<str>);

impl Glob {
    pub fn new(pattern: impl Into<Arc<str>>) -> Self {
        Self(pattern.into())
    }

    pub fn matches(&self, text: &str) -> bool {
        let (mut pattern, mut text) = (&*self.0, text);
        // The pattern after the last `*`, and the text it was last tried on: all that backtracking needs.
        let mut star: Option<(&str, &str)> = None;
        while let Some(character) = text.chars().next() {
            let wanted = pattern.chars().next();
            if wanted == Some('*') {
                pattern = skip_char(pattern, '*');
                star = Some((pattern, text));
            } else if let Some(wanted) = wanted.filter(|&wanted| wanted == '?' || wanted == character) {
                pattern = skip_char(pattern, wanted);
                text = skip_char(text, character);
            } else {
                let Some((after, swallowed)) = &mut star else { return false };
                // Let the last `*` consume one more character, then retry.
                *swallowed = swallowed.chars().next().map_or("", |first| skip_char(swallowed, first));
                (pattern, text) = (*after, *swallowed);
            }
        }
        pattern.chars().all(|character| character == '*')
    }

    /// Whether the pattern has no wildcard and so matches one name only.
    pub fn is_name(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Sort key: more literal characters are more specific; a pattern without wildcards is the most specific.
    pub(crate) fn specificity(&self) -> (bool, usize) {
        let literal = self.0.chars().filter(|&character| character != '*' && character != '?').count();
        (self.is_name(), literal)
    }
}

/// `text` without its first character.
fn skip_char(text: &str, first: char) -> &str {
    text.get(first.len_utf8()..).unwrap_or_default()
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
