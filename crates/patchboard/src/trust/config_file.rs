//! Which text of a configuration file counts: the file's own, the trusted one, or none.

use std::io;
use std::path::{Path, PathBuf};

use super::TrustStore;
use super::asks::{asks, difference};
use super::guard::waiting_secret;
use crate::cli::output::one_line;
use crate::config::files::{ConfigFile, DiskReader, FileLayer, FileReader, FileWarning};

/// Lines of a file that a warning shows.
const SHOWN: usize = 6;

/// Reads configuration files as far as they are trusted.
#[derive(Debug, Clone)]
pub(crate) struct TrustedReader {
    pub(crate) store: TrustStore,
}

impl FileReader for TrustedReader {
    fn read(&self, file: &ConfigFile) -> io::Result<Option<String>> {
        let read = DiskReader.read(file);
        // What took the place of a trusted file may be no file at all.
        let text = read.as_ref().ok().and_then(Option::as_deref);
        match judge_config(&self.store, file, text) {
            ConfigVerdict::AsItIs => read,
            ConfigVerdict::Changed { trusted } => Ok(Some(trusted)),
            ConfigVerdict::Untrusted => Ok(None),
        }
    }

    fn refuses_secret(&self, path: &Path) -> Option<String> {
        waiting_secret(&self.store, path)
    }

    fn warning(&self, file: &ConfigFile) -> Option<FileWarning> {
        let text = DiskReader.read(file).ok().flatten();
        let message = match judge_config(&self.store, file, text.as_deref()) {
            ConfigVerdict::AsItIs => return None,
            ConfigVerdict::Changed { trusted } => {
                let lines = difference(&trusted, text.as_deref().unwrap_or_default());
                let changed: Vec<String> = lines.into_iter().filter(|line| is_change(line)).take(SHOWN).collect();
                let changed = changed.join(" | ");
                format!("changed where agents may write; the content that was trusted counts: {changed}")
            }
            ConfigVerdict::Untrusted => {
                let asked = asks(text.as_deref().unwrap_or_default());
                let asked: Vec<String> = asked.into_iter().take(SHOWN).collect();
                format!("was never trusted and is left out: it {}", asked.join("; "))
            }
        };
        let hint = format!("look at it and let it count with `patchboard trust {}`", file.shown.display());
        Some(FileWarning { message: one_line(&message), hint })
    }
}

fn is_change(line: &str) -> bool {
    let is_head = line.starts_with("+++") || line.starts_with("---");
    !is_head && (line.starts_with('+') || line.starts_with('-'))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigVerdict {
    /// The file's own text counts, or there is no file.
    AsItIs,
    /// It changed in an exposed folder: the trusted text counts.
    Changed { trusted: String },
    /// It was never trusted and is left out.
    Untrusted,
}

/// Decides about one file, `text` being what it holds now, and records what is trusted from now on.
pub(crate) fn judge_config(store: &TrustStore, file: &ConfigFile, text: Option<&str>) -> ConfigVerdict {
    let path = &*file.path;
    let trusted = store.config(path);
    if trusted.as_deref() == text {
        return ConfigVerdict::AsItIs;
    }
    let is_exposed = exposure_keys(path).iter().any(|folder| store.is_exposed(folder));
    match (file.layer, trusted, text) {
        (_, Some(trusted), _) if is_exposed => ConfigVerdict::Changed { trusted },
        // Removed by its owner. If it comes back, it is judged against what was trusted.
        (_, _, None) => ConfigVerdict::AsItIs,
        (FileLayer::Named, None, Some(text)) => accept(store, path, text),
        (FileLayer::User, None, Some(text)) if !is_exposed => accept(store, path, text),
        (FileLayer::User | FileLayer::Project, None, Some(_)) => ConfigVerdict::Untrusted,
        (_, Some(_), Some(text)) => accept(store, path, text),
    }
}

/// Folders whose exposure concerns a file: its own, and that of what it leads to.
pub(crate) fn exposure_keys(path: &Path) -> Vec<PathBuf> {
    let named = path.parent().map(Path::to_owned);
    let real = path.canonicalize().ok().and_then(|real| real.parent().map(Path::to_owned));
    let mut keys: Vec<_> = [named, real].into_iter().flatten().collect();
    keys.dedup();
    keys
}

fn accept(store: &TrustStore, path: &Path, text: &str) -> ConfigVerdict {
    if let Err(error) = store.trust_config(path, text) {
        // Without a record a later change in an exposed folder is not obeyed: that is safe, and only a nuisance.
        tracing::debug!(%error, path = %path.display(), "what this configuration file says now cannot be recorded");
    }
    ConfigVerdict::AsItIs
}

#[cfg(test)]
mod tests;
