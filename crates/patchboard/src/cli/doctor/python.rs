//! Checks for a Python that can run a local model.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use patchboard_config::LoadedConfig;
use patchboard_config::secrets::random_secret;
use rustix::fs::{Access, access};

use super::DoctorFinding;

pub(super) fn finding(loaded: &LoadedConfig) -> DoctorFinding {
    let found = std::env::current_dir().ok().and_then(|here| find(loaded.env.get("PATH").unwrap_or_default(), &here));
    match found.map(|python| version(&python)) {
        Some(Ok(output)) if output.status.success() => {
            let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            DoctorFinding::Good(format!("local model: {version} is there for `serve --local-model`"))
        }
        Some(_) | None => {
            DoctorFinding::Note("local model: no python3, so `serve --local-model` cannot work".to_owned())
        }
    }
}

/// The first in the search path outside the current folder, where an agent may have placed one.
fn find(search_path: &str, here: &Path) -> Option<PathBuf> {
    let here = here.canonicalize().ok()?;
    let is_elsewhere = |path: &Path| path.canonicalize().is_ok_and(|real| !real.starts_with(&here));
    let folders = search_path.split(':').map(Path::new).filter(|folder| folder.is_absolute());
    folders
        .filter(|folder| is_elsewhere(folder))
        .map(|folder| folder.join("python3"))
        .find(|path| path.is_file() && is_elsewhere(path) && access(path, Access::EXEC_OK).is_ok())
}

/// Runs it in an empty folder and without user settings, so that no other code is loaded.
fn version(python: &Path) -> io::Result<Output> {
    let empty = std::env::temp_dir().join(format!("patchboard-doctor-{}", random_secret()));
    DirBuilder::new().mode(0o700).create(&empty)?;
    let output = Command::new(python).args(["-I", "--version"]).current_dir(&empty).output();
    // On failure an empty folder is left.
    drop(std::fs::remove_dir(&empty));
    output
}

#[cfg(test)]
mod tests;
