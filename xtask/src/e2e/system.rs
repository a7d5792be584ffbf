//! Programs that drivers use and that come from the system's packages. Where they are missing they are installed if that
//! can be done without asking anybody; a driver that misses one says so itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::output::say;
use crate::process::{self, Ended};

/// A program, and the Debian package it comes in.
const WANTED: [(&str, &str); 2] = [("chromium", "chromium"), ("dbus-daemon", "dbus")];
/// Where packages put programs.
const FOLDERS: [&str; 2] = ["/usr/bin", "/usr/local/bin"];
const APT: &str = "/usr/bin/apt-get";
const PATIENCE: Duration = Duration::from_secs(600);

pub(super) fn prepare(logs: &Path) -> anyhow::Result<()> {
    let missing = missing(|program| FOLDERS.iter().any(|folder| Path::new(folder).join(program).is_file()));
    if missing.is_empty() || !can_install() {
        return Ok(());
    }
    say!("installing {}", missing.join(", "));
    for words in
        [vec!["update", "--quiet"], [vec!["install", "--yes", "--quiet", "--no-install-recommends"], missing].concat()]
    {
        let mut command = Command::new(APT);
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        let log = logs.join("apt-get.log");
        match process::run_logged(&mut command, PATIENCE, &log)? {
            Ended::Success => {}
            Ended::Failure(why) => say!("apt-get failed: {why}; see {}", log.display()),
            Ended::TimedOut(limit) => say!("apt-get took longer than {} s", limit.as_secs()),
        }
    }
    Ok(())
}

fn missing(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    WANTED.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect()
}

/// Root on a system with Debian's packages: a container or a machine made for tests, not somebody's desktop.
fn can_install() -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    is_root && Path::new(APT).is_file()
}

#[cfg(test)]
mod tests;
