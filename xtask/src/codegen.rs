//! `cargo xtask codegen`: rewrites the files that are generated and committed.
//!
//! Each is written by a test of the crate that knows its contents, or of this one: the test compares, or writes when
//! `UPDATE_GENERATED=1` is set. So the test run finds a stale file, and this command refreshes it.

use crate::Verdict;
use crate::output::say;
use crate::process::{self, Ended};
use crate::test::Counts;
use crate::workspace::Workspace;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Write,
    Check,
}

/// A generated file and the test that compares or writes it.
#[derive(Debug)]
pub(crate) struct Generated {
    pub(crate) path: &'static str,
    pub(crate) package: &'static str,
    /// The test's function name, unique in its package.
    pub(crate) test: &'static str,
}

impl Generated {
    /// Where its package lives, with a slash at the end.
    pub(crate) fn folder(&self) -> String {
        match self.package {
            "xtask" => "xtask/".to_owned(),
            product => format!("crates/{product}/"),
        }
    }
}

pub(crate) const GENERATED: &[Generated] = &[
    Generated { path: "patchboard.schema.json", package: "patchboard-config", test: "schema_file_is_fresh" },
    Generated { path: "docs/configuration.md", package: "patchboard-config", test: "reference_page_is_fresh" },
    Generated { path: "crates/patchboard-proto/src/pb.rs", package: "xtask", test: "bridge_code_is_fresh" },
    Generated { path: "crates/patchboard-proto/bridge.binpb", package: "xtask", test: "bridge_descriptors_are_fresh" },
    Generated {
        path: "sdk/python/src/patchboard/_bridge.binpb",
        package: "xtask",
        test: "bridge_descriptors_of_the_python_package_are_fresh",
    },
];

pub(crate) fn is_generated(path: &str) -> bool {
    GENERATED.iter().any(|generated| generated.path == path)
}

pub(crate) fn run(workspace: &Workspace, mode: Mode) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict::Good;
    for generated in GENERATED {
        let before = std::fs::read(workspace.root.join(generated.path)).ok();
        let result = run_test(workspace, generated, mode)?;
        let after = std::fs::read(workspace.root.join(generated.path)).ok();
        let line = match &result {
            Ok(()) if mode == Mode::Check || before == after => format!("{}: current", generated.path),
            Ok(()) => format!("{}: rewritten", generated.path),
            Err(why) => format!("{}: {why}", generated.path),
        };
        say!("{line}");
        if result.is_err() {
            verdict = Verdict::Bad;
        }
    }
    Ok(verdict)
}

/// Built as the tests are, whose dependencies are compiled already; only the one package, so that others need not compile.
fn run_test(workspace: &Workspace, generated: &Generated, mode: Mode) -> anyhow::Result<Result<(), String>> {
    let mut command = workspace.testing_cargo(&["test", "--quiet", "--package", generated.package])?;
    command.args(["--", generated.test]);
    match mode {
        Mode::Write => command.env("UPDATE_GENERATED", "1"),
        Mode::Check => command.env_remove("UPDATE_GENERATED"),
    };
    let mut counts = Counts::default();
    let ended = process::watch(&mut command, &mut |line| counts = counts + Counts::of_libtest(line))?;
    Ok(judge(generated, mode, ended == Ended::Success, counts))
}

fn judge(generated: &Generated, mode: Mode, succeeded: bool, counts: Counts) -> Result<(), String> {
    match (succeeded, counts, mode) {
        (true, Counts { passed: 1.., .. }, _) => Ok(()),
        (true, ..) => Err(format!("no test `{}` in `{}` ran", generated.test, generated.package)),
        (false, Counts { failed: 1.., .. }, Mode::Check) => Err("stale: run `cargo xtask codegen`".to_owned()),
        (false, ..) => Err(format!("`{}` in `{}` failed", generated.test, generated.package)),
    }
}

#[cfg(test)]
mod tests;
