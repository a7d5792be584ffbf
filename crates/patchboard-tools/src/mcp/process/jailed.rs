//! A server in a jail: it dies with this process, however that dies, with everything it started, and it cannot reach
//! what is protected.

use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use secrecy::ExposeSecret;

use super::{Order, Streams};
use crate::guard::{Admission, ProgramKey};
use crate::launch::{Warden, inherited, own_bytecode, told};
use crate::sandbox::{Input, Jail, Jailed, Limits, Network, Program, Tcp, View};

const GIBIBYTE: u64 = 1024 * 1024 * 1024;

/// Servers live for days and hold whole browsers: what stops one that has gone mad before it stops the machine.
const LIMITS: Limits = Limits {
    cpu_seconds: None,
    file_bytes: Some(64 * GIBIBYTE),
    open_files: Some(65_536),
    memory_bytes: Some(64 * GIBIBYTE),
    address_space_bytes: None,
};

#[derive(Debug)]
pub(super) struct InJail {
    jailed: Jailed,
    /// Told once by the supervisor.
    status: Option<String>,
}

pub(super) async fn start(server: &str, order: Order<'_>, warden: &Warden) -> Result<(InJail, Streams), String> {
    let rights = warden.admit(ProgramKey::McpServer(server)).await?;
    let mut jail = jail(order, warden, &rights).map_err(|error| format!("cannot make a jail: {error}"))?;
    let own = own_bytecode(&rights, order.program, order.private);
    let arguments = own.arguments.into_iter().chain(order.arguments.iter().cloned()).collect();
    jail.environment.extend(own.variables);
    let program = Program { program: order.program.into(), arguments, input: Input::Piped };
    let mut jailed = warden.spawner.spawn(jail, program).await.map_err(|error| crate::words::with_causes(&error))?;
    if jailed.confinement().has_closed_parts {
        tracing::warn!(
            mcp.server = server,
            "folders on the way to protected files can be neither listed nor added to by this server, nor can it use \
             what comes to be in them later: this system does not allow it a mount namespace"
        );
    }
    let (Some(input), Some(output)) = (jailed.take_stdin(), jailed.take_stdout()) else {
        return Err("its standard input and output cannot be had".to_owned());
    };
    let streams = Streams { input, output, errors: jailed.take_stderr() };
    Ok((InJail { jailed, status: None }, streams))
}

fn jail(order: Order<'_>, warden: &Warden, rights: &Admission) -> std::io::Result<Jail> {
    let folder = order.working_folder.unwrap_or(Path::new("."));
    let here = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut jail = Jail::around(here)?;
    match rights {
        Admission::Full => (jail.view, jail.writable) = (View::Everything, Vec::new()),
        Admission::Reduced(rights) => {
            let open = |path: &PathBuf| rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
            jail.writable = rights.writable.iter().map(open).collect::<Result<_, _>>()?;
            jail.readable.clone_from(&rights.readable);
        }
    }
    jail.protected = warden.protected.to_vec();
    jail.private = order.private.map(Path::to_owned).into_iter().collect();
    let own = order.env.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
    jail.environment = inherited(&[]).into_iter().chain(own).collect();
    if *rights == Admission::Full {
        warden.without_agents_code(&mut jail.environment);
    }
    jail.network = match rights {
        Admission::Full => warden.network(&[]),
        // It is spoken to over its standard input and output.
        Admission::Reduced(_) => Network { connect: Tcp::Closed, ..Network::default() },
    };
    jail.limits = LIMITS;
    Ok(jail)
}

impl InJail {
    pub(super) async fn exited(&mut self) -> String {
        if let Some(status) = &self.status {
            return status.clone();
        }
        let status = told(self.jailed.wait().await);
        self.status.insert(status).clone()
    }

    pub(super) async fn kill(&mut self) {
        if self.status.is_none() {
            self.status = Some(told(self.jailed.kill().await));
        }
    }
}
