//! A jailed worker: it may read files anywhere, write only to its writable paths, cannot access protected paths, and
//! ends with its process tree when this process ends, however that happens.

use std::os::fd::OwnedFd;
use std::path::Path;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::fs::{Mode, OFlags};
use secrecy::ExposeSecret;
use tokio::net::unix::pipe;
use tokio_util::task::TaskTracker;

use super::capture_output;
use crate::guard::{ProgramKey, ProgramRights};
use crate::launch::{JailConfig, exit_text, python_cache_settings};
use crate::sandbox::{
    self, CommandSpec, FilesystemView, Jail, JailedCommand, NetworkAccess, ResourceLimits, TcpAccess,
};
use crate::worker::output_tail::StdioTail;
use crate::worker::platform::{LaunchSpec, PidMapping, WorkerProcess, WorkerStdin};

const GIBIBYTE: u64 = 1024 * 1024 * 1024;

/// Workers live for days and load whole models: these limits stop a runaway worker before it exhausts the machine.
const LIMITS: ResourceLimits = ResourceLimits {
    cpu_seconds: None,
    file_bytes: Some(64 * GIBIBYTE),
    open_files: Some(65_536),
    memory_bytes: Some(64 * GIBIBYTE),
    address_space_bytes: None,
};

#[derive(Debug)]
struct JailedWorker {
    jailed: JailedCommand,
    input: Option<pipe::Sender>,
    /// The exit status; the supervisor reports it only once.
    status: Option<String>,
    tail: StdioTail,
}

pub(super) async fn start(
    spec: LaunchSpec,
    jail_config: &JailConfig,
    tasks: &TaskTracker,
) -> Result<Box<dyn WorkerProcess>, String> {
    let rights = jail_config.admit(ProgramKey::WorkerPool(&spec.pool)).await?;
    let mut jail = build_jail(&spec, jail_config, &rights)?;
    let cache_settings = python_cache_settings(&rights, &spec.program, spec.bytecode_cache.as_deref());
    jail.environment.extend(cache_settings.variables);
    if rights == ProgramRights::Full {
        jail_config.remove_agent_writable_paths(&mut jail.environment);
    }
    let input = match spec.stdin {
        WorkerStdin::Null => sandbox::StdinMode::Null,
        WorkerStdin::Piped => sandbox::StdinMode::Piped,
    };
    let arguments = cache_settings.arguments.into_iter().chain(spec.arguments).collect();
    let program = CommandSpec { program: spec.program.as_str().into(), arguments, stdin: input };
    let result = jail_config.spawner.spawn(jail, program).await;
    let mut jailed = result.map_err(|error| crate::text::with_causes(&error))?;
    let input = jailed.take_stdin();
    let tail = capture_output(&spec.program, jailed.take_stdout(), jailed.take_stderr(), tasks);
    Ok(Box::new(JailedWorker { jailed, input, status: None, tail }))
}

fn build_jail(spec: &LaunchSpec, jail_config: &JailConfig, rights: &ProgramRights) -> Result<Jail, String> {
    let folder = open(&spec.folder)?;
    let jail = Jail::for_folder(folder).map_err(|error| format!("cannot make a jail: {error}"))?;
    let mut limits = LIMITS;
    if spec.memory_limit.is_some() {
        limits.memory_bytes = spec.memory_limit;
    }
    let environment = spec.environment.iter();
    let (view, writable, readable, private) = match rights {
        ProgramRights::Full => (FilesystemView::ReadEverything, &spec.writable, Vec::new(), None),
        ProgramRights::Reduced(rights) => {
            (FilesystemView::Named, &rights.writable, rights.readable.clone(), spec.bytecode_cache.clone())
        }
    };
    let network = match rights {
        ProgramRights::Full => jail_config.network_access(&spec.ports),
        ProgramRights::Reduced(_) => {
            let ports = TcpAccess::Ports(spec.ports.clone());
            NetworkAccess { connect: ports.clone(), listen: ports, unix_sockets: true }
        }
    };
    Ok(Jail {
        view,
        writable: [&spec.private].into_iter().chain(writable).map(|path| open(path)).collect::<Result<_, _>>()?,
        readable,
        protected: jail_config.protected.to_vec(),
        private: private.into_iter().collect(),
        environment: environment.map(|(name, value)| (name.clone(), value.expose_secret().to_owned())).collect(),
        network,
        limits,
        ..jail
    })
}

fn open(path: &Path) -> Result<OwnedFd, String> {
    let result = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    result.map_err(|error| format!("cannot open `{}`: {error}", path.display()))
}

impl WorkerProcess for JailedWorker {
    fn pid(&self) -> Option<u32> {
        self.jailed.pid()
    }

    fn pid_mapping(&self) -> PidMapping {
        PidMapping { supervisor: self.jailed.namespace_supervisor() }
    }

    fn wait(&mut self) -> BoxFuture<'_, String> {
        async {
            if let Some(status) = &self.status {
                return status.clone();
            }
            let status = exit_text(self.jailed.wait().await);
            self.status.insert(status).clone()
        }
        .boxed()
    }

    fn request_stop(&mut self) -> BoxFuture<'_, ()> {
        self.jailed.request_stop().boxed()
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        async {
            if self.status.is_none() {
                self.status = Some(exit_text(self.jailed.kill().await));
            }
        }
        .boxed()
    }

    fn take_stdin(&mut self) -> Option<pipe::Sender> {
        self.input.take()
    }

    fn output_tail(&self) -> StdioTail {
        self.tail.clone()
    }
}
