//! `patchboard serve` on free ports, as a user would run it: defaults, but for what would bound a measurement.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::held::Held;
use super::watchdog::Watchdog;

/// Short beside what is measured with it.
const POLL: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Launch<'a> {
    pub(super) binary: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) stub: SocketAddr,
    /// Each has an agent of its own, which answers the channel of the same name.
    pub(super) models: &'a [&'a str],
    /// Whole tables of the configuration besides.
    pub(super) more: &'a str,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) gateway: SocketAddr,
    pub(super) runs: SocketAddr,
    pub(super) hub: SocketAddr,
    pub(super) bridge: SocketAddr,
    /// When the process was started.
    pub(super) started: Instant,
    /// From the start of the process to its ready file.
    pub(super) took: Duration,
    process: Held,
}

#[derive(Deserialize)]
struct Ready {
    gateway: SocketAddr,
    runs: SocketAddr,
    hub: SocketAddr,
    bridge: SocketAddr,
}

impl Launch<'_> {
    pub(super) fn start(&self, watchdog: &Arc<Watchdog>) -> anyhow::Result<Server> {
        let config = self.folder.join("patchboard.toml");
        fs::write(&config, self.config()).with_context(|| format!("cannot write {}", config.display()))?;
        let ready_file = self.folder.join("ready.json");
        if ready_file.exists() {
            fs::remove_file(&ready_file).context("cannot remove an old ready file")?;
        }
        // Tools work beside the data, not above it.
        let work = self.folder.join("work");
        fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
        let log_file = self.folder.join("server.log");
        let log = File::create(&log_file).with_context(|| format!("cannot write {}", log_file.display()))?;
        let mut command = Command::new(self.binary);
        command.arg("serve").arg("--config").arg(&config);
        command.arg("--data-dir").arg(self.folder.join("data"));
        for surface in ["--gateway", "--runs", "--hub", "--bridge"] {
            command.args([surface, "127.0.0.1:0"]);
        }
        command.arg("--ready-file").arg(&ready_file);
        // Settings of whoever measures must not change what is measured.
        command.env_clear().env("HOME", self.folder).current_dir(work);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);

        let started = Instant::now();
        let mut process = Held::start(&mut command, watchdog)?;
        let ready = loop {
            // Renamed into place, so it is whole as soon as it is there.
            if let Ok(text) = fs::read_to_string(&ready_file) {
                break text;
            }
            let ended = process.child.try_wait().context("cannot wait for the server")?;
            if ended.is_some() || started.elapsed() > PATIENCE {
                let said = fs::read_to_string(&log_file).unwrap_or_default();
                bail!("the server did not get ready: {}", said.trim_end());
            }
            std::thread::sleep(POLL);
        };
        let took = started.elapsed();
        let Ready { gateway, runs, hub, bridge } =
            serde_json::from_str(&ready).context("cannot read the ready file")?;
        Ok(Server { gateway, runs, hub, bridge, started, took, process })
    }

    /// One connection of a measurement sends what a thousand users would, and nobody is there to approve of anything.
    fn config(&self) -> String {
        let mut config = format!(
            "[gateway.rate_limit]\nper_second = 1000000\nburst = 1000000\n\n\
             [tools.approval]\n\"*\" = \"allow\"\n\n\
             [log]\nlevel = \"warn\"\n\n\
             [providers.stub]\nkind = \"openai\"\nbase_url = \"http://{}/v1\"\n",
            self.stub
        );
        for model in self.models {
            // Writing to a string cannot fail.
            write!(config, "\n[agents.{model}]\nprovider = \"stub\"\nmodel = \"{model}\"\n").ok();
            write!(config, "\n[[bindings]]\nagent = \"{model}\"\nchannel = \"{model}\"\n").ok();
        }
        config.push('\n');
        config.push_str(self.more);
        config
    }
}

impl Server {
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ends it at once and unasked, as a crash would.
    pub(super) fn kill(self) {
        drop(self.process);
    }

    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.process.stop()
    }
}
