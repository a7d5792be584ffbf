//! How the system finds a file: name by name and link by link. Whoever may write to one of the directories on this way decides
//! what is found.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The system follows no more in one path; what is left is then taken as it stands.
const MAX_LINKS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathResolution {
    /// Every name that is looked up, behind the real path of the directory in which it is.
    visited: Vec<PathBuf>,
    /// Where the path leads, whether or not anything is there. No link, unless there are too many.
    pub(super) target: PathBuf,
}

impl PathResolution {
    /// `path` is absolute and need not exist.
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

    /// All names on the way, those of the end among them.
    pub(super) fn visited_paths(&self) -> impl Iterator<Item = &Path> {
        self.visited.iter().map(PathBuf::as_path)
    }

    /// Directories in which a name is looked up that the end does not lie behind: those of links, and what `..` leaves again.
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
