//! Cargo in `plugins/`: what it needs, and how it is called so that everybody gets the same components.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::process::{self, Ended};
use crate::workspace::Workspace;

const TARGET: &str = "wasm32-wasip2";

/// Everything that building takes is there.
#[derive(Debug)]
pub(super) struct Workshop<'a> {
    workspace: &'a Workspace,
    /// Apart from the server's own, so that neither waits for the other.
    target: PathBuf,
}

impl<'a> Workshop<'a> {
    /// Installs the target and fetches the packages where that is needed and possible; else says what is missing.
    pub(super) fn open(workspace: &'a Workspace, target: &Path) -> anyhow::Result<Result<Workshop<'a>, String>> {
        let workshop = Workshop { workspace, target: target.join("plugins-build") };
        if !has_target(workspace)? {
            let mut add = Command::new("rustup");
            add.current_dir(&workspace.root).args(["target", "add", TARGET]);
            // Whatever rustup says, only the outcome counts; there may be no rustup at all.
            process::watch(&mut add, &mut |_| {}).ok();
            if !has_target(workspace)? {
                return Ok(Err(format!("the target `{TARGET}` cannot be had (`rustup target add {TARGET}`)")));
            }
        }
        let fetched = process::watch(&mut workshop.cargo(&["fetch", "--locked"]), &mut |_| {})?;
        Ok(match fetched {
            Ended::Success => Ok(workshop),
            Ended::Failure(_) | Ended::TimedOut(_) => Err("their packages cannot be fetched".to_owned()),
        })
    }

    pub(super) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.workspace.cargo(arguments);
        command.current_dir(self.workspace.root.join("plugins")).env("CARGO_TARGET_DIR", &self.target);
        command
    }

    pub(super) fn build(&self) -> anyhow::Result<()> {
        let mut command =
            self.cargo(&["build", "--release", "--locked", "--workspace", "--lib", "--examples", "--target", TARGET]);
        command.env("CARGO_ENCODED_RUSTFLAGS", flags(&package_folders()?, &self.workspace.root));
        let ended = process::watch(&mut command, &mut |_| {})?;
        anyhow::ensure!(ended == Ended::Success, "the plugins do not build");
        Ok(())
    }

    /// Where cargo puts the components.
    pub(super) fn built(&self) -> PathBuf {
        self.target.join(TARGET).join("release")
    }
}

fn has_target(workspace: &Workspace) -> anyhow::Result<bool> {
    Ok(workspace.sysroot()?.join("lib/rustlib").join(TARGET).join("lib").is_dir())
}

/// The folders that packages are unpacked into, one for each registry.
fn package_folders() -> anyhow::Result<Vec<PathBuf>> {
    let place = cargo_home().context("cannot tell where cargo keeps its packages")?.join("registry/src");
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(&place).with_context(|| format!("cannot list {}", place.display()))? {
        folders.push(entry.with_context(|| format!("cannot list {}", place.display()))?.path());
    }
    folders.sort();
    Ok(folders)
}

/// Messages of panics name the file they come from. Without the folders of this machine in them, everybody who builds
/// gets the same bytes, and nobody learns whose machine it was.
fn flags(packages: &[PathBuf], root: &Path) -> String {
    let mapped = |folder: &Path, name: &str| format!("--remap-path-prefix={}={name}", folder.display());
    let mut flags: Vec<String> = packages.iter().map(|folder| mapped(folder, "packages")).collect();
    flags.push(mapped(root, "patchboard"));
    flags.join("\u{1f}")
}

#[expect(clippy::disallowed_methods, reason = "cargo's own folder is told by this variable")]
fn cargo_home() -> Option<PathBuf> {
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".cargo")))
}

#[cfg(test)]
mod tests;
