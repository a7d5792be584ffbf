//! A process that ends with whoever holds it.

use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::watchdog::Watchdog;
use crate::process;

/// How long a process may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(super) struct Held {
    pub(super) child: Child,
    watchdog: Arc<Watchdog>,
}

impl Held {
    pub(super) fn start(command: &mut Command, watchdog: &Arc<Watchdog>) -> anyhow::Result<Held> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
        let held = Held { child, watchdog: watchdog.clone() };
        held.watchdog.watch(held.pid())?;
        Ok(held)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop and waits for its end.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        process::ask_to_stop(&mut self.child);
        let asked = Instant::now();
        while self.child.try_wait().context("cannot wait for a child")?.is_none() {
            if asked.elapsed() > PATIENCE {
                bail!("process {} did not stop within {} s of being asked to", self.pid(), PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // It may have ended already; then both do nothing.
        self.child.kill().ok();
        self.child.wait().ok();
        // Without a watchdog nobody remembers the process, and it has just ended.
        self.watchdog.release(self.pid()).ok();
    }
}
