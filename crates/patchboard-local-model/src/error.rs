//! Errors between a missing environment and a ready server, in words for the operator.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::tail;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no Python 3.10 or newer found, tried {tried}")]
    NoPython { tried: String },
    #[error("`{}` has neither the `venv` nor the `pip` module", python.display())]
    NoEnvironmentTool { python: PathBuf },
    #[error("cannot run `{}` for {step}", program.display())]
    Spawn {
        step: &'static str,
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{step} failed ({status}): {}", tail::last_line(output))]
    Command { step: &'static str, status: String, output: String },
    #[error("{step} takes longer than {} s", limit.as_secs())]
    TooSlow { step: &'static str, limit: Duration },
    #[error("no space left for the local model in `{}`", directory.display())]
    DiskFull { directory: PathBuf },
    #[error("cannot {action} `{}`", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("weights `{}` are not usable: {reason}", path.display())]
    Weights { path: PathBuf, reason: &'static str },
    #[error("another process is preparing the local model in `{}`", directory.display())]
    Busy { directory: PathBuf },
    #[error("no random key for the model server: the system's source of randomness fails")]
    NoRandomness,
    #[error("no loopback port for the model server")]
    NoPort {
        #[source]
        source: io::Error,
    },
    #[error("the model server ended while starting ({status}): {}", tail::last_line(output))]
    Startup { status: String, output: String },
    #[error("the model server is not ready after {} s", limit.as_secs())]
    StartupTimeout { limit: Duration, output: String },
    #[error("the model server announced itself in an unknown form")]
    Announcement { output: String },
    #[error("the local model is not installed in `{}`", data_dir.display())]
    NotInstalled { data_dir: PathBuf },
    #[error("stopped before the local model was ready")]
    Stopped,
    #[error("the local model does not start: {reason}")]
    WakeFailed { reason: String },
}

impl Error {
    /// A remedy, for the `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoPython { .. } => Some("install Python 3.10 or newer and have it on the search path"),
            Self::NoEnvironmentTool { .. } => Some("install the package `python3-venv` of the system"),
            Self::Command { .. } => Some(
                "the first start needs a package index that `pip` can reach; \
                 wheels exist for Linux with glibc and for macOS, on x86-64 and 64-bit ARM",
            ),
            Self::TooSlow { .. } => Some("check the network, then start again"),
            Self::DiskFull { .. } => Some("free about 350 MB, then start again; 220 MB of it stay in use"),
            Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("name a model file in the GGUF format that is there, or none for the small model")
            }
            Self::Weights { .. } => Some("name a model file in the GGUF format, or none for the small model"),
            Self::Busy { .. } => Some("wait for the other process, or use another data directory"),
            Self::Startup { .. } | Self::Announcement { .. } => Some(
                "the lines above are the server's; weights may be damaged, too new for this server, or too large \
                 for the memory",
            ),
            Self::StartupTimeout { .. } => Some("use smaller weights or allow a longer start"),
            Self::NotInstalled { .. } => Some(
                "`patchboard serve --local-model` fetches it once (127 MB), or set `local_model.enabled` to \"auto\"",
            ),
            Self::WakeFailed { .. } => Some("the server's log has the model's last lines"),
            Self::Spawn { .. } | Self::File { .. } | Self::NoRandomness | Self::NoPort { .. } | Self::Stopped => None,
        }
    }

    /// The last lines of the failed program's output; bounded, without control characters.
    pub fn output(&self) -> Option<&str> {
        match self {
            Self::Command { output, .. }
            | Self::Startup { output, .. }
            | Self::StartupTimeout { output, .. }
            | Self::Announcement { output } => Some(output),
            Self::NoPython { .. }
            | Self::NoEnvironmentTool { .. }
            | Self::Spawn { .. }
            | Self::TooSlow { .. }
            | Self::DiskFull { .. }
            | Self::File { .. }
            | Self::Weights { .. }
            | Self::Busy { .. }
            | Self::NoRandomness
            | Self::NoPort { .. }
            | Self::WakeFailed { .. }
            | Self::NotInstalled { .. }
            | Self::Stopped => None,
        }
    }

    /// For `map_err` on a file operation: a full disk is a separate error, whatever the operation was.
    pub(super) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                Self::DiskFull { directory: path.parent().unwrap_or(path).to_owned() }
            } else {
                Self::File { action, path: path.to_owned(), source }
            }
        }
    }
}
