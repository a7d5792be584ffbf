//! Where things are: the repository, cargo, the target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::output;

#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
}

impl Workspace {
    /// The repository this program was built from.
    pub(crate) fn find() -> anyhow::Result<Workspace> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.parent().context("xtask has no parent directory")?;
        anyhow::ensure!(
            root.join("Cargo.toml").is_file(),
            "no workspace at {}: the repository was moved after xtask was built; run `cargo xtask` again",
            root.display()
        );
        Ok(Workspace { root: root.to_owned() })
    }

    /// A cargo invocation in the root, in colour when a person is looking.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(cargo_program());
        command.current_dir(&self.root).args(arguments);
        if output::is_terminal() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        // `cargo xtask` is itself run by cargo with these set for xtask; a child cargo must not inherit them.
        for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
            command.env_remove(name);
        }
        command
    }

    /// `cargo metadata` as JSON text.
    pub(crate) fn metadata(&self) -> anyhow::Result<String> {
        let output = self
            .cargo(&["metadata", "--format-version", "1"])
            .env_remove("CARGO_TERM_COLOR")
            .output()
            .context("cannot run `cargo metadata`")?;
        anyhow::ensure!(
            output.status.success(),
            "`cargo metadata` failed:\n{}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
        String::from_utf8(output.stdout).context("`cargo metadata` did not print UTF-8")
    }

    /// The directory cargo builds into, wherever the environment or a config file has put it.
    pub(crate) fn target_directory(&self) -> anyhow::Result<PathBuf> {
        #[derive(serde::Deserialize)]
        struct Metadata {
            target_directory: PathBuf,
        }
        let metadata: Metadata = serde_json::from_str(&self.metadata()?).context("cannot read `cargo metadata`")?;
        Ok(metadata.target_directory)
    }

    /// Whether `cargo <name>` exists, so that a tool of choice is used only where it is installed.
    pub(crate) fn has_cargo_tool(&self, name: &str) -> bool {
        self.cargo(&[name, "--version"]).output().is_ok_and(|output| output.status.success())
    }
}

#[expect(clippy::disallowed_methods, reason = "cargo tells the programs it starts which cargo it is by this variable")]
fn cargo_program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
