//! Where things are: the repository, cargo, the target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::output;

/// What differs from the release build when tests are built, from the root.
const TEST_BUILD: &str = ".config/tests.toml";

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
        for name in told_by_cargo() {
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

    /// Cargo that builds tests as `.config/tests.toml` says, and whose compiler for the crates of this workspace is clippy,
    /// with warnings denied. Clippy compiles what it lints, so one build serves lints and tests; `cargo clippy` and
    /// `cargo test` would each compile every dependency once more.
    pub(crate) fn testing_cargo(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let driver = self.sysroot()?.join("bin").join(format!("clippy-driver{}", std::env::consts::EXE_SUFFIX));
        anyhow::ensure!(driver.is_file(), "the toolchain has no clippy: `rustup component add clippy`");
        let mut command = self.cargo(arguments);
        command.args(["--release", "--config", TEST_BUILD]).env("RUSTC_WORKSPACE_WRAPPER", driver);
        // As `cargo clippy -- -D warnings` hands it on.
        command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
        Ok(command)
    }

    /// The folder of the pinned toolchain.
    pub(crate) fn sysroot(&self) -> anyhow::Result<PathBuf> {
        let output = Command::new("rustc")
            .current_dir(&self.root)
            .args(["--print", "sysroot"])
            .output()
            .context("cannot run `rustc`")?;
        let sysroot = String::from_utf8(output.stdout).context("`rustc` printed a path that is not UTF-8")?;
        Ok(PathBuf::from(sysroot.trim()))
    }

    /// Whether `cargo <name>` exists, so that a tool of choice is used only where it is installed.
    pub(crate) fn has_cargo_tool(&self, name: &str) -> bool {
        self.cargo(&[name, "--version"]).output().is_ok_and(|output| output.status.success())
    }
}

/// The variables by which `cargo run` describes xtask to it. A child cargo must not inherit them: build scripts that ask for
/// them, such as that of `ring`, would run again whenever cargo was called by hand in between, and all that depends on them
/// would be compiled again.
#[expect(clippy::disallowed_methods, reason = "only their names are asked for, to keep them from children")]
fn told_by_cargo() -> impl Iterator<Item = std::ffi::OsString> {
    const PREFIXES: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_str().is_some_and(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix))))
}

#[expect(clippy::disallowed_methods, reason = "cargo tells the programs it starts which cargo it is by this variable")]
fn cargo_program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
