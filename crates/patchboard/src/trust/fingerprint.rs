//! Fingerprints recognise files and folders of programs without reading them: by inode, size and change time. The
//! kernel sets the change time, so a process cannot forge it. If they differ but the size does not, the content is
//! compared.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use patchboard_config::files::open_regular;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Files in one folder. A folder with more cannot be watched; in an exposed folder it counts as changed.
pub(crate) const MAX_FILES: usize = 5_000;
/// Larger files, and files past this sum in one folder, are not hashed: there, different metadata is a change.
const MAX_HASHED_BYTES: u64 = 64 * 1024 * 1024;
/// Filled by package managers and interpreters, not by a program's author.
const SKIPPED_FOLDERS: &[&str] = &[".venv", "venv", "site-packages", "node_modules", "__pycache__", ".git"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileFingerprint {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    /// `None` for large files.
    sha256: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FolderFingerprint {
    /// By path relative to the folder, escaped.
    files: BTreeMap<String, FileFingerprint>,
    /// The folder has more files than `MAX_FILES`.
    is_cut: bool,
}

impl FileFingerprint {
    /// Reads only regular files that can be opened without blocking.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self { sha256: hash_file(path, &found), ..Self::without_hash(&found) })
    }

    fn without_hash(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
            sha256: None,
        }
    }

    /// Whether the file on disk is unchanged. Reads it only if the metadata differs and the size does not.
    pub(crate) fn matches_disk(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| self.matches_metadata(path, &found))
    }

    /// Whether `now`, taken at another time or path, has the same content.
    pub(crate) fn same_content_as(&self, now: &Self) -> bool {
        self.same_metadata_as(now) || (self.size == now.size && self.sha256.is_some() && self.sha256 == now.sha256)
    }

    /// Same file, unchanged according to the kernel.
    fn same_metadata_as(&self, now: &Self) -> bool {
        (self.device, self.inode, self.size, self.changed) == (now.device, now.inode, now.size, now.changed)
    }

    /// Whether the content has this hash; `None` if no hash is recorded.
    pub(crate) fn has_content(&self, sha256: &str) -> Option<bool> {
        self.sha256.as_ref().map(|trusted| trusted == sha256)
    }

    fn matches_metadata(&self, path: &Path, found: &Metadata) -> bool {
        let has_content =
            || self.size == found.size() && self.sha256.is_some() && self.sha256 == hash_file(path, found);
        self.same_metadata_as(&Self::without_hash(found)) || has_content()
    }
}

impl FolderFingerprint {
    /// `left_out`: real paths of the server's own data.
    pub(crate) fn of(folder: &Path, left_out: &[PathBuf]) -> Self {
        let mut print = Self::default();
        let mut hashed_bytes: u64 = 0;
        print.is_cut = walk(folder, left_out, |name, path, found| {
            hashed_bytes = hashed_bytes.saturating_add(found.len());
            let sha256 = if hashed_bytes <= MAX_HASHED_BYTES { hash_file(path, found) } else { None };
            print.files.insert(name, FileFingerprint { sha256, ..FileFingerprint::without_hash(found) });
        });
        print
    }

    /// Differences from the files on disk, one line each. Content is read only where metadata differs.
    pub(crate) fn differences_on_disk(&self, folder: &Path, left_out: &[PathBuf]) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut different = Vec::new();
        let is_cut = walk(folder, left_out, |name, path, found| {
            different
                .extend(file_difference(&name, self.files.get(&name), |trusted| trusted.matches_metadata(path, found)));
            seen.insert(name);
        });
        self.add_summary_differences(different, |name| seen.contains(name), is_cut)
    }

    /// Differences from a later fingerprint, so that what is recorded is exactly what was shown.
    pub(crate) fn differences_to(&self, now: &Self) -> Vec<String> {
        let files = now.files.iter();
        let different = files.filter_map(|(name, found)| {
            file_difference(name, self.files.get(name), |trusted| trusted.same_content_as(found))
        });
        self.add_summary_differences(different.collect(), |name| now.files.contains_key(name), now.is_cut)
    }

    fn add_summary_differences(
        &self,
        mut different: Vec<String>,
        is_there: impl Fn(&String) -> bool,
        is_cut: bool,
    ) -> Vec<String> {
        let gone = self.files.keys().filter(|name| !is_there(name));
        different.extend(gone.map(|name| format!("gone {name}")));
        if self.is_cut || is_cut {
            different.push(format!("over {MAX_FILES} files: move the program to a folder of its own"));
        }
        different
    }
}

fn file_difference(
    name: &str,
    trusted: Option<&FileFingerprint>,
    fits: impl FnOnce(&FileFingerprint) -> bool,
) -> Option<String> {
    match trusted {
        Some(trusted) if fits(trusted) => None,
        Some(_) => Some(format!("changed {name}")),
        None => Some(format!("new {name}")),
    }
}

/// Calls `each` for every file beneath a folder, following symlinks but entering each folder once. Returns true if
/// there are more than `MAX_FILES`.
fn walk(folder: &Path, left_out: &[PathBuf], mut each: impl FnMut(String, &Path, &Metadata)) -> bool {
    let mut waiting = VecDeque::from([(folder.to_owned(), PathBuf::new())]);
    // Compared by inode, as a symlink may lead to them.
    let is_own = |found: &Metadata, own: &Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
    let own: Vec<Metadata> = left_out.iter().filter_map(|path| fs::metadata(path).ok()).collect();
    let mut entered = HashSet::new();
    let mut files = 0;
    while let Some((folder, relative)) = waiting.pop_front() {
        let Ok(itself) = fs::metadata(&folder) else { continue };
        if !entered.insert((itself.dev(), itself.ino())) {
            continue;
        }
        let Ok(listed) = fs::read_dir(&folder) else { continue };
        let mut entries: Vec<_> = listed.flatten().take(MAX_FILES + 1).collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            if SKIPPED_FOLDERS.iter().any(|left_out| name == *left_out) {
                continue;
            }
            let (path, relative) = (entry.path(), relative.join(&name));
            let Ok(found) = fs::metadata(&path) else { continue };
            if own.iter().any(|own| is_own(&found, own)) {
                continue;
            }
            if found.is_dir() {
                waiting.push_back((path, relative));
            } else {
                each(relative.as_os_str().as_encoded_bytes().escape_ascii().to_string(), &path, &found);
            }
            files += 1;
            if files > MAX_FILES {
                return true;
            }
        }
    }
    false
}

/// Returns `None` if the path is not a regular file, is too large, or was replaced since `found` was read.
fn hash_file(path: &Path, found: &Metadata) -> Option<String> {
    if !found.is_file() || found.len() > MAX_HASHED_BYTES {
        return None;
    }
    let file = open_regular(path).ok()?;
    let opened = file.metadata().ok()?;
    if (opened.dev(), opened.ino(), opened.len()) != (found.dev(), found.ino(), found.len()) {
        return None;
    }
    let mut hasher = Sha256::new();
    // A file that grows meanwhile is read only up to its known size.
    let read = io::copy(&mut io::Read::take(file, found.len()), &mut hasher).ok()?;
    (read == found.len()).then(|| hex::encode(hasher.finalize()))
}

#[cfg(test)]
mod tests;
