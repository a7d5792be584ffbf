//! How programs that the operator chose are started: MCP servers and workers.

#[cfg(target_os = "linux")]
use std::{path::PathBuf, sync::Arc};

#[cfg(target_os = "linux")]
use crate::sandbox::{Ending, Error, Spawner};

/// How programs are started.
#[derive(Debug, Clone)]
pub enum Launch {
    /// As children that may do whatever this process may.
    Plain,
    /// Supervised, and kept from what is protected.
    #[cfg(target_os = "linux")]
    Jailed(Warden),
}

/// Starts programs in jails.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub struct Warden {
    pub spawner: Spawner,
    /// Absolute paths that stay closed to every program.
    pub protected: Arc<[PathBuf]>,
    /// Ports of this machine or another that no program may connect to: our own, so that none can act as a client of
    /// ours and answer what a person is asked.
    pub closed_ports: Arc<[u16]>,
}

/// Where programs are, where the user is at home, which language to speak, and what is named besides; nothing else of
/// the server's variables.
pub(crate) fn inherited(besides: &[&str]) -> Vec<(String, String)> {
    #[expect(clippy::disallowed_methods, reason = "passes a named few variables on and means nothing by them")]
    let variables = std::env::vars_os();
    let is_seen = |name: &str| {
        matches!(name, "PATH" | "HOME" | "LANG" | "LANGUAGE") || name.starts_with("LC_") || besides.contains(&name)
    };
    // What is not text cannot be passed on; nobody has such a `PATH`.
    let texts = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.filter(|(name, _)| is_seen(name)).collect()
}

/// How a jailed program ended, in the words of every other child.
#[cfg(target_os = "linux")]
pub(crate) fn told(ending: Result<Ending, Error>) -> String {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    match ending {
        // As the kernel packs it.
        Ok(Ending::Exited(code)) => ExitStatus::from_raw((code & 0xff) << 8).to_string(),
        Ok(Ending::Signalled(signal)) => ExitStatus::from_raw(signal).to_string(),
        Err(error) => error.to_string(),
    }
}
