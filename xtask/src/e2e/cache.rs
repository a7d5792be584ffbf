//! Folders that are named after what was put into them, so that one is used only for exactly that.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::Context;

/// The part of a folder's name that says what it was made from.
pub(crate) fn key(contents: &[&[u8]]) -> String {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Lets a name that people can type stand for the folder.
pub(super) fn link(name: &Path, folder: &Path) -> anyhow::Result<()> {
    if std::fs::read_link(name).is_ok_and(|target| target == folder) {
        return Ok(());
    }
    let replace = || {
        match std::fs::symlink_metadata(name) {
            Ok(present) if present.is_dir() => std::fs::remove_dir_all(name)?,
            Ok(_) => std::fs::remove_file(name)?,
            Err(_absent) => {}
        }
        std::os::unix::fs::symlink(folder, name)
    };
    replace().with_context(|| format!("cannot link {}", name.display()))
}

#[cfg(test)]
mod tests;
