//! Ignore rules of listings and searches: `.gitignore` and `.ignore` files, and a short list of folders that programs
//! generate.
//!
//! As in git, the rules of the nearest folder take precedence and the last matching line of a file decides. The files
//! are read through the open folder, so a symlinked or protected one has no effect. Only files of the working folder
//! are read: not those above it, `.git/info/exclude` or the user's own git configuration.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::file_runtime::ToolRefusal;
use crate::folder::{OpenFolder, OpenedPath, WorkFolder};

/// Excluded at any depth, unless a negated line of an ignore file includes them. They contain sources in no project;
/// `build`, `bin` or `vendor` do in some, so those are left to ignore files.
const DEFAULT_EXCLUDED: [&str; 13] = [
    ".cache/",
    ".git/",
    ".hg/",
    ".mypy_cache/",
    ".next/",
    ".pytest_cache/",
    ".svn/",
    ".tox/",
    ".venv/",
    "__pycache__/",
    "node_modules/",
    "target/",
    "venv/",
];
/// Read in this order in each folder: lines of the later one take precedence.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
/// A longer file is read up to its last whole line within this limit.
const MAX_FILE_BYTES: usize = 64 * 1024;
/// A longer line has no effect.
const MAX_LINE_BYTES: usize = 1000;
/// Limits per call, over all folders: further files, and further lines, have no effect.
const MAX_FILES: usize = 500;
const MAX_PATTERNS: usize = 10_000;

static DEFAULT_RULES: LazyLock<IgnoreRules> = LazyLock::new(|| {
    let mut builder = GitignoreBuilder::new("");
    for line in DEFAULT_EXCLUDED {
        // All lines are valid patterns, as the tests check.
        let _added = builder.add_line(None, line);
    }
    let matcher = builder.build().unwrap_or_else(|_| Gitignore::empty());
    IgnoreRules(Arc::new(RuleLayer { matcher, depth: 0, outer: None }))
});

/// The rules for the entries of one folder.
#[derive(Debug, Clone)]
pub(super) struct IgnoreRules(Arc<RuleLayer>);

/// The rules of one folder, nested in those of its parent folders.
#[derive(Debug)]
struct RuleLayer {
    matcher: Gitignore,
    /// Number of path components from the working folder to the folder that these rules are relative to.
    depth: usize,
    outer: Option<IgnoreRules>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleTarget {
    Folder,
    /// A file, a symlink or another entry without children.
    Other,
}

impl IgnoreRules {
    /// `path` is relative to the working folder.
    pub(super) fn excludes(&self, path: &Path, target: RuleTarget) -> bool {
        let mut layer = Some(self);
        while let Some(IgnoreRules(rules)) = layer {
            let mut components = path.components();
            components.by_ref().take(rules.depth).for_each(drop);
            match rules.matcher.matched(components.as_path(), target == RuleTarget::Folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => layer = rules.outer.as_ref(),
            }
        }
        false
    }

    /// For an excluded folder that was requested explicitly: the rules around it would exclude all of its content, so
    /// only the default list and the folder's own files apply.
    pub(super) fn defaults() -> Self {
        DEFAULT_RULES.clone()
    }
}

/// Reads the ignore files of one call, within its limits.
#[derive(Debug)]
pub(super) struct IgnoreReader {
    files_left: usize,
    patterns_left: usize,
    some_unread: bool,
}

impl Default for IgnoreReader {
    fn default() -> Self {
        Self { files_left: MAX_FILES, patterns_left: MAX_PATTERNS, some_unread: false }
    }
}

impl IgnoreReader {
    /// The rules of the folders above `base`; `enter` adds those of `base` itself.
    pub(super) fn rules_above(&mut self, folder: &WorkFolder, base: &OpenFolder) -> Result<IgnoreRules, ToolRefusal> {
        let mut rules = IgnoreRules::defaults();
        if base.trail().is_empty() {
            return Ok(rules);
        }
        let OpenedPath::Folder(mut above) = folder.open_path(".")? else { return Ok(rules) };
        let mut path = PathBuf::new();
        for name in base.trail() {
            rules = self.enter(&above, &rules);
            path.push(name);
            if rules.excludes(&path, RuleTarget::Folder) {
                rules = IgnoreRules::defaults();
            }
            above = above.descend(&[name])?;
        }
        Ok(rules)
    }

    /// `outer` with the ignore files in `folder` itself. A git repository nested in another one follows only its own
    /// rules.
    pub(super) fn enter(&mut self, folder: &OpenFolder, outer: &IgnoreRules) -> IgnoreRules {
        let depth = folder.trail().len();
        let outer =
            if depth > 0 && folder.has_entry(OsStr::new(".git")) { IgnoreRules::defaults() } else { outer.clone() };
        let mut builder = GitignoreBuilder::new("");
        let mut lines = 0;
        for name in IGNORE_FILES {
            let Ok(file) = folder.open_file(OsStr::new(name)) else { continue };
            if self.files_left == 0 {
                self.some_unread = true;
                break;
            }
            self.files_left -= 1;
            let text = read_lines(file, &mut self.some_unread);
            lines += self.add_lines(&text, &mut builder);
        }
        if lines == 0 {
            return outer;
        }
        match builder.build() {
            Ok(matcher) => IgnoreRules(Arc::new(RuleLayer { matcher, depth, outer: Some(outer) })),
            // The patterns together take more memory than the matcher allows.
            Err(_) => {
                self.some_unread = true;
                outer
            }
        }
    }

    fn add_lines(&mut self, text: &str, builder: &mut GitignoreBuilder) -> usize {
        let mut added = 0;
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            if line.len() > MAX_LINE_BYTES || self.patterns_left == 0 {
                self.some_unread = true;
                continue;
            }
            self.patterns_left -= 1;
            // A line that is not a valid pattern has no effect, as in git.
            added += usize::from(builder.add_line(None, line).is_ok());
        }
        added
    }

    /// A remark for the model if a limit was reached.
    pub(super) fn remark(&self) -> Option<String> {
        self.some_unread.then(|| {
            format!(
                "[ignore files count up to {MAX_FILE_BYTES} bytes, {MAX_FILES} files and {MAX_PATTERNS} lines; the rest of \
                 them was not read]"
            )
        })
    }
}

/// The file's text, cut after its last whole line if it is too long; empty if the file cannot be read.
fn read_lines(file: File, is_cut: &mut bool) -> String {
    let mut bytes = Vec::new();
    if file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).is_err() {
        return String::new();
    }
    if bytes.len() > MAX_FILE_BYTES {
        *is_cut = true;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        bytes.truncate(end);
    }
    let text = String::from_utf8_lossy(&bytes);
    text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests;
