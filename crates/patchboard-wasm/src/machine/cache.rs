//! A disk cache of compiled code, so that each plugin is compiled once. The code is executed natively, so only this
//! server may have written it: the folder is private, every file ends with its own hash, and any irregularity causes a
//! recompilation.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

/// With another file, the least recently used one is removed.
const MAX_FILES: usize = 64;
const SUFFIX: &str = "cwasm";
const HASH_BYTES: usize = 32;
/// Bytes per read.
const READ_CHUNK_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct CompileCache {
    folder: PathBuf,
    /// A hash of the compiler's version and settings.
    engine: u64,
}

impl CompileCache {
    pub(crate) fn new(folder: PathBuf, engine: &Engine) -> Self {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self { folder, engine: hasher.finish() }
    }

    /// `None` if no usable code is cached.
    pub(crate) fn get(&self, engine: &Engine, hash: &[u8; 32]) -> Option<Component> {
        let path = self.path(hash);
        match read(engine, &path) {
            Ok(component) => {
                mark_used(&path);
                Some(component)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "compiled code cannot be used: compiling again");
                None
            }
        }
    }

    /// If the write fails, the plugin is compiled again next time.
    pub(crate) fn put(&self, hash: &[u8; 32], component: &Component) {
        let written = component
            .serialize()
            .map_err(|error| io::Error::other(format!("{error:#}")))
            .and_then(|code| write(&self.folder, &self.path(hash), &code));
        match written {
            Ok(()) => prune(&self.folder),
            Err(error) => {
                tracing::warn!(folder = %self.folder.display(), %error, "compiled code cannot be cached");
            }
        }
    }

    fn path(&self, hash: &[u8; 32]) -> PathBuf {
        self.folder.join(format!("{}-{:016x}.{SUFFIX}", hex::encode(hash), self.engine))
    }
}

fn read(engine: &Engine, path: &Path) -> io::Result<Component> {
    let mut file = File::options().read(true).custom_flags(NO_FOLLOW).open(path)?;
    if let Some(folder) = path.parent() {
        check_owner(&fs::symlink_metadata(folder)?, 0o700)?;
    }
    check_owner(&file.metadata()?, 0o600)?;
    check_integrity(&mut file)?;
    deserialize(engine, path)
}

const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// Rejects files that another user could have written.
fn check_owner(metadata: &fs::Metadata, mode: u32) -> io::Result<()> {
    let us = rustix::process::geteuid().as_raw();
    match metadata.uid() == us && metadata.mode() & 0o777 == mode {
        true => Ok(()),
        false => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it is not owned by this user, mode {mode:o}")))
        }
    }
}

/// Updates the times for the least-recently-used order; a failure only makes the file expire sooner.
fn mark_used(path: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    let _noted = rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW);
}

/// The last bytes of the file are the hash of all bytes before them.
fn check_integrity(file: &mut File) -> io::Result<()> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "its hash does not match");
    let code = file.metadata()?.len().checked_sub(HASH_BYTES as u64).ok_or_else(broken)?;
    let mut hasher = Sha256::new();
    let mut remaining = code;
    let mut chunk = vec![0; READ_CHUNK_BYTES];
    while remaining > 0 {
        let length = usize::try_from(remaining).unwrap_or(READ_CHUNK_BYTES).min(READ_CHUNK_BYTES);
        let read = file.read(&mut chunk[..length])?;
        if read == 0 {
            return Err(broken());
        }
        hasher.update(&chunk[..read]);
        remaining -= read as u64;
    }
    let mut stored_hash = [0; HASH_BYTES];
    file.read_exact(&mut stored_hash)?;
    match stored_hash == <[u8; HASH_BYTES]>::from(hasher.finalize()) {
        true => Ok(()),
        false => Err(broken()),
    }
}

/// The file stays mapped, so that unused code takes no memory. Files are never changed in place, only replaced.
#[expect(unsafe_code, reason = "machine code is run as it is; it was found to be what this server wrote")]
fn deserialize(engine: &Engine, path: &Path) -> io::Result<Component> {
    // SAFETY: the file is in a folder that only this user can write to, belongs to this user, and its content matches
    // the hash that this server wrote with it; wasmtime itself checks version and settings.
    unsafe { Component::deserialize_file(engine, path) }.map_err(|error| io::Error::other(format!("{error:#}")))
}

/// Writes atomically, by renaming a temporary file.
fn write(folder: &Path, path: &Path, code: &[u8]) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check_owner(&fs::symlink_metadata(folder)?, 0o700)?;
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = write_with_hash(&unfinished, code).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // Removes the temporary file, best effort.
        drop(fs::remove_file(&unfinished));
    }
    written
}

fn write_with_hash(path: &Path, code: &[u8]) -> io::Result<()> {
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).custom_flags(NO_FOLLOW).open(path)?;
    file.write_all(code)?;
    file.write_all(&Sha256::digest(code))?;
    file.sync_data()
}

/// Best effort: files that cannot be removed are retried with the next plugin.
fn prune(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX || suffix == "tmp"))
        .filter_map(|path| Some((fs::symlink_metadata(&path).and_then(|metadata| metadata.modified()).ok()?, path)))
        .collect();
    files.sort_unstable();
    let surplus = files.len().saturating_sub(MAX_FILES);
    for (_, path) in files.into_iter().take(surplus) {
        drop(fs::remove_file(path));
    }
}

#[cfg(test)]
mod tests;
