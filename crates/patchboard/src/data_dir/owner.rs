//! Checks the owner and mode of the data directory. Another user with write access could replace the operator's token
//! or the database, so the directory is closed to others before anything in it is used.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use patchboard_config::Config;

const PERMISSIONS: u32 = 0o777;
const GROUP: u32 = 0o070;
const OTHERS: u32 = 0o007;
const GROUP_WRITE: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// Set on folders that all users share, such as `/tmp`.
const STICKY: u32 = 0o1000;
/// Entries checked in a folder that others could write to; further ones are not checked.
const MAX_ENTRIES: usize = 10_000;
const ROOT: u32 = 0;

/// Which users besides this one may use the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirSharing {
    OwnerOnly,
    /// `data_dir_group`: it may belong to another user, and its group may write to it.
    Group,
}

impl DirSharing {
    pub(crate) fn of(config: &Config) -> Self {
        if config.data_dir_group { Self::Group } else { Self::OwnerOnly }
    }

    /// Mode bits that must not be set.
    fn forbidden(self) -> u32 {
        match self {
            Self::OwnerOnly => GROUP | OTHERS,
            Self::Group => OTHERS,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum UnsafeFolder {
    #[error(
        "the data directory `{}` belongs to user {owner}, who could replace what is kept there: \
         `chown -R {own} {}`, name another with --data-dir, or set data_dir_group = true if it is a volume of an \
         orchestrator", .path.display(), .path.display()
    )]
    OwnedByOther { path: PathBuf, owner: u32, own: u32 },
    #[error(
        "every user may write to the data directory `{}`, which belongs to user {owner}: `chmod o-rwx {}` as that user",
        .path.display(), .path.display()
    )]
    OpenToAll { path: PathBuf, owner: u32 },
    #[error("`{}` is shared by all users (its sticky bit is set): name a folder of its own with --data-dir", .0.display())]
    SharedFolder(PathBuf),
    #[error(
        "others could write to the data directory, and `{}` in it belongs to user {owner}: look at it, then remove it or \
         `chown {own} {}`", .path.display(), .path.display()
    )]
    ForeignEntry { path: PathBuf, owner: u32, own: u32 },
    #[error("cannot close the data directory `{}` to other users", .path.display())]
    Unchangeable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// The folder's mode, if it has forbidden bits that can be removed. An error means the folder cannot be used.
pub(crate) fn inspect(path: &Path, sharing: DirSharing) -> Result<Option<u32>, UnsafeFolder> {
    let found = fs::metadata(path).map_err(|source| permission_error(path, source))?;
    let own = effective_uid();
    let mode = found.mode();
    if found.uid() != own {
        let owner = found.uid();
        return match sharing {
            DirSharing::OwnerOnly => Err(UnsafeFolder::OwnedByOther { path: path.to_owned(), owner, own }),
            DirSharing::Group if mode & OTHERS_WRITE != 0 => {
                Err(UnsafeFolder::OpenToAll { path: path.to_owned(), owner })
            }
            DirSharing::Group => Ok(None),
        };
    }
    if mode & STICKY != 0 && mode & OTHERS_WRITE != 0 {
        return Err(UnsafeFolder::SharedFolder(path.to_owned()));
    }
    Ok((mode & sharing.forbidden() != 0).then_some(mode & PERMISSIONS))
}

/// Removes other users' access to this user's directory; refuses one that others could have filled or can still change.
pub(super) fn close_to_other_users(path: &Path, sharing: DirSharing) -> Result<(), UnsafeFolder> {
    if inspect(path, sharing)?.is_none() {
        return Ok(());
    }
    let mode = fs::metadata(path).map_err(|source| permission_error(path, source))?.mode();
    let (open, own) = (mode & sharing.forbidden(), effective_uid());
    let could_write = open & (GROUP_WRITE | OTHERS_WRITE) != 0;
    // The mode is kept while there is a foreign entry, or the next start would skip this check.
    if could_write {
        refuse_foreign_entries(path, own)?;
    }
    let closed = Permissions::from_mode(mode & !open);
    fs::set_permissions(path, closed).map_err(|source| permission_error(path, source))?;
    tracing::warn!(
        "the data directory `{}` was open to other users (mode {:o}) and is now closed to them (mode {:o})",
        path.display(),
        mode & PERMISSIONS,
        mode & PERMISSIONS & !open
    );
    if could_write && let Err(refused) = refuse_foreign_entries(path, own) {
        // The entry was created just before the mode changed.
        let reopened = fs::set_permissions(path, Permissions::from_mode(mode));
        reopened.map_err(|source| permission_error(path, source))?;
        return Err(refused);
    }
    Ok(())
}

fn refuse_foreign_entries(path: &Path, own: u32) -> Result<(), UnsafeFolder> {
    match foreign_entry(path, own, &mut { MAX_ENTRIES }) {
        Some((path, owner)) => Err(UnsafeFolder::ForeignEntry { path, owner, own }),
        None => Ok(()),
    }
}

/// Whether `folder` in a data directory can hold this user's records: it belongs to this user, or can be created as
/// such. Called before the configuration is read, so `data_dir_group` is not known yet.
pub(crate) fn may_hold_records(data_dir: &Path, folder: &Path) -> bool {
    let own = effective_uid();
    match fs::symlink_metadata(folder) {
        Ok(found) => found.is_dir() && found.uid() == own,
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::metadata(data_dir) {
            Ok(found) if found.mode() & OTHERS_WRITE != 0 => false,
            // Another user's directory may be a volume shared with a group, so only root insists on its own.
            Ok(found) => found.uid() == own || own != ROOT,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        },
        Err(_) => false,
    }
}

/// Whether a file was written by this user: owned by it and not writable by others.
pub(crate) fn is_own_record(found: &Metadata) -> bool {
    found.is_file() && found.uid() == effective_uid() && found.mode() & (GROUP_WRITE | OTHERS_WRITE) == 0
}

/// An entry that belongs neither to this user nor to root.
fn foreign_entry(folder: &Path, own: u32, left: &mut usize) -> Option<(PathBuf, u32)> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        *left = left.checked_sub(1)?;
        let Ok(found) = entry.metadata() else { continue };
        if found.uid() != own && found.uid() != ROOT {
            return Some((entry.path(), found.uid()));
        }
        if found.is_dir()
            && let Some(foreign) = foreign_entry(&entry.path(), own, left)
        {
            return Some(foreign);
        }
    }
    None
}

/// A regular file, not a symlink, that others can neither read nor change.
pub(super) fn is_private_file(found: &Metadata, sharing: DirSharing) -> bool {
    let is_ours = found.uid() == effective_uid() || sharing == DirSharing::Group;
    found.is_file() && is_ours && found.mode() & sharing.forbidden() == 0
}

fn permission_error(path: &Path, source: io::Error) -> UnsafeFolder {
    UnsafeFolder::Unchangeable { path: path.to_owned(), source }
}

fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests;
