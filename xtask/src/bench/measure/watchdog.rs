//! Nothing outlives a measurement: a process of its own holds the list of what was started, and the folder it was
//! started in, and clears both away when the pipe to its master breaks, be it by the end, a panic or a kill.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;

#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    /// `None` only while it is being dropped.
    orders: Mutex<Option<ChildStdin>>,
}

impl Watchdog {
    pub(super) fn start(program: &Path, scratch: &Path) -> anyhow::Result<Watchdog> {
        let mut process = Command::new(program)
            .arg("bench-watchdog")
            .arg(scratch)
            .stdin(Stdio::piped())
            // Ctrl-C in a terminal reaches a whole group; this one has to survive it to clean up.
            .process_group(0)
            .spawn()
            .context("cannot start the watchdog")?;
        let orders = process.stdin.take();
        Ok(Watchdog { process, orders: Mutex::new(orders) })
    }

    pub(super) fn watch(&self, pid: u32) -> anyhow::Result<()> {
        self.tell(format_args!("+{pid}"))
    }

    pub(super) fn release(&self, pid: u32) -> anyhow::Result<()> {
        self.tell(format_args!("-{pid}"))
    }

    fn tell(&self, order: std::fmt::Arguments<'_>) -> anyhow::Result<()> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = orders.as_mut().context("the watchdog has gone")?;
        writeln!(orders, "{order}").context("cannot speak to the watchdog")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        // It ends as soon as it has cleaned up; if it has gone already, there is nothing to wait for.
        self.process.wait().ok();
    }
}

/// The watchdog's own side.
pub(super) fn run(scratch: &Path) -> anyhow::Result<()> {
    let mut held = BTreeSet::new();
    for order in std::io::stdin().lock().lines() {
        let Ok(order) = order else { break };
        if let Some(pid) = order.strip_prefix('+') {
            held.insert(pid.to_owned());
        } else if let Some(pid) = order.strip_prefix('-') {
            held.remove(pid);
        }
    }
    for pid in &held {
        // It may have ended by itself, which is as good.
        Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status().ok();
    }
    match std::fs::remove_dir_all(scratch) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", scratch.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
