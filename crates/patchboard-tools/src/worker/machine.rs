//! The real machine: processes in jails where there are jails, and sockets.

use std::io;
use std::process::Stdio;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::ExposeSecret;
use tokio::net::unix::pipe;
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};
use tokio_util::task::TaskTracker;

use super::ready::Address;
use super::tail::Tail;
use super::world::{Connection, Input, Order, Process, World};
use crate::launch::Launch;

#[cfg(target_os = "linux")]
mod jailed;
mod memory;

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) launch: Launch,
    pub(super) tasks: TaskTracker,
}

impl World for Machine {
    fn launch(&self, order: Order) -> BoxFuture<'_, Result<Box<dyn Process>, String>> {
        async move {
            match &self.launch {
                Launch::Plain => plain(order, &self.tasks),
                #[cfg(target_os = "linux")]
                Launch::Jailed(warden) => jailed::start(order, warden, &self.tasks).await,
            }
        }
        .boxed()
    }

    fn connect<'a>(&'a self, address: &'a Address) -> BoxFuture<'a, io::Result<Box<dyn Connection>>> {
        async move {
            Ok(match address {
                Address::Tcp(address) => {
                    let stream = TcpStream::connect(address).await?;
                    stream.set_nodelay(true)?;
                    Box::new(stream) as Box<dyn Connection>
                }
                Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
                Address::Parent => return Err(io::ErrorKind::Unsupported.into()),
            })
        }
        .boxed()
    }

    fn memory(&self, pid: u32) -> BoxFuture<'_, Option<u64>> {
        // Files of `/proc` are made as they are read, which takes time.
        let reading = tokio::task::spawn_blocking(move || memory::of_tree(pid));
        async move { reading.await.ok().flatten() }.boxed()
    }
}

/// A child in a process group of its own: all there is where processes cannot be jailed. What it sends away from its
/// group outlives it.
#[derive(Debug)]
struct Plain {
    child: Child,
    /// Until it was killed: its number may belong to somebody else later.
    group: Option<Pid>,
    input: Option<pipe::Sender>,
    tail: Tail,
}

fn plain(order: Order, tasks: &TaskTracker) -> Result<Box<dyn Process>, String> {
    let Order { program, arguments, environment, folder, input, .. } = order;
    let mut child = Command::new(&program)
        .args(arguments)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value.expose_secret())))
        .current_dir(&folder)
        .stdin(match input {
            Input::Nothing => Stdio::null(),
            Input::Piped => Stdio::piped(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start `{program}` in `{}`: {error}", folder.display()))?;
    let input = child.stdin.take().and_then(|input| pipe::Sender::from_owned_fd(input.into_owned_fd().ok()?).ok());
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let tail = listen(&program, child.stdout.take(), child.stderr.take(), tasks);
    Ok(Box::new(Plain { child, group, input, tail }))
}

impl Process for Plain {
    fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    fn ended(&mut self) -> BoxFuture<'_, String> {
        async {
            let status = self.child.wait().await;
            self.kill_group();
            status.map_or_else(|error| error.to_string(), |status| status.to_string())
        }
        .boxed()
    }

    fn ask_to_end(&mut self) -> BoxFuture<'_, ()> {
        if let Some(group) = self.group {
            // Gone already is what is wanted.
            kill_process_group(group, Signal::TERM).ok();
        }
        std::future::ready(()).boxed()
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        self.kill_group();
        self.ended().map(drop).boxed()
    }

    fn take_input(&mut self) -> Option<pipe::Sender> {
        self.input.take()
    }

    fn tail(&self) -> Tail {
        self.tail.clone()
    }
}

impl Plain {
    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// Nothing that a worker says keeps it waiting.
fn listen(
    program: &str,
    output: Option<tokio::process::ChildStdout>,
    errors: Option<tokio::process::ChildStderr>,
    tasks: &TaskTracker,
) -> Tail {
    let tail = Tail::default();
    let name: Arc<str> = program.into();
    if let Some(output) = output {
        tasks.spawn(tail.clone().drain(name.clone(), output));
    }
    if let Some(errors) = errors {
        tasks.spawn(tail.clone().drain(name, errors));
    }
    tail
}

#[cfg(test)]
mod tests;
