//! A jailed server: it ends with its process tree when this process ends, however that happens, and it cannot access
//! protected paths.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use secrecy::ExposeSecret;

use super::{ServerCommand, ServerStreams};
use crate::guard::{ProgramKey, ProgramRights};
use crate::launch::{JailConfig, exit_text, inherited_environment, python_cache_settings};
use crate::sandbox::{
    CommandSpec, FilesystemView, Jail, JailedCommand, NetworkAccess, ResourceLimits, StdinMode, TcpAccess,
};

const GIBIBYTE: u64 = 1024 * 1024 * 1024;

/// Servers live for days and may run whole browsers: these limits stop a runaway server before it exhausts the machine.
const LIMITS: ResourceLimits = ResourceLimits {
    cpu_seconds: None,
    file_bytes: Some(64 * GIBIBYTE),
    open_files: Some(65_536),
    memory_bytes: Some(64 * GIBIBYTE),
    address_space_bytes: None,
};

#[derive(Debug)]
pub(super) struct JailedServer {
    jailed: JailedCommand,
    /// The exit status; the supervisor reports it only once.
    status: Option<String>,
}

pub(super) async fn start(
    server: &str,
    command: ServerCommand<'_>,
    jail_config: &JailConfig,
) -> Result<(JailedServer, ServerStreams), String> {
    let rights = jail_config.admit(ProgramKey::McpServer(server)).await?;
    let mut jail = build_jail(command, jail_config, &rights).map_err(|error| format!("cannot make a jail: {error}"))?;
    let cache_settings = python_cache_settings(&rights, command.program, command.private);
    let arguments = cache_settings.arguments.into_iter().chain(command.arguments.iter().cloned()).collect();
    jail.environment.extend(cache_settings.variables);
    let program = CommandSpec { program: command.program.into(), arguments, stdin: StdinMode::Piped };
    let mut jailed =
        jail_config.spawner.spawn(jail, program).await.map_err(|error| crate::text::with_causes(&error))?;
    if jailed.confinement().has_closed_parts {
        tracing::warn!(
            mcp.server = server,
            "folders on the way to protected files can be neither listed nor added to by this server, nor can it use \
             what comes to be in them later: this system does not allow it a mount namespace"
        );
    }
    let (Some(input), Some(output)) = (jailed.take_stdin(), jailed.take_stdout()) else {
        return Err("its standard input and output are unavailable".to_owned());
    };
    let streams = ServerStreams { input, output, errors: jailed.take_stderr() };
    Ok((JailedServer { jailed, status: None }, streams))
}

fn build_jail(command: ServerCommand<'_>, jail_config: &JailConfig, rights: &ProgramRights) -> std::io::Result<Jail> {
    let folder = command.working_folder.unwrap_or(Path::new("."));
    let working_folder = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut jail = Jail::for_folder(working_folder)?;
    match rights {
        ProgramRights::Full => (jail.view, jail.writable) = (FilesystemView::Everything, Vec::new()),
        ProgramRights::Reduced(rights) => {
            let open = |path: &PathBuf| rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            jail.writable = rights.writable.iter().map(open).collect::<Result<_, _>>()?;
            jail.readable.clone_from(&rights.readable);
        }
    }
    jail.protected = jail_config.protected.to_vec();
    jail.private = command.private.map(Path::to_owned).into_iter().collect();
    let variables = command.env.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
    jail.environment = inherited_environment(&[]).into_iter().chain(variables).collect();
    if *rights == ProgramRights::Full {
        jail_config.remove_agent_writable_paths(&mut jail.environment);
    }
    jail.network = match rights {
        ProgramRights::Full => jail_config.network_access(&[]),
        // The server needs no network: it uses standard input and output.
        ProgramRights::Reduced(_) => NetworkAccess { connect: TcpAccess::Closed, ..NetworkAccess::default() },
    };
    jail.limits = LIMITS;
    Ok(jail)
}

impl JailedServer {
    pub(super) async fn exited(&mut self) -> String {
        if let Some(status) = &self.status {
            return status.clone();
        }
        let status = exit_text(self.jailed.wait().await);
        self.status.insert(status).clone()
    }

    pub(super) async fn kill(&mut self) {
        if self.status.is_none() {
            self.status = Some(exit_text(self.jailed.kill().await));
        }
    }
}
