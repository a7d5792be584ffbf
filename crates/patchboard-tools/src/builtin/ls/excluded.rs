//! Entries that the caller of `ls` excludes.

use globset::{GlobBuilder, GlobSet};

use super::super::ignore_rules::RuleTarget;

/// Patterns of `ignore`. Within them `*` also stands for `/`, so `**/` in front and `/**` at the end add nothing.
#[derive(Debug, Default)]
pub(super) struct ExcludedPatterns {
    everything: GlobSet,
    folders: GlobSet,
}

impl ExcludedPatterns {
    pub(super) fn new<'a>(patterns: impl Iterator<Item = &'a str>) -> Self {
        let (mut everything, mut folders) = (GlobSet::builder(), GlobSet::builder());
        for text in patterns {
            let text = text.trim_start_matches("./").trim_start_matches("**/");
            let name = text.trim_end_matches("/**").trim_end_matches('/');
            let applies_to = if name.len() == text.len() { &mut everything } else { &mut folders };
            // An invalid pattern is matched literally.
            let glob = GlobBuilder::new(name).build().or_else(|_| GlobBuilder::new(&globset::escape(name)).build());
            if let Ok(glob) = glob {
                applies_to.add(glob);
            }
        }
        // The schema bounds the number and length of patterns, far below what a set can hold.
        Self { everything: everything.build().unwrap_or_default(), folders: folders.build().unwrap_or_default() }
    }

    /// `path` is relative to the listed folder and ends with the entry's name.
    pub(super) fn contains(&self, path: &str, target: RuleTarget) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let fits = |set: &GlobSet| set.is_match(name) || set.is_match(path);
        fits(&self.everything) || (target == RuleTarget::Folder && fits(&self.folders))
    }
}

#[cfg(test)]
mod tests;
