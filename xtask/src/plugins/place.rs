//! Components as files: looked at, and put where they are wanted.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::output::say;
use crate::plugins::build::Workshop;
use crate::plugins::guests::{GUESTS, Guest, offered};

/// What a component, unlike a module, begins with.
const COMPONENT: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];

/// Takes every component from where cargo put it.
pub(super) fn collect(workshop: &Workshop<'_>, folder: &Path) -> anyhow::Result<()> {
    for guest in GUESTS {
        let component = read(&workshop.built().join(guest.built_file()))?;
        inspect(guest, &component)?;
        put(&folder.join(guest.file()), &component)?;
    }
    Ok(())
}

/// Takes the committed components, and leaves none there of another build.
pub(super) fn take_committed(root: &Path, folder: &Path) -> anyhow::Result<()> {
    for guest in GUESTS {
        let place = folder.join(guest.file());
        if place.exists() {
            std::fs::remove_file(&place).with_context(|| format!("cannot remove {}", place.display()))?;
        }
    }
    for guest in offered() {
        put(&folder.join(guest.file()), &read(&committed(root, guest))?)?;
    }
    Ok(())
}

pub(super) fn commit(folder: &Path, root: &Path) -> anyhow::Result<()> {
    for guest in offered() {
        let component = read(&folder.join(guest.file()))?;
        let what = put(&committed(root, guest), &component)?;
        say!("plugins/built/{}: {} bytes, {what}", guest.file(), component.len());
    }
    Ok(())
}

/// The first whose committed file is another one or missing.
pub(super) fn stale(folder: &Path, root: &Path) -> anyhow::Result<Option<&'static str>> {
    for guest in offered() {
        let built = read(&folder.join(guest.file()))?;
        if std::fs::read(committed(root, guest)).ok() != Some(built) {
            return Ok(Some(guest.name));
        }
    }
    Ok(None)
}

fn inspect(guest: &Guest, component: &[u8]) -> anyhow::Result<()> {
    let (name, size) = (guest.name, component.len());
    ensure!(component.starts_with(&COMPONENT), "`{name}` is not a component");
    ensure!(size < guest.largest(), "`{name}` has grown to {size} bytes, {} are the most", guest.largest());
    // The part of a path that every machine's package folder has in common.
    let tells = component.windows(b"registry/src/".len()).any(|window| window == b"registry/src/");
    ensure!(!tells, "`{name}` names folders of this machine");
    Ok(())
}

fn committed(root: &Path, guest: &Guest) -> PathBuf {
    root.join("plugins/built").join(guest.file())
}

fn read(place: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(place).with_context(|| format!("cannot read {}", place.display()))
}

/// In one step, because a server may be watching; and not at all where nothing would change.
fn put(place: &Path, bytes: &[u8]) -> anyhow::Result<&'static str> {
    if std::fs::read(place).is_ok_and(|present| present == bytes) {
        return Ok("as before");
    }
    let write = || {
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let beside = place.with_extension("wasm.new");
        std::fs::write(&beside, bytes)?;
        std::fs::rename(&beside, place)
    };
    write().with_context(|| format!("cannot write {}", place.display()))?;
    Ok("new")
}

#[cfg(test)]
mod tests;
