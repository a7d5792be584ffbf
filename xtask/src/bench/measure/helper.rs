//! The processes beside the product: the instant model and the bare echo, which tell their address on stdout.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::held::Held;
use super::watchdog::Watchdog;
use crate::output::say;

#[derive(Debug)]
pub(super) struct Helper {
    pub(super) address: SocketAddr,
    process: Held,
}

impl Helper {
    pub(super) fn start(program: &Path, verb: &str, watchdog: &Arc<Watchdog>) -> anyhow::Result<Helper> {
        let mut command = Command::new(program);
        command.arg(verb).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = Held::start(&mut command, watchdog)?;
        let stdout = process.child.stdout.take().context("a helper has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("cannot read a helper's address")?;
        let address = line.trim().parse().with_context(|| format!("`{verb}` did not tell its address"))?;
        Ok(Helper { address, process })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// The helper's own side: a runtime set up like the product's.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start a runtime")
}

/// Listens on a free port of loopback and says on which.
pub(super) async fn listen() -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on loopback")?;
    say!("{}", listener.local_addr().context("cannot read the address")?);
    Ok(listener)
}
