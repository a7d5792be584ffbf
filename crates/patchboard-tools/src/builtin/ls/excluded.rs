//! Which entries a listing leaves out or does not open.

use patchboard_core::tool::Glob;

/// Folders full of things nobody wrote: named in a listing, but not opened.
const GENERATED_FOLDERS: [&str; 22] = [
    ".cache",
    ".git",
    ".hg",
    ".idea",
    ".mypy_cache",
    ".next",
    ".pytest_cache",
    ".svn",
    ".tox",
    ".venv",
    ".vscode",
    "__pycache__",
    "bin",
    "build",
    "coverage",
    "dist",
    "node_modules",
    "obj",
    "target",
    "tmp",
    "vendor",
    "venv",
];

#[derive(Debug)]
pub(in crate::builtin) struct IgnoreRules {
    patterns: Vec<IgnorePattern>,
}

#[derive(Debug)]
struct IgnorePattern {
    glob: Glob,
    scope: PatternScope,
}

#[derive(Debug, PartialEq, Eq)]
enum PatternScope {
    Everything,
    Folders,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListedKind {
    Folder,
    Other,
}

impl IgnoreRules {
    pub(super) fn new<'a>(patterns: impl Iterator<Item = &'a str>) -> Self {
        Self { patterns: patterns.map(IgnorePattern::new).collect() }
    }

    /// `path` is relative to the listed folder and ends with the entry's name.
    pub(super) fn excludes(&self, path: &str, is: ListedKind) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.patterns.iter().any(|pattern| {
            (pattern.scope == PatternScope::Everything || is == ListedKind::Folder)
                && (pattern.glob.matches(name) || pattern.glob.matches(path))
        })
    }

    /// Is it a folder that is opened only when somebody asks for it by name?
    pub(in crate::builtin) fn is_generated(name: &str) -> bool {
        GENERATED_FOLDERS.binary_search(&name).is_ok()
    }
}

impl IgnorePattern {
    /// `*` of the globs here also matches `/`, so the usual `**/` and `/**` add nothing and are taken off.
    fn new(text: &str) -> Self {
        let text = text.trim_start_matches("./").trim_start_matches("**/");
        let name = text.trim_end_matches("/**").trim_end_matches('/');
        let applies_to = if name.len() == text.len() { PatternScope::Everything } else { PatternScope::Folders };
        Self { glob: Glob::new(name), scope: applies_to }
    }
}

#[cfg(test)]
mod tests;
