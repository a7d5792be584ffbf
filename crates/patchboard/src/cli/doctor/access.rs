//! Who may come in, and who could read what is kept.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Finding;
use crate::config::Loaded;
use crate::data_dir;

/// Others may change it.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Others may read it.
const READABLE_BY_OTHERS: u32 = 0o044;

/// Files with keys and tokens: the operator's, those that `onboard` stored, and those that the configuration names.
pub(super) fn key_files(loaded: &Loaded) -> Finding {
    let config = &loaded.config;
    let mut files = data_dir::secret_files(&config.data_dir, &config.storage.path);
    let stored = loaded.folders.credentials_dir().and_then(|folder| folder.read_dir().ok());
    files.extend(stored.into_iter().flatten().flatten().map(|entry| entry.path()));
    files.extend(config.secret_files());
    judge(&files)
}

fn judge(files: &[PathBuf]) -> Finding {
    let user = rustix::process::geteuid().as_raw();
    let mut readable = Vec::new();
    let mut count = 0;
    for path in files {
        let Ok(found) = fs::metadata(path) else { continue };
        count += 1;
        let shown = path.display();
        if found.uid() != user && found.uid() != 0 {
            return Finding::Bad {
                problem: format!("keys: {shown} belongs to user {}, who can change it", found.uid()),
                hint: format!("chown {user} {shown}, or make it anew"),
            };
        }
        if found.mode() & WRITABLE_BY_OTHERS != 0 {
            return Finding::Bad {
                problem: format!("keys: others may change {shown} (mode {:o})", found.mode() & 0o777),
                hint: format!("chmod 600 {shown}"),
            };
        }
        if found.mode() & READABLE_BY_OTHERS != 0 {
            readable.push(path.as_path());
        }
    }
    match readable.as_slice() {
        [] => Finding::Good(format!("keys: {count} files with keys and data, readable by this user only")),
        readable => Finding::Note(format!("keys: others may read {}; chmod 600 keeps them out", listed(readable))),
    }
}

fn listed(paths: &[&Path]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
