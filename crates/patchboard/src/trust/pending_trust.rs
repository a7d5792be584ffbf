//! Finds which programs, plugins and key files wait for trust, and records it.

use std::io;
use std::path::{Path, PathBuf};

use patchboard_config::program::GuardedProgram;

use super::TrustStore;
use super::exposure::{is_exposed, is_folder_exposed};
use super::fingerprint::{FileFingerprint, FolderFingerprint};

/// The state of a program at one moment: what is shown is what is recorded, even if files change while the owner reads.
#[derive(Debug, Clone)]
pub(crate) struct ProgramSnapshot {
    /// `None` where there is no file.
    files: Vec<(PathBuf, Option<FileFingerprint>)>,
    folders: Vec<(PathBuf, FolderFingerprint)>,
}

impl ProgramSnapshot {
    /// `own`: data of the server, which is not part of a program.
    pub(crate) fn of_program(program: &GuardedProgram, own: &[PathBuf]) -> io::Result<Self> {
        let stamped = program.files.iter().map(|path| Ok((path.clone(), existing_fingerprint(path)?)));
        let printed = program.folders.iter().map(|folder| (folder.clone(), FolderFingerprint::of(folder, own)));
        Ok(Self { files: stamped.collect::<io::Result<_>>()?, folders: printed.collect() })
    }

    pub(crate) fn of_file(path: &Path) -> io::Result<Self> {
        Ok(Self { files: vec![(path.to_owned(), existing_fingerprint(path)?)], folders: Vec::new() })
    }

    /// Differences from the trusted state, in the format of [`pending_changes`].
    pub(crate) fn pending_changes(&self, store: &TrustStore) -> Vec<String> {
        let files = self.files.iter().filter(|(path, _)| is_exposed(store, path));
        let files = files.filter_map(|(path, now)| match (store.file(path), now) {
            (Some(trusted), Some(now)) if trusted.same_content_as(now) => None,
            (None, None) => None,
            (Some(_), _) => Some(format!("changed {}", path.display())),
            (None, Some(_)) => Some(format!("never trusted: {}", path.display())),
        });
        let folders = self.folders.iter().filter(|(folder, _)| is_folder_exposed(store, folder));
        let folders = folders.flat_map(|(folder, now)| match store.folder(folder) {
            Some(trusted) => with_folder(folder, trusted.differences_to(now)),
            None => vec![format!("never trusted: {}", folder.display())],
        });
        files.chain(folders).collect()
    }

    pub(crate) fn record(&self, store: &TrustStore) -> io::Result<()> {
        for (path, stamp) in &self.files {
            match stamp {
                Some(stamp) => store.trust_file(path, stamp)?,
                None => store.forget_file(path)?,
            }
        }
        self.folders.iter().try_for_each(|(folder, print)| store.trust_folder(folder, print))
    }
}

/// Returns `None` if the path does not exist.
pub(super) fn existing_fingerprint(path: &Path) -> io::Result<Option<FileFingerprint>> {
    match FileFingerprint::of(path) {
        Ok(stamp) => Ok(Some(stamp)),
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Changes of a program in exposed folders that have not been trusted. Elsewhere a change counts as the owner's.
pub(crate) fn pending_changes(store: &TrustStore, program: &GuardedProgram, own: &[PathBuf]) -> Vec<String> {
    let files = program.files.iter().flat_map(|path| pending_file_change(store, path));
    let folders = program.folders.iter().filter(|folder| is_folder_exposed(store, folder));
    let folders = folders.flat_map(|folder| match store.folder(folder) {
        Some(trusted) => with_folder(folder, trusted.differences_on_disk(folder, own)),
        None => vec![format!("never trusted: {}", folder.display())],
    });
    files.chain(folders).collect()
}

fn with_folder(folder: &Path, differences: Vec<String>) -> Vec<String> {
    differences.into_iter().map(|line| format!("{line} in {}", folder.display())).collect()
}

/// The same for a single file.
pub(crate) fn pending_file_change(store: &TrustStore, path: &Path) -> Option<String> {
    if !is_exposed(store, path) {
        return None;
    }
    match store.file(path) {
        Some(stamp) if stamp.matches_disk(path) => None,
        Some(_) => Some(format!("changed {}", path.display())),
        // Absent then and now: nothing to start.
        None if !path.exists() => None,
        None => Some(format!("never trusted: {}", path.display())),
    }
}

/// Why a file with a secret is not used: it was created where agents may write.
pub(crate) fn untrusted_secret(store: &TrustStore, path: &Path) -> Option<String> {
    let is_planted = path.exists() && is_exposed(store, path) && store.file(path).is_none();
    is_planted.then(|| format!("never trusted: {}", path.display()))
}

#[cfg(test)]
mod tests;
