//! How programs that the operator chose are started: MCP servers and workers.

#[cfg(target_os = "linux")]
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

#[cfg(target_os = "linux")]
use crate::guard::{ProgramKey, ProgramRights, WriteGuard};
#[cfg(target_os = "linux")]
use crate::sandbox::{CommandExit, NetworkAccess, SandboxError, Spawner, TcpAccess};

/// How programs are started.
#[derive(Debug, Clone)]
pub enum LaunchMode {
    /// As children that may do whatever this process may.
    Plain,
    /// Supervised, and kept from what is protected.
    #[cfg(target_os = "linux")]
    Jailed(JailConfig),
}

/// Starts programs in jails.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub struct JailConfig {
    pub spawner: Spawner,
    /// Absolute paths that stay closed to every program.
    pub protected: Arc<[PathBuf]>,
    /// Ports of this machine or another that no program may connect to: our own, so that none can act as a client of
    /// ours and answer what a person is asked.
    pub closed_ports: Arc<[u16]>,
    /// Knows which programs may be started and with which rights; without one, all with those of their table.
    pub guard: Option<Arc<dyn WriteGuard>>,
    /// Ports that workers call back on and are called on: each worker has its own, and no other program has any.
    pub worker_ports: Arc<[u16]>,
}

#[cfg(target_os = "linux")]
impl JailConfig {
    /// For a program with the rights of its table.
    pub(crate) fn remove_agent_writable_paths(&self, environment: &mut BTreeMap<String, String>) {
        if let Some(guard) = &self.guard {
            remove_agent_writable_paths(environment, |path| guard.is_agent_writable(path));
        }
    }

    pub(crate) async fn admit(&self, program: ProgramKey<'_>) -> Result<ProgramRights, String> {
        let Some(guard) = self.guard.clone() else { return Ok(ProgramRights::Full) };
        let (name, is_pool) = match program {
            ProgramKey::WorkerPool(name) => (name.to_owned(), true),
            ProgramKey::McpServer(name) => (name.to_owned(), false),
        };
        let asked = tokio::task::spawn_blocking(move || {
            guard.admit(if is_pool { ProgramKey::WorkerPool(&name) } else { ProgramKey::McpServer(&name) })
        });
        asked.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// For a program that may connect and listen where it likes, but for the ports of this server and those of workers.
    /// `own` are its own of the latter.
    pub(crate) fn network_access(&self, own: &[u16]) -> NetworkAccess {
        let of_others: Vec<u16> = self.worker_ports.iter().copied().filter(|port| !own.contains(port)).collect();
        let closed: Vec<u16> = self.closed_ports.iter().copied().chain(of_others).collect();
        // Whoever listens where a worker or this server should is taken for it.
        let listen = if closed.is_empty() { TcpAccess::Open } else { TcpAccess::AllBut(closed.clone()) };
        let connect = TcpAccess::AllBut(closed);
        NetworkAccess { connect, listen, unix_sockets: true }
    }
}

/// Where programs are, where the user is at home, which language to speak, and what is named besides; nothing else of
/// the server's variables.
pub(crate) fn inherited_environment(besides: &[&str]) -> Vec<(String, String)> {
    #[expect(clippy::disallowed_methods, reason = "passes a named few variables on and means nothing by them")]
    let variables = std::env::vars_os();
    let is_seen = |name: &str| {
        matches!(name, "PATH" | "HOME" | "LANG" | "LANGUAGE") || name.starts_with("LC_") || besides.contains(&name)
    };
    // What is not text cannot be passed on; nobody has such a `PATH`.
    let texts = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.filter(|(name, _)| is_seen(name)).collect()
}

/// What a program looks for by name must not be found where agents write: other programs, on `PATH`, and what Python loads from
/// a user's home at every start.
#[cfg(target_os = "linux")]
fn remove_agent_writable_paths(environment: &mut BTreeMap<String, String>, is_agent_writable: impl Fn(&Path) -> bool) {
    let is_agents = |path: &str| !Path::new(path).is_absolute() || is_agent_writable(Path::new(path));
    if let Some(path) = environment.get_mut("PATH") {
        *path = path.split(':').filter(|folder| !is_agents(folder)).collect::<Vec<_>>().join(":");
    }
    if environment.get("HOME").is_some_and(|home| is_agents(home)) {
        environment.insert("PYTHONNOUSERSITE".to_owned(), "1".to_owned());
    }
}

/// What a program is given so that Python reads no compiled module from beside a script: there an agent could put one, which
/// is run unread.
#[cfg(target_os = "linux")]
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PythonCacheSettings {
    /// To stand before all others.
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: Vec<(String, String)>,
}

/// For programs of the agents' folders. `private` is a folder that only the program uses; what it starts gets the variable too,
/// and an interpreter that reads no variables an option.
#[cfg(target_os = "linux")]
pub(crate) fn python_cache_settings(
    rights: &ProgramRights,
    program: &str,
    private: Option<&Path>,
) -> PythonCacheSettings {
    let (ProgramRights::Reduced(_), Some(private)) = (rights, private) else { return PythonCacheSettings::default() };
    let folder = private.join("pycache").to_string_lossy().into_owned();
    let name = Path::new(program).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let is_python = name.trim_end_matches(|last: char| last.is_ascii_digit() || last == '.') == "python";
    let options = if is_python { vec!["-X".to_owned(), format!("pycache_prefix={folder}")] } else { Vec::new() };
    PythonCacheSettings { arguments: options, variables: vec![("PYTHONPYCACHEPREFIX".to_owned(), folder)] }
}

/// How a jailed program ended, in the words of every other child.
#[cfg(target_os = "linux")]
pub(crate) fn exit_text(ending: Result<CommandExit, SandboxError>) -> String {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    match ending {
        // As the kernel packs it.
        Ok(CommandExit::Exited(code)) => ExitStatus::from_raw((code & 0xff) << 8).to_string(),
        Ok(CommandExit::Signalled(signal)) => ExitStatus::from_raw(signal).to_string(),
        Err(error) => error.to_string(),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
