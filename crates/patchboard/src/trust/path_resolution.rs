//! Resolves a path as the system does, name by name and symlink by symlink. A process that can write to one of the
//! directories on the way decides what is found.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The kernel's own limit of symlinks in one path; the rest is taken literally.
const MAX_LINKS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathResolution {
    /// Every looked-up name, joined to the real path of its directory.
    visited: Vec<PathBuf>,
    /// The end of the path, existing or not. Not a symlink unless there are too many.
    pub(super) target: PathBuf,
}

impl PathResolution {
    /// `path` must be absolute and need not exist.
    pub(super) fn of(path: &Path) -> Self {
        let mut waiting = VecDeque::new();
        push_components_front(&mut waiting, path);
        let mut end = PathBuf::from("/");
        let mut looked_up = Vec::new();
        let mut links = 0;
        while let Some(part) = waiting.pop_front() {
            match part {
                PathPart::Root => end = PathBuf::from("/"),
                PathPart::Up => {
                    end.pop();
                }
                PathPart::Name(name) => {
                    let found = end.join(name);
                    looked_up.push(found.clone());
                    match fs::read_link(&found) {
                        Ok(target) if links < MAX_LINKS => {
                            links += 1;
                            push_components_front(&mut waiting, &target);
                        }
                        Ok(_) | Err(_) => end = found,
                    }
                }
            }
        }
        Self { visited: looked_up, target: end }
    }

    /// All names on the way, including the target.
    pub(super) fn visited_paths(&self) -> impl Iterator<Item = &Path> {
        self.visited.iter().map(PathBuf::as_path)
    }

    /// Directories of looked-up names that are not ancestors of the target: those of symlinks, and those left again by
    /// `..`.
    pub(super) fn detour_folders(&self) -> impl Iterator<Item = &Path> {
        self.visited_paths().filter(|name| !self.target.starts_with(name)).filter_map(Path::parent)
    }
}

enum PathPart {
    Root,
    Up,
    Name(OsString),
}

fn push_components_front(waiting: &mut VecDeque<PathPart>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::RootDir => waiting.push_front(PathPart::Root),
            Component::ParentDir => waiting.push_front(PathPart::Up),
            Component::Normal(name) => waiting.push_front(PathPart::Name(name.to_owned())),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
