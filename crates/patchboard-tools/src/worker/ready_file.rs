//! The file a worker writes when it is ready: its address and pid.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Written by third-party code: longer files are not read beyond this.
const MAX_BYTES: u64 = 4096;
/// Workers create the file by renaming, so its content is complete; polled because not every file system reports
/// changes.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadyReport {
    pub(super) address: WorkerAddress,
    /// The worker's own pid, if it is not the process that was started.
    pub(super) pid: Option<u32>,
    /// The worker sends its secret with every call and rejects callers that do not.
    pub(super) sends_secret: bool,
}

/// Address of a started program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum WorkerAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// No address: the program is a fork server, not a worker.
    ForkServer,
}

impl fmt::Display for WorkerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::ForkServer => f.write_str("none"),
        }
    }
}

/// Waits until the file has content. The error is a message about invalid content.
pub(super) async fn wait_for_announcement(file: &Path) -> Result<ReadyReport, String> {
    loop {
        match read(file).await {
            Ok(text) if !text.trim().is_empty() => {
                // Removed so that the next worker with this path does not read an old report.
                drop(tokio::fs::remove_file(file).await);
                return parse(&text);
            }
            // Does not exist yet, or is still empty.
            Ok(_) | Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

async fn read(file: &Path) -> std::io::Result<String> {
    use tokio::io::AsyncReadExt;
    let mut text = String::new();
    tokio::fs::File::open(file).await?.take(MAX_BYTES).read_to_string(&mut text).await?;
    Ok(text)
}

fn parse(text: &str) -> Result<ReadyReport, String> {
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let address = if first == "warm" {
        WorkerAddress::ForkServer
    } else if let Some(path) = first.strip_prefix("unix:").filter(|path| path.starts_with('/')) {
        WorkerAddress::Unix(path.into())
    } else if let Some(port) = first.parse().ok().filter(|port| *port != 0) {
        WorkerAddress::Tcp((Ipv4Addr::LOCALHOST, port).into())
    } else {
        return Err("its ready file holds neither a port nor the path of a socket".to_owned());
    };
    let (mut pid, mut shows_secret) = (None, false);
    for line in lines {
        match line.split_once('=') {
            Some(("pid", number)) => pid = pid.or(number.parse().ok()),
            Some(("secret", "shown")) => shows_secret = true,
            // Unknown keys are ignored; later versions may add some.
            Some(_) | None => {}
        }
    }
    Ok(ReadyReport { address, pid, sends_secret: shows_secret })
}

#[cfg(test)]
mod tests;
