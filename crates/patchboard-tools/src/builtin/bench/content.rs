//! Files as file tools take them in and give them back: whole, bounded, and for editing as text.

use std::io::Read;

use tokio_util::sync::CancellationToken;

use super::Refusal;
use crate::folder::{Aim, EntryKind, LastSymlink, Over, PathError, Place, WorkFolder};
use crate::words::quoted;

/// Larger files are neither written nor edited.
pub(crate) const MAX_FILE_BYTES: usize = 10 * 1024 * 1024;
const READ_AT_ONCE: usize = 1024 * 1024;

/// The place of a file that is, or is going to be, at `path`; symlinks are followed inside the folder.
pub(crate) fn file_place(folder: &WorkFolder, path: &str) -> Result<Place, Refusal> {
    match folder.aim(path, LastSymlink::Followed)? {
        Aim::Nameless => Err(PathError::IsAFolder { path: quoted(path) }.into()),
        Aim::Place(place) => match place.kind() {
            Some(EntryKind::Folder) => Err(PathError::IsAFolder { path: place.shown() }.into()),
            Some(EntryKind::Special(kind)) => Err(PathError::Special { path: place.shown(), kind }.into()),
            Some(EntryKind::File | EntryKind::Symlink) | None => Ok(place),
        },
    }
}

/// What `path` itself names: of a symlink, not what it leads to.
pub(crate) fn entry_place(folder: &WorkFolder, path: &str) -> Result<Place, Refusal> {
    match folder.aim(path, LastSymlink::Meant)? {
        Aim::Place(place) => Ok(place),
        Aim::Nameless => Err(Refusal(format!(
            "{} is the working folder or names a folder by `.` or `..`: say the folder's own name",
            quoted(path)
        ))),
    }
}

pub(crate) fn bytes_of(place: &Place, stop: &CancellationToken) -> Result<Vec<u8>, Refusal> {
    let mut file = place.open()?;
    let mut bytes = Vec::new();
    loop {
        if stop.is_cancelled() {
            return Err(Refusal::cancelled());
        }
        let read = (&mut file).take(READ_AT_ONCE as u64).read_to_end(&mut bytes);
        if read.map_err(|error| Refusal::because(&place.shown(), &error))? == 0 {
            return Ok(bytes);
        }
        within_limit(place, bytes.len())?;
    }
}

/// Changing what cannot be shown as it is would spoil it.
pub(crate) fn text_of(place: &Place, stop: &CancellationToken) -> Result<String, Refusal> {
    let bytes = bytes_of(place, stop)?;
    if bytes.contains(&0) {
        return Err(Refusal(format!("{} is not text: it holds NUL bytes", place.shown())));
    }
    String::from_utf8(bytes).map_err(|_| Refusal(format!("{} is not UTF-8 text", place.shown())))
}

pub(crate) fn write(place: &Place, content: &[u8], over: Over, stop: &CancellationToken) -> Result<(), PathError> {
    within_limit(place, content.len())?;
    let staged = place.stage(content, stop)?;
    // Whoever is told that the call was cancelled should find nothing changed.
    if stop.is_cancelled() {
        return Err(PathError::Cancelled);
    }
    staged.settle(over)
}

pub(crate) fn within_limit(place: &Place, bytes: usize) -> Result<(), PathError> {
    if bytes > MAX_FILE_BYTES {
        return Err(PathError::TooLarge { path: place.shown(), limit: MAX_FILE_BYTES });
    }
    Ok(())
}
