//! The file a worker writes when it can be called: where, and who it is.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Somebody else's file: longer ones are not read.
const MAX_BYTES: u64 = 4096;
/// Announced by renaming, so what is there is whole; polled because not every file system tells of changes.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadyReport {
    pub(super) address: WorkerAddress,
    /// Of the worker itself, where it is not the program that was started.
    pub(super) pid: Option<u32>,
    /// It shows its secret with every call, and answers nobody who does not.
    pub(super) sends_secret: bool,
}

/// Where something is that was started.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum WorkerAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// Nowhere: it makes workers and is none.
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

/// Waits until there is something to read. `Err` is a sentence about what is there instead.
pub(super) async fn wait_for_announcement(file: &Path) -> Result<ReadyReport, String> {
    loop {
        match read(file).await {
            Ok(text) if !text.trim().is_empty() => {
                // Whoever starts there next finds no old news.
                drop(tokio::fs::remove_file(file).await);
                return parse(&text);
            }
            // Not there yet, or not written yet.
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
            // A later make may have more to say.
            Some(_) | None => {}
        }
    }
    Ok(ReadyReport { address, pid, sends_secret: shows_secret })
}

#[cfg(test)]
mod tests;
