//! A worker in a jail: it reads what it needs wherever that lies, changes only what it was given, cannot reach what is
//! protected, and dies with this process, however that dies, with everything it started.

use std::os::fd::OwnedFd;
use std::path::Path;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::fs::{Mode, OFlags};
use secrecy::ExposeSecret;
use tokio::net::unix::pipe;
use tokio_util::task::TaskTracker;

use super::listen;
use crate::guard::{Admission, ProgramKey};
use crate::launch::{Warden, own_bytecode, told};
use crate::sandbox::{self, Jail, Jailed, Limits, Network, Program, Tcp, View};
use crate::worker::tail::Tail;
use crate::worker::world::{Input, Numbers, Order, Process};

const GIBIBYTE: u64 = 1024 * 1024 * 1024;

/// Workers live for days and hold whole models: what stops one that has gone mad before it stops the machine.
const LIMITS: Limits = Limits {
    cpu_seconds: None,
    file_bytes: Some(64 * GIBIBYTE),
    open_files: Some(65_536),
    memory_bytes: Some(64 * GIBIBYTE),
    address_space_bytes: None,
};

#[derive(Debug)]
struct InJail {
    jailed: Jailed,
    input: Option<pipe::Sender>,
    /// Told once by the supervisor.
    status: Option<String>,
    tail: Tail,
}

pub(super) async fn start(order: Order, warden: &Warden, tasks: &TaskTracker) -> Result<Box<dyn Process>, String> {
    let rights = warden.admit(ProgramKey::WorkerPool(&order.pool)).await?;
    let mut jail = jail(&order, warden, &rights)?;
    let own = own_bytecode(&rights, &order.program, order.compiled.as_deref());
    jail.environment.extend(own.variables);
    if rights == Admission::Full {
        warden.without_agents_code(&mut jail.environment);
    }
    let input = match order.input {
        Input::Nothing => sandbox::Input::Nothing,
        Input::Piped => sandbox::Input::Piped,
    };
    let arguments = own.arguments.into_iter().chain(order.arguments).collect();
    let program = Program { program: order.program.as_str().into(), arguments, input };
    let spawned = warden.spawner.spawn(jail, program).await;
    let mut jailed = spawned.map_err(|error| crate::words::with_causes(&error))?;
    let input = jailed.take_stdin();
    let tail = listen(&order.program, jailed.take_stdout(), jailed.take_stderr(), tasks);
    Ok(Box::new(InJail { jailed, input, status: None, tail }))
}

fn jail(order: &Order, warden: &Warden, rights: &Admission) -> Result<Jail, String> {
    let folder = open(&order.folder)?;
    let made = Jail::around(folder).map_err(|error| format!("cannot make a jail: {error}"))?;
    let mut limits = LIMITS;
    if order.memory_limit.is_some() {
        limits.memory_bytes = order.memory_limit;
    }
    let environment = order.environment.iter();
    let (view, granted, readable, private) = match rights {
        Admission::Full => (View::ReadEverything, &order.writable, Vec::new(), None),
        Admission::Reduced(rights) => (View::Named, &rights.writable, rights.readable.clone(), order.compiled.clone()),
    };
    let network = match rights {
        Admission::Full => warden.network(&order.ports),
        Admission::Reduced(_) => {
            let own = Tcp::Ports(order.ports.clone());
            Network { connect: own.clone(), listen: own, unix_sockets: true }
        }
    };
    Ok(Jail {
        view,
        writable: [&order.private].into_iter().chain(granted).map(|path| open(path)).collect::<Result<_, _>>()?,
        readable,
        protected: warden.protected.to_vec(),
        private: private.into_iter().collect(),
        environment: environment.map(|(name, value)| (name.clone(), value.expose_secret().to_owned())).collect(),
        network,
        limits,
        ..made
    })
}

fn open(path: &Path) -> Result<OwnedFd, String> {
    let opened = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    opened.map_err(|error| format!("cannot open `{}`: {error}", path.display()))
}

impl Process for InJail {
    fn pid(&self) -> Option<u32> {
        self.jailed.pid()
    }

    fn numbers(&self) -> Numbers {
        Numbers { supervisor: self.jailed.namespace_maker() }
    }

    fn ended(&mut self) -> BoxFuture<'_, String> {
        async {
            if let Some(status) = &self.status {
                return status.clone();
            }
            let status = told(self.jailed.wait().await);
            self.status.insert(status).clone()
        }
        .boxed()
    }

    fn ask_to_end(&mut self) -> BoxFuture<'_, ()> {
        self.jailed.ask_to_end().boxed()
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        async {
            if self.status.is_none() {
                self.status = Some(told(self.jailed.kill().await));
            }
        }
        .boxed()
    }

    fn take_input(&mut self) -> Option<pipe::Sender> {
        self.input.take()
    }

    fn tail(&self) -> Tail {
        self.tail.clone()
    }
}
