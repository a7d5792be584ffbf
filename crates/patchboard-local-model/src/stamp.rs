//! Marks a finished directory: records the build key and the sizes of large files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

const FILE_NAME: &str = "stamp";
/// Files of this size and more are listed, so that truncation by a machine crash is noticed.
const LISTED_BYTES: u64 = 1024 * 1024;
/// A stamp is some hundred bytes; anything larger is not a stamp.
const MAX_STAMP_BYTES: u64 = 64 * 1024;

/// Inputs of a directory's build; a different key requires a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BuildKey(String);

impl BuildKey {
    pub(super) fn of(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hex::encode(hash.finalize()))
    }
}

/// Written last, before the directory is moved to its final path.
pub(super) fn write(directory: &Path, key: &BuildKey) -> io::Result<()> {
    let mut text = format!("made-from {}\n", key.0);
    for (path, length) in files(directory)? {
        if length >= LISTED_BYTES
            && let Some(relative) = path.strip_prefix(directory).ok().and_then(Path::to_str)
        {
            text.push_str(&format!("file {length} {relative}\n"));
        }
    }
    fs::write(directory.join(FILE_NAME), text)
}

/// Whether the directory is complete and was made from `key`.
pub(super) fn is_current(directory: &Path, key: &BuildKey) -> bool {
    let path = directory.join(FILE_NAME);
    if !fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() <= MAX_STAMP_BYTES) {
        return false;
    }
    let Ok(text) = fs::read_to_string(&path) else { return false };
    let mut lines = text.lines();
    lines.next().and_then(|line| line.strip_prefix("made-from ")) == Some(key.0.as_str())
        && lines.all(|line| file_is_whole(directory, line))
}

/// Total bytes of all files below a directory; files that vanish meanwhile count as zero.
pub(super) fn directory_size(directory: &Path) -> u64 {
    files(directory).map(|found| found.iter().map(|(_, length)| length).sum()).unwrap_or_default()
}

fn file_is_whole(directory: &Path, line: &str) -> bool {
    let mut words = line.splitn(3, ' ');
    let (Some("file"), Some(length), Some(path)) = (words.next(), words.next(), words.next()) else { return false };
    fs::metadata(directory.join(path)).is_ok_and(|found| length.parse() == Ok(found.len()))
}

/// All regular files with their lengths. Links are not followed: an environment links to its interpreter.
fn files(directory: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        let entries = match fs::read_dir(&next) {
            Ok(entries) => entries,
            // Installers remove their temporary directories while they are being scanned.
            Err(error) if error.kind() == io::ErrorKind::NotFound && next != directory => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => waiting.push(entry.path()),
                Ok(meta) if meta.is_file() => found.push((entry.path(), meta.len())),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}
