//! Other names (hard links) of protected files. A hard link opens a file although the file's own path is closed, and
//! both Landlock and mounts work by path. So if a protected file has several names, all of them have to be found and
//! closed to the command; while one of them is unknown, nothing is started.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// At most this many entries are examined; names not found by then count as unknown.
const MAX_ENTRIES: usize = 100_000;

type InodeKey = (u64, u64);

/// A protected file with more than one name.
#[derive(Debug)]
struct LinkedFile {
    path: PathBuf,
    link_count: u64,
    /// Parent folder and file name, so that a name reached through two paths counts once.
    known_names: HashSet<(InodeKey, OsString)>,
}

impl LinkedFile {
    fn is_complete(&self) -> bool {
        self.known_names.len() as u64 >= self.link_count
    }
}

/// Returns the other names of those of `protected` that are files, searched for in `folders` and beneath, in order.
/// Fails with a message while a name is unknown.
pub(super) fn find<'a>(
    protected: impl IntoIterator<Item = &'a Path>,
    folders: impl IntoIterator<Item = PathBuf>,
) -> Result<Vec<PathBuf>, String> {
    let mut linked =
        files_with_links(protected).map_err(|error| format!("cannot inspect a protected path: {error}"))?;
    let mut found = Vec::new();
    let mut entry_count = 0;
    // In order, so that the bound is not spent on a whole system that the command may read.
    let mut pending: Vec<PathBuf> = folders.into_iter().collect();
    pending.reverse();
    while let Some(folder) = pending.pop() {
        if entry_count >= MAX_ENTRIES || linked.values().all(LinkedFile::is_complete) {
            break;
        }
        // A folder that this user cannot list cannot be listed by the command either.
        let (Ok(entries), Ok(folder_metadata)) = (folder.read_dir(), folder.metadata()) else { continue };
        for entry in entries.flatten().take(MAX_ENTRIES - entry_count) {
            entry_count += 1;
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                pending.push(entry.path());
            } else if let Some(file) = linked.get_mut(&inode_key(&metadata))
                && file.known_names.insert((inode_key(&folder_metadata), entry.file_name()))
            {
                found.push(entry.path());
            }
        }
    }
    match linked.values().find(|file| !file.is_complete()) {
        None => Ok(found),
        Some(LinkedFile { path, link_count: names, known_names: known }) => {
            let (path, known) = (path.display(), known.len());
            Err(format!(
                "nothing is started while the protected file `{path}` has {names} names (hard links) of which only {known} \
                 are known: the others could be read; give it a single name: `cp -p {path} {path}.new && mv {path}.new \
                 {path}`"
            ))
        }
    }
}

fn files_with_links<'a>(protected: impl IntoIterator<Item = &'a Path>) -> io::Result<HashMap<InodeKey, LinkedFile>> {
    let mut linked = HashMap::new();
    for path in protected {
        let (resolved, metadata) = match path.canonicalize().and_then(|resolved| Ok((resolved.metadata()?, resolved))) {
            Ok((metadata, resolved)) => (resolved, metadata),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(error),
        };
        let (Some(parent), Some(name)) = (resolved.parent(), resolved.file_name()) else { continue };
        if metadata.is_dir() || metadata.nlink() < 2 {
            continue;
        }
        let file = linked.entry(inode_key(&metadata)).or_insert_with(|| LinkedFile {
            path: resolved.clone(),
            link_count: metadata.nlink(),
            known_names: HashSet::new(),
        });
        file.known_names.insert((inode_key(&parent.metadata()?), name.to_owned()));
    }
    Ok(linked)
}

fn inode_key(metadata: &Metadata) -> InodeKey {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests;
