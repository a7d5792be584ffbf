//! The files of the repository, as git sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::tidy::code::code_view;

/// Paths are relative to the root, with `/`.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    paths: BTreeSet<String>,
    files: BTreeMap<String, File>,
}

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) text: String,
    /// For Rust: the text with comments and the contents of literals blanked, line for line. Empty for other files.
    pub(crate) code: String,
}

impl Tree {
    pub(crate) fn load(root: &Path) -> anyhow::Result<Tree> {
        let paths = match git_files(root) {
            Some(paths) => paths,
            // An unpacked archive has no git; then everything that is not built or installed counts.
            None => walk(root)?,
        };
        let mut tree = Tree::default();
        for path in paths {
            let place = root.join(&path);
            // Deleted but not yet committed as such; or a submodule or link, which hold no text of ours.
            if !place.is_file() {
                continue;
            }
            let bytes = std::fs::read(&place).with_context(|| format!("cannot read {path}"))?;
            tree.add(path, String::from_utf8(bytes).ok());
        }
        Ok(tree)
    }

    /// Adds a file; `None` for one that is not text.
    pub(crate) fn add(&mut self, path: String, text: Option<String>) {
        if let Some(text) = text {
            let code = if path.ends_with(".rs") { code_view(&text) } else { String::new() };
            self.files.insert(path.clone(), File { text, code });
        }
        self.paths.insert(path);
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// All text files.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    pub(crate) fn has_file(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    pub(crate) fn has_folder(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        self.paths.range(prefix.clone()..).next().is_some_and(|next| next.starts_with(&prefix))
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }
}

/// Whether a Rust file holds tests and nothing else.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("_tests.rs")
}

/// Tracked files and those that would be tracked if added; `None` where git cannot tell.
fn git_files(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let listing = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = listing.split_terminator('\0').map(str::to_owned).collect();
    // A folder that merely lies inside some other repository, ignored there, lists nothing.
    paths.iter().any(|path| path == "Cargo.toml").then_some(paths)
}

fn walk(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let place = root.join(&folder);
        for entry in std::fs::read_dir(&place).with_context(|| format!("cannot list {}", place.display()))? {
            let entry = entry.with_context(|| format!("cannot list {}", place.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type().with_context(|| format!("cannot look at {path}"))?;
            if kind.is_file() {
                paths.push(path);
            } else if kind.is_dir() && !is_built_or_installed(&name) {
                folders.push(path);
            }
        }
    }
    Ok(paths)
}

fn is_built_or_installed(folder: &str) -> bool {
    matches!(folder, "target" | ".git" | "node_modules" | "__pycache__" | ".venv") || folder.starts_with("target-")
}

#[cfg(test)]
mod tests;
