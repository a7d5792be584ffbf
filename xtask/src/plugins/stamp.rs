//! Whether the components in `target/plugins` are those of the sources as they are now.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::e2e::key;
use crate::plugins::guests::GUESTS;
use crate::workspace::Workspace;

/// Everything that components are built from: sources, manifests and lock file, the interface, the toolchain.
const SOURCES: [&str; 3] = ["plugins", "wit", "rust-toolchain.toml"];
/// In `plugins`, but not something to build from: results, and what a build by hand leaves there.
const NOT_SOURCES: [&str; 2] = ["built", "target"];

/// A file that names what the components beside it were built from.
#[derive(Debug)]
pub(super) struct Stamp {
    folder: PathBuf,
    key: String,
}

impl Stamp {
    pub(super) fn of_sources(workspace: &Workspace, folder: &Path) -> anyhow::Result<Stamp> {
        let mut contents = Vec::new();
        for name in SOURCES {
            read_all(&workspace.root.join(name), &mut contents)?;
        }
        let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
        Ok(Stamp { folder: folder.to_owned(), key: key(&contents) })
    }

    pub(super) fn is_current(&self) -> bool {
        std::fs::read_to_string(self.path()).is_ok_and(|noted| noted == self.key)
            && GUESTS.iter().all(|guest| self.folder.join(guest.file()).is_file())
    }

    /// Before anything is built: a build that breaks off must not look finished.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        let path = self.path();
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", path.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(super) fn write(&self) -> anyhow::Result<()> {
        let path = self.path();
        std::fs::write(&path, &self.key).with_context(|| format!("cannot write {}", path.display()))
    }

    fn path(&self) -> PathBuf {
        self.folder.join("built-from")
    }
}

/// The paths and contents of a file, or of all files below a folder, in the order of their names.
fn read_all(place: &Path, contents: &mut Vec<Vec<u8>>) -> anyhow::Result<()> {
    let reading = || format!("cannot read {}", place.display());
    if !place.is_dir() {
        contents.push(place.as_os_str().as_encoded_bytes().to_owned());
        contents.push(std::fs::read(place).with_context(reading)?);
        return Ok(());
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(place).with_context(reading)? {
        entries.push(entry.with_context(reading)?.path());
    }
    entries.sort();
    for entry in entries {
        let is_source = !NOT_SOURCES.iter().any(|name| entry.ends_with(name));
        if is_source {
            read_all(&entry, contents)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
