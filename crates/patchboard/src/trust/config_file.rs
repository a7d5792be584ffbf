//! Decides which text of a configuration file is used: its own, the trusted one, or none.

use std::io;
use std::path::Path;

use patchboard_config::files::{ConfigFile, ConfigFileReader, DiskReader, FileLayer, FileWarning, unreadable_reason};

use super::TrustStore;
use super::config_review::{review_changes, review_config};
use super::exposure::is_exposed;
use super::pending_trust::untrusted_secret;
use crate::output::one_line;

/// Lines of a file in a warning.
const MAX_SHOWN_LINES: usize = 6;

/// Reads configuration files as far as they are trusted.
#[derive(Debug, Clone)]
pub(crate) struct TrustedReader {
    pub(crate) store: TrustStore,
}

/// What is on disk at the path of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DiskText {
    Absent,
    Text(String),
    /// Not a configuration file: a folder, a pipe, not UTF-8, too large. Holds the reason.
    Unreadable(String),
}

impl DiskText {
    pub(crate) fn of(file: &ConfigFile) -> Self {
        Self::from(&DiskReader.read(file))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }
}

impl From<&io::Result<Option<String>>> for DiskText {
    fn from(read: &io::Result<Option<String>>) -> Self {
        match read {
            Ok(Some(text)) => Self::Text(text.clone()),
            Ok(None) => Self::Absent,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Absent,
            Err(error) => Self::Unreadable(unreadable_reason(error)),
        }
    }
}

impl ConfigFileReader for TrustedReader {
    fn read(&self, file: &ConfigFile) -> io::Result<Option<String>> {
        let read = DiskReader.read(file);
        match judge_config(&self.store, file, &DiskText::from(&read)) {
            ConfigVerdict::Accepted => read,
            ConfigVerdict::UseTrusted { trusted } => Ok(Some(trusted)),
            ConfigVerdict::Untrusted => Ok(None),
        }
    }

    fn untrusted_secret_reason(&self, path: &Path) -> Option<String> {
        untrusted_secret(&self.store, path)
    }

    fn warning(&self, file: &ConfigFile) -> Option<FileWarning> {
        let found = DiskText::of(file);
        let message = match (judge_config(&self.store, file, &found), &found) {
            (ConfigVerdict::Accepted, _) => return None,
            (ConfigVerdict::UseTrusted { .. }, DiskText::Unreadable(reason)) => {
                format!("cannot be read as it is now ({reason}); the content that was trusted counts")
            }
            (ConfigVerdict::UseTrusted { trusted }, _) => {
                let changed = review_changes(&trusted, found.text().unwrap_or_default());
                let changed = changed.summary(MAX_SHOWN_LINES, is_change).join(" | ");
                format!("changed where agents may write; the content that was trusted counts: {changed}")
            }
            (ConfigVerdict::Untrusted, DiskText::Unreadable(reason)) => {
                format!("was never trusted and is left out: it cannot be read ({reason})")
            }
            (ConfigVerdict::Untrusted, _) => {
                let asked = review_config(found.text().unwrap_or_default()).summary(MAX_SHOWN_LINES, |_| true);
                format!("was never trusted and is left out: it {}", asked.join("; "))
            }
        };
        let hint = format!("look at it and allow it with `patchboard trust {}`", file.shown.display());
        Some(FileWarning { message: one_line(&message), hint })
    }
}

fn is_change(line: &str) -> bool {
    let is_head = line.starts_with("+++") || line.starts_with("---");
    !is_head && (line.starts_with('+') || line.starts_with('-'))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigVerdict {
    /// The file's own text is used, or there is no file.
    Accepted,
    /// The file changed in an exposed folder: the trusted text is used.
    UseTrusted { trusted: String },
    /// The file was never trusted and is left out.
    Untrusted,
}

/// Decides about one file and records the text that is accepted.
pub(crate) fn judge_config(store: &TrustStore, file: &ConfigFile, found: &DiskText) -> ConfigVerdict {
    let path = &*file.path;
    let trusted = store.config(path);
    if trusted.as_deref() == found.text() && !matches!(found, DiskText::Unreadable(_)) {
        return ConfigVerdict::Accepted;
    }
    let is_exposed = is_exposed(store, path);
    match (file.layer, trusted, found) {
        (_, Some(trusted), _) if is_exposed => ConfigVerdict::UseTrusted { trusted },
        // Removed by its owner. If the file returns, it is compared with what was trusted.
        (_, _, DiskText::Absent) => ConfigVerdict::Accepted,
        // A project file may come from a third party, so an unreadable one must not prevent the server's start.
        (FileLayer::Project, Some(trusted), DiskText::Unreadable(_)) => ConfigVerdict::UseTrusted { trusted },
        (FileLayer::Project, None, _) => ConfigVerdict::Untrusted,
        // The file was created or renamed where agents may write, or its record cannot be read.
        (FileLayer::User | FileLayer::Named, None, _) if is_exposed => ConfigVerdict::Untrusted,
        // The operator's own file: reported as an ordinary read error.
        (FileLayer::Named | FileLayer::User, _, DiskText::Unreadable(_)) => ConfigVerdict::Accepted,
        (_, _, DiskText::Text(text)) => trust_current_text(store, path, text),
    }
}

fn trust_current_text(store: &TrustStore, path: &Path, text: &str) -> ConfigVerdict {
    if let Err(error) = store.trust_config(path, text) {
        // Without a record, a later change in an exposed folder is not accepted: safe, only inconvenient.
        tracing::debug!(%error, path = %path.display(), "the accepted configuration text cannot be recorded");
    }
    ConfigVerdict::Accepted
}

#[cfg(test)]
mod tests;
