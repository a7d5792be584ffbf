//! Files and folders of programs, recognised without reading them: inode, size and change time. The kernel sets the change
//! time, so a process cannot forge it. Where these differ, the content decides.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Of a folder. With more it cannot be watched, and in an exposed folder it then counts as changed.
pub(crate) const MAX_FILES: usize = 5_000;
/// No hash is kept of a larger file, nor of what exceeds this in one folder: there a different stamp is a change.
const MAX_HASHED_BYTES: u64 = 64 * 1024 * 1024;
/// Filled by package managers and interpreters; looked at by nobody who writes programs.
const LEFT_OUT: &[&str] = &[".venv", "venv", "site-packages", "node_modules", "__pycache__", ".git"];

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    /// Left out of large files.
    sha256: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FolderPrint {
    /// By path relative to the folder, escaped.
    files: BTreeMap<String, FileStamp>,
    /// There are more files than are watched.
    is_cut: bool,
}

impl FileStamp {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self { sha256: hash(path, &found), ..Self::without_hash(&found) })
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

    /// Is the file still what it was? Reads it only where its stamp differs.
    pub(crate) fn still_holds(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|found| self.fits(path, &found))
    }

    /// Is this the content that was trusted? `None`: there is no hash of it.
    pub(crate) fn has_content(&self, sha256: &str) -> Option<bool> {
        self.sha256.as_ref().map(|trusted| trusted == sha256)
    }

    fn fits(&self, path: &Path, found: &Metadata) -> bool {
        let now = Self::without_hash(found);
        let is_same =
            (self.device, self.inode, self.size, self.changed) == (now.device, now.inode, now.size, now.changed);
        is_same || (self.sha256.is_some() && self.sha256 == hash(path, found))
    }
}

impl FolderPrint {
    pub(crate) fn of(folder: &Path) -> Self {
        let mut print = Self::default();
        let mut hashed_bytes: u64 = 0;
        print.is_cut = walk(folder, |name, path, found| {
            hashed_bytes = hashed_bytes.saturating_add(found.len());
            let sha256 = if hashed_bytes <= MAX_HASHED_BYTES { hash(path, found) } else { None };
            print.files.insert(name, FileStamp { sha256, ..FileStamp::without_hash(found) });
        });
        print
    }

    /// What differs now, a line each; empty when nothing does.
    pub(crate) fn differences(&self, folder: &Path) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut different = Vec::new();
        let is_cut = walk(folder, |name, path, found| {
            match self.files.get(&name) {
                Some(trusted) if trusted.fits(path, found) => {}
                Some(_) => different.push(format!("changed {name}")),
                None => different.push(format!("new {name}")),
            }
            seen.insert(name);
        });
        let gone = self.files.keys().filter(|name| !seen.contains(*name));
        different.extend(gone.map(|name| format!("gone {name}")));
        if self.is_cut || is_cut {
            different.push(format!("over {MAX_FILES} files: move the program to a folder of its own"));
        }
        different
    }
}

/// Calls `each` for every file beneath a folder, links followed, each folder once. `true`: there were more than are watched.
fn walk(folder: &Path, mut each: impl FnMut(String, &Path, &Metadata)) -> bool {
    let mut waiting = VecDeque::from([(folder.to_owned(), PathBuf::new())]);
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
            if LEFT_OUT.iter().any(|left_out| name == *left_out) {
                continue;
            }
            let (path, relative) = (entry.path(), relative.join(&name));
            let Ok(found) = fs::metadata(&path) else { continue };
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

fn hash(path: &Path, found: &Metadata) -> Option<String> {
    if !found.is_file() || found.len() > MAX_HASHED_BYTES {
        return None;
    }
    let mut hasher = Sha256::new();
    let mut file = File::open(path).ok()?;
    io::copy(&mut io::Read::take(&mut file, MAX_HASHED_BYTES + 1), &mut hasher).ok()?;
    Some(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests;
