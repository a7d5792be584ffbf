//! A working folder with files outside it that tools must not touch.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::builtin::file_runtime::{FileLocks, ToolRefusal};
use crate::folder::WorkFolder;

pub(in crate::builtin) const SECRET: &str = "secret";

/// ```text
/// outside.txt  away/outside.txt  away/victim/keep.txt     all say `secret`
/// work/                                                   the working folder
///   data/store.db  token                                  protected, say `secret`
/// ```
pub(in crate::builtin) struct Yard {
    pub(in crate::builtin) dir: TempDir,
    pub(in crate::builtin) folder: WorkFolder,
    pub(in crate::builtin) turns: FileLocks,
}

impl Yard {
    /// With these files in the working folder. Paths that end with `/` become folders.
    pub(in crate::builtin) fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["away/victim", "work/data"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for path in ["outside.txt", "away/outside.txt", "away/victim/keep.txt", "work/data/store.db", "work/token"] {
            fs::write(dir.path().join(path), SECRET).unwrap();
        }
        let folder = WorkFolder::open(dir.path().join("work"), Self::protected(dir.path())).unwrap();
        let yard = Self { dir, folder, turns: FileLocks::default() };
        for (path, content) in files {
            yard.put(path, content);
        }
        yard
    }

    pub(in crate::builtin) fn protected(dir: &Path) -> Vec<PathBuf> {
        ["work/data", "work/token", "work/later/key"].map(|path| dir.join(path)).to_vec()
    }

    pub(in crate::builtin) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("work").join(path)
    }

    pub(in crate::builtin) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let full = self.at(path);
        if path.ends_with('/') {
            fs::create_dir_all(full).unwrap();
        } else {
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(full, content).unwrap();
        }
    }

    pub(in crate::builtin) fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.at(name)).unwrap();
    }

    pub(in crate::builtin) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    /// All that tools may change: paths in the working folder with what files say; folders end with `/`.
    pub(in crate::builtin) fn inside(&self) -> BTreeMap<String, String> {
        let mut seen = everything(&self.at(""));
        seen.retain(|path, _| !path.starts_with("data/") && path != "token");
        seen
    }

    /// Everything that tools must not change, in the same form.
    pub(in crate::builtin) fn outside(&self) -> BTreeMap<String, String> {
        let mut seen = everything(self.dir.path());
        seen.retain(|path, _| !path.starts_with("work/") || path.starts_with("work/data/") || path == "work/token");
        seen
    }
}

pub(in crate::builtin) fn everything(dir: &Path) -> BTreeMap<String, String> {
    fn visit(dir: &Path, prefix: &str, seen: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                visit(&entry.path(), &format!("{path}/"), seen);
                seen.insert(path + "/", String::new());
            } else if kind.is_symlink() {
                seen.insert(path, format!("-> {}", fs::read_link(entry.path()).unwrap().display()));
            } else if kind.is_file() {
                seen.insert(path, String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned());
            } else {
                seen.insert(path, "special".to_owned());
            }
        }
    }
    let mut seen = BTreeMap::new();
    visit(dir, "", &mut seen);
    seen
}

/// The outcome of a tool's work in plain strings.
pub(in crate::builtin) fn told(outcome: Result<String, ToolRefusal>) -> Result<String, String> {
    outcome.map_err(|ToolRefusal(reason)| reason)
}

pub(in crate::builtin) fn going() -> CancellationToken {
    CancellationToken::new()
}

pub(in crate::builtin) fn stopped() -> CancellationToken {
    let stop = CancellationToken::new();
    stop.cancel();
    stop
}

pub(in crate::builtin) fn owned(expected: Result<&str, &str>) -> Result<String, String> {
    expected.map(str::to_owned).map_err(str::to_owned)
}
