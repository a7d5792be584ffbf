//! Reads and writes whole files for the file tools: bounded in size and, for edits, as text.

use std::io::Read;

use tokio_util::sync::CancellationToken;

use super::ToolRefusal;
use crate::folder::{EntryKind, LastSymlink, OverwriteMode, PathError, PathTarget, TargetLookup, WorkFolder};
use crate::text::quoted;

/// Larger files are neither written nor edited.
pub(crate) const MAX_FILE_BYTES: usize = 10 * 1024 * 1024;
const READ_AT_ONCE: usize = 1024 * 1024;

/// The target of a file that exists or will exist at `path`; symlinks are followed inside the folder.
pub(crate) fn file_target(folder: &WorkFolder, path: &str) -> Result<PathTarget, ToolRefusal> {
    match folder.resolve_target(path, LastSymlink::Followed)? {
        TargetLookup::Unnamed => Err(PathError::IsAFolder { path: quoted(path) }.into()),
        TargetLookup::Target(place) => match place.kind() {
            Some(EntryKind::Folder) => Err(PathError::IsAFolder { path: place.display_path() }.into()),
            Some(EntryKind::Special(kind)) => Err(PathError::Special { path: place.display_path(), kind }.into()),
            Some(EntryKind::File | EntryKind::Symlink) | None => Ok(place),
        },
    }
}

/// The entry that `path` itself names: a symlink is not followed.
pub(crate) fn entry_target(folder: &WorkFolder, path: &str) -> Result<PathTarget, ToolRefusal> {
    match folder.resolve_target(path, LastSymlink::NotFollowed)? {
        TargetLookup::Target(place) => Ok(place),
        TargetLookup::Unnamed => Err(ToolRefusal(format!(
            "{} is the working folder or names a folder by `.` or `..`: say the folder's own name",
            quoted(path)
        ))),
    }
}

pub(crate) fn read_bytes(place: &PathTarget, stop: &CancellationToken) -> Result<Vec<u8>, ToolRefusal> {
    let mut file = place.open()?;
    let mut bytes = Vec::new();
    loop {
        if stop.is_cancelled() {
            return Err(ToolRefusal::cancelled());
        }
        let read = (&mut file).take(READ_AT_ONCE as u64).read_to_end(&mut bytes);
        if read.map_err(|error| ToolRefusal::unreadable(&place.display_path(), &error))? == 0 {
            return Ok(bytes);
        }
        check_size(place, bytes.len())?;
    }
}

/// Refuses files that are not UTF-8 text: writing back a lossy conversion would damage them.
pub(crate) fn read_text(place: &PathTarget, stop: &CancellationToken) -> Result<String, ToolRefusal> {
    let bytes = read_bytes(place, stop)?;
    if bytes.contains(&0) {
        return Err(ToolRefusal(format!("{} is not text: it holds NUL bytes", place.display_path())));
    }
    String::from_utf8(bytes).map_err(|_| ToolRefusal(format!("{} is not UTF-8 text", place.display_path())))
}

pub(crate) fn write_content(
    place: &PathTarget,
    content: &[u8],
    over: OverwriteMode,
    stop: &CancellationToken,
) -> Result<(), PathError> {
    check_size(place, content.len())?;
    let staged = place.stage(content, stop)?;
    // A cancelled call must not have changed anything.
    if stop.is_cancelled() {
        return Err(PathError::Cancelled);
    }
    staged.commit(over)
}

pub(crate) fn check_size(place: &PathTarget, bytes: usize) -> Result<(), PathError> {
    if bytes > MAX_FILE_BYTES {
        return Err(PathError::TooLarge { path: place.display_path(), limit: MAX_FILE_BYTES });
    }
    Ok(())
}
