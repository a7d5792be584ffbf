//! How the system finds a file: name by name and link by link. Whoever may write to one of the directories on this way decides
//! what is found.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The system follows no more in one path; what is left is then taken as it stands.
const MAX_LINKS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trail {
    /// Every name that is looked up, behind the real path of the directory in which it is.
    looked_up: Vec<PathBuf>,
    /// Where the path leads, whether or not anything is there. No link, unless there are too many.
    pub(super) end: PathBuf,
}

impl Trail {
    /// `path` is absolute and need not exist.
    pub(super) fn of(path: &Path) -> Self {
        let mut waiting = VecDeque::new();
        put_first(&mut waiting, path);
        let mut end = PathBuf::from("/");
        let mut looked_up = Vec::new();
        let mut links = 0;
        while let Some(part) = waiting.pop_front() {
            match part {
                Part::Root => end = PathBuf::from("/"),
                Part::Up => {
                    end.pop();
                }
                Part::Name(name) => {
                    let found = end.join(name);
                    looked_up.push(found.clone());
                    match fs::read_link(&found) {
                        Ok(target) if links < MAX_LINKS => {
                            links += 1;
                            put_first(&mut waiting, &target);
                        }
                        Ok(_) | Err(_) => end = found,
                    }
                }
            }
        }
        Self { looked_up, end }
    }

    /// All names on the way, those of the end among them.
    pub(super) fn names(&self) -> impl Iterator<Item = &Path> {
        self.looked_up.iter().map(PathBuf::as_path)
    }

    /// Directories in which a name is looked up that the end does not lie behind: those of links, and what `..` leaves again.
    pub(super) fn detours(&self) -> impl Iterator<Item = &Path> {
        self.names().filter(|name| !self.end.starts_with(name)).filter_map(Path::parent)
    }
}

enum Part {
    Root,
    Up,
    Name(OsString),
}

fn put_first(waiting: &mut VecDeque<Part>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::RootDir => waiting.push_front(Part::Root),
            Component::ParentDir => waiting.push_front(Part::Up),
            Component::Normal(name) => waiting.push_front(Part::Name(name.to_owned())),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
