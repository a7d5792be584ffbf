//! Path patterns: `*` and `?` match within a name, `**` matches any number of folders, `[a-z]` and `{a,b}` are
//! alternatives.
//!
//! Patterns are translated to regular expressions of a linear-time engine, so no pattern can stall a call.

use globset::{ErrorKind, GlobBuilder, GlobSet};

use crate::text::quoted;

/// The schemas of the tools reject longer patterns.
pub(super) const MAX_PATTERN_CHARACTERS: usize = 500;
/// Characters that make a name a pattern.
const SPECIAL_CHARACTERS: [char; 5] = ['*', '?', '[', '{', '\\'];

#[derive(Debug)]
pub(super) struct PathPattern {
    matcher: GlobSet,
    /// Literal folder names at the start of the pattern: other folders need not be entered.
    fixed_folders: Vec<String>,
    has_folders: bool,
    is_literal: bool,
}

impl PathPattern {
    /// The error is a message for the model.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        let trimmed = pattern.trim_start_matches("./");
        if trimmed.starts_with('/') {
            return Err(format!("{} is absolute: patterns are relative to the folder searched", quoted(pattern)));
        }
        if trimmed.split('/').any(|name| name == "..") {
            return Err(format!("{} holds `..`, which leads out of the folder searched", quoted(pattern)));
        }
        // A set reports a matcher that is too large; the matcher of a single glob would panic.
        let glob =
            GlobBuilder::new(trimmed).literal_separator(true).backslash_escape(true).empty_alternates(true).build();
        let matcher = glob.and_then(|glob| GlobSet::builder().add(glob).build());
        let matcher =
            matcher.map_err(|error| format!("{} is not a pattern: {}", quoted(pattern), reason(error.kind())))?;
        let names: Vec<&str> = trimmed.split('/').collect();
        let folders = names.split_last().map_or(&[][..], |(_, folders)| folders);
        let fixed = folders.iter().take_while(|name| !name.contains(SPECIAL_CHARACTERS)).map(|name| (*name).to_owned());
        Ok(Self {
            matcher,
            fixed_folders: fixed.collect(),
            has_folders: !folders.is_empty(),
            is_literal: !trimmed.contains(SPECIAL_CHARACTERS),
        })
    }

    /// Matches the whole path, relative to the searched folder.
    pub(super) fn matches(&self, path: &str) -> bool {
        self.matcher.is_match(path)
    }

    /// Matches as a filter: a pattern without folders applies to file names at any depth.
    pub(super) fn matches_filter(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.matches(if self.has_folders { path } else { name })
    }

    /// The folder name that the pattern requires at this depth.
    pub(super) fn required_folder(&self, depth: usize) -> Option<&str> {
        self.fixed_folders.get(depth).map(String::as_str)
    }

    /// Whether the pattern names exactly one path.
    pub(super) fn is_literal(&self) -> bool {
        self.is_literal
    }
}

fn reason(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::UnclosedClass => "a `[` is not closed",
        ErrorKind::InvalidRange(_, _) => "a range in `[…]` runs backwards",
        ErrorKind::UnclosedAlternates => "a `{` is not closed",
        ErrorKind::UnopenedAlternates => "a `}` was never opened: write `[}]` for the character",
        ErrorKind::DanglingEscape => "nothing follows `\\`",
        ErrorKind::InvalidRecursive | ErrorKind::NestedAlternates | ErrorKind::Regex(_) => "it is too large",
        _ => "it cannot be read",
    }
}

#[cfg(test)]
mod tests;
