//! Which entries a listing leaves out or does not open.

use patchboard_core::tool::Glob;

/// Folders full of things nobody wrote: named in a listing, but not opened.
const NOT_OPENED: [&str; 22] = [
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
pub(in crate::builtin) struct Ignore {
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    glob: Glob,
    applies_to: AppliesTo,
}

#[derive(Debug, PartialEq, Eq)]
enum AppliesTo {
    Everything,
    Folders,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Is {
    Folder,
    SomethingElse,
}

impl Ignore {
    pub(super) fn new<'a>(patterns: impl Iterator<Item = &'a str>) -> Self {
        Self { patterns: patterns.map(Pattern::new).collect() }
    }

    /// `path` is relative to the listed folder and ends with the entry's name.
    pub(super) fn leaves_out(&self, path: &str, is: Is) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.patterns.iter().any(|pattern| {
            (pattern.applies_to == AppliesTo::Everything || is == Is::Folder)
                && (pattern.glob.matches(name) || pattern.glob.matches(path))
        })
    }

    /// Is it a folder that is opened only when somebody asks for it by name?
    pub(in crate::builtin) fn leaves_closed(name: &str) -> bool {
        NOT_OPENED.binary_search(&name).is_ok()
    }
}

impl Pattern {
    /// `*` of the globs here also matches `/`, so the usual `**/` and `/**` add nothing and are taken off.
    fn new(text: &str) -> Self {
        let text = text.trim_start_matches("./").trim_start_matches("**/");
        let name = text.trim_end_matches("/**").trim_end_matches('/');
        let applies_to = if name.len() == text.len() { AppliesTo::Everything } else { AppliesTo::Folders };
        Self { glob: Glob::new(name), applies_to }
    }
}

#[cfg(test)]
mod tests;
