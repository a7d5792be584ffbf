//! Starts programs chosen by the operator: MCP servers and workers.

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
    /// As children with all rights of this process.
    Plain,
    /// In a jail with a supervisor, without access to protected paths.
    #[cfg(target_os = "linux")]
    Jailed(JailConfig),
}

/// Settings for programs in jails.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub struct JailConfig {
    pub spawner: Spawner,
    /// Absolute paths that stay closed to every program.
    pub protected: Arc<[PathBuf]>,
    /// Ports that no program may connect to, on this machine or any other: the server's own, so that a program cannot
    /// act as a client of the server and answer an approval request.
    pub closed_ports: Arc<[u16]>,
    /// Decides which programs may be started and with which rights; without a guard, all get the rights of their table.
    pub guard: Option<Arc<dyn WriteGuard>>,
    /// Callback and call ports of workers: each worker may use its own, all other programs none.
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
        let admission = tokio::task::spawn_blocking(move || {
            guard.admit(if is_pool { ProgramKey::WorkerPool(&name) } else { ProgramKey::McpServer(&name) })
        });
        admission.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Network access of a program that may connect and listen anywhere but on the ports of this server and of workers.
    /// `own_ports` are the worker ports that belong to the program itself.
    pub(crate) fn network_access(&self, own_ports: &[u16]) -> NetworkAccess {
        let other_worker_ports: Vec<u16> =
            self.worker_ports.iter().copied().filter(|port| !own_ports.contains(port)).collect();
        let closed: Vec<u16> = self.closed_ports.iter().copied().chain(other_worker_ports).collect();
        // A program that listens on such a port could impersonate the worker or this server.
        let listen = if closed.is_empty() { TcpAccess::Open } else { TcpAccess::AllBut(closed.clone()) };
        let connect = TcpAccess::AllBut(closed);
        NetworkAccess { connect, listen, unix_sockets: true }
    }
}

/// The variables passed to programs: search path, home, locale and the names in `additional`; no other variables of the
/// server.
pub(crate) fn inherited_environment(additional: &[&str]) -> Vec<(String, String)> {
    #[expect(clippy::disallowed_methods, reason = "passes a named few variables on and means nothing by them")]
    let variables = std::env::vars_os();
    let is_inherited = |name: &str| {
        matches!(name, "PATH" | "HOME" | "LANG" | "LANGUAGE") || name.starts_with("LC_") || additional.contains(&name)
    };
    // Values that are not UTF-8 are not passed on.
    let utf8_variables =
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    utf8_variables.filter(|(name, _)| is_inherited(name)).collect()
}

/// Removes search paths that agents can write to: other programs are found on `PATH`, and Python loads code from the
/// user's home at every start.
#[cfg(target_os = "linux")]
fn remove_agent_writable_paths(environment: &mut BTreeMap<String, String>, is_agent_writable: impl Fn(&Path) -> bool) {
    let is_agent_controlled = |path: &str| !Path::new(path).is_absolute() || is_agent_writable(Path::new(path));
    if let Some(path) = environment.get_mut("PATH") {
        *path = path.split(':').filter(|folder| !is_agent_controlled(folder)).collect::<Vec<_>>().join(":");
    }
    if environment.get("HOME").is_some_and(|home| is_agent_controlled(home)) {
        environment.insert("PYTHONNOUSERSITE".to_owned(), "1".to_owned());
    }
}

/// Settings that keep Python from loading compiled modules beside a script: an agent could put one there, and it would
/// run instead of the source.
#[cfg(target_os = "linux")]
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PythonCacheSettings {
    /// Must precede all other arguments.
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: Vec<(String, String)>,
}

/// For programs in agents' folders. `private` is a folder that only the program uses. Child processes inherit the
/// variable; an interpreter that ignores variables gets the option.
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

/// Describes how a jailed program ended, worded like the exit status of any other child.
#[cfg(target_os = "linux")]
pub(crate) fn exit_text(exit: Result<CommandExit, SandboxError>) -> String {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    match exit {
        // The kernel's encoding of an exit code.
        Ok(CommandExit::Exited(code)) => ExitStatus::from_raw((code & 0xff) << 8).to_string(),
        Ok(CommandExit::Signalled(signal)) => ExitStatus::from_raw(signal).to_string(),
        Err(error) => error.to_string(),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
