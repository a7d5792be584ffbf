//! API keys on disk, separate from the configuration: one file per provider, readable by its owner only.
//!
//! Files are written atomically: created under another name with their final mode, flushed, and renamed.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret, SecretString};

use crate::types::SECRET_BYTES_MAX;

#[cfg(test)]
mod tests;

/// Access for the owner only.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error("`{0}` cannot be a provider's name: use letters, digits, `-` and `_`")]
    BadName(String),
    #[error("the key is empty")]
    EmptyKey,
    #[error("the key holds spaces or characters that no API key has")]
    BadKey,
    #[error("cannot create folder `{}`", .path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write `{}`", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A folder of stored keys.
#[derive(Clone, Debug)]
pub struct CredentialStore {
    folder: PathBuf,
}

impl CredentialStore {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The path of a provider's key; `None` for a name that could lead out of the folder.
    pub(crate) fn path(&self, provider: &str) -> Option<PathBuf> {
        is_provider_name(provider).then(|| self.folder.join(format!("{provider}.key")))
    }

    /// The stored key. Returns `None` if the file is absent, empty, unreadable or not a key.
    pub fn read(&self, provider: &str) -> Option<SecretString> {
        let file = File::open(self.path(provider)?).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        let read = file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text).ok()?;
        if u64::try_from(read).ok()? > SECRET_BYTES_MAX {
            return None;
        }
        parse_key(&SecretString::from(text)).ok()
    }

    /// Writes the key under a temporary name; [`PendingFile::commit`] puts it in place. This lets a caller prepare
    /// other files first.
    pub fn prepare(&self, provider: &str, key: &SecretString) -> Result<PendingFile, CredentialError> {
        let path = self.path(provider).ok_or_else(|| CredentialError::BadName(provider.to_owned()))?;
        let key = parse_key(key)?;
        create_private_folder(&self.folder)?;
        let line = SecretString::from(format!("{}\n", key.expose_secret()));
        PendingFile::write(&path, line.expose_secret().as_bytes(), FILE_MODE)
    }
}

/// The key without surrounding whitespace. Keys are sent in HTTP headers, so anything but visible ASCII is a copying
/// error.
pub fn parse_key(text: &SecretString) -> Result<SecretString, CredentialError> {
    let key = text.expose_secret().trim();
    if key.is_empty() {
        Err(CredentialError::EmptyKey)
    } else if key.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(SecretString::from(key))
    } else {
        Err(CredentialError::BadKey)
    }
}

fn is_provider_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// Creates a folder that only its owner can enter.
pub fn create_private_folder(folder: &Path) -> Result<(), CredentialError> {
    let failed = |source| CredentialError::Folder { path: folder.to_owned(), source };
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(failed)?;
    // An existing folder may be open to others.
    let mode = fs::metadata(folder).map_err(failed)?.mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(FOLDER_MODE)).map_err(failed)?;
    }
    Ok(())
}

/// A file written under a temporary name, which is removed on drop without a commit.
#[derive(Debug)]
pub struct PendingFile {
    temporary: Option<PathBuf>,
    target: PathBuf,
}

impl PendingFile {
    /// Writes `bytes` beside `target`; the file has `mode` from its creation on.
    pub fn write(target: &Path, bytes: &[u8], mode: u32) -> Result<Self, CredentialError> {
        let failed = |source| CredentialError::Write { path: target.to_owned(), source };
        let (mut file, temporary) = create_beside(target, mode).map_err(failed)?;
        let pending = Self { temporary: Some(temporary), target: target.to_owned() };
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(pending)
    }

    /// Renames the file to its target.
    pub fn commit(mut self) -> Result<PathBuf, CredentialError> {
        let failed = |source| CredentialError::Write { path: self.target.clone(), source };
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.target).map_err(failed)?;
        }
        self.temporary = None;
        // The rename must survive a power failure too. If the folder cannot be flushed, the file itself is still
        // complete, so that is not an error.
        if let Some(folder) = self.target.parent() {
            File::open(folder).and_then(|folder| folder.sync_all()).unwrap_or_default();
        }
        Ok(std::mem::take(&mut self.target))
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            fs::remove_file(temporary).unwrap_or_default();
        }
    }
}

/// Creates a new file beside `target`, never following or reusing an existing one. A file left by a crash only occupies
/// its number.
fn create_beside(target: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..64 {
        let temporary = target.with_file_name(format!(".{name}.{}-{attempt}", std::process::id()));
        let created = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary);
        match created {
            Ok(file) => return Ok((file, temporary)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}
