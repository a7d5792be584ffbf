//! The platform used in production: jailed processes where the kernel supports jails, and sockets.

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

use super::output_tail::StdioTail;
use super::platform::{LaunchSpec, WorkerPlatform, WorkerProcess, WorkerStdin, WorkerStream};
use super::ready_file::WorkerAddress;
use crate::launch::LaunchMode;

#[cfg(target_os = "linux")]
mod jailed;
mod memory;

#[derive(Debug)]
pub(super) struct OsPlatform {
    pub(super) launch: LaunchMode,
    pub(super) tasks: TaskTracker,
}

impl WorkerPlatform for OsPlatform {
    fn launch(&self, spec: LaunchSpec) -> BoxFuture<'_, Result<Box<dyn WorkerProcess>, String>> {
        async move {
            match &self.launch {
                LaunchMode::Plain => start_plain(spec, &self.tasks),
                #[cfg(target_os = "linux")]
                LaunchMode::Jailed(jail_config) => jailed::start(spec, jail_config, &self.tasks).await,
            }
        }
        .boxed()
    }

    fn connect<'a>(&'a self, address: &'a WorkerAddress) -> BoxFuture<'a, io::Result<Box<dyn WorkerStream>>> {
        async move {
            Ok(match address {
                WorkerAddress::Tcp(address) => {
                    let stream = TcpStream::connect(address).await?;
                    stream.set_nodelay(true)?;
                    Box::new(stream) as Box<dyn WorkerStream>
                }
                WorkerAddress::Unix(path) => Box::new(UnixStream::connect(path).await?),
                WorkerAddress::ForkServer => return Err(io::ErrorKind::Unsupported.into()),
            })
        }
        .boxed()
    }

    fn memory(&self, pid: u32) -> BoxFuture<'_, Option<u64>> {
        // Reading files of `/proc` makes the kernel compute their content, which takes time.
        let memory_task = tokio::task::spawn_blocking(move || memory::process_tree_memory(pid));
        async move { memory_task.await.ok().flatten() }.boxed()
    }
}

/// A child in its own process group, used where processes cannot be jailed. Descendants that leave the group outlive
/// it.
#[derive(Debug)]
struct PlainWorker {
    child: Child,
    /// `None` after the kill: the group id may be reused.
    group: Option<Pid>,
    input: Option<pipe::Sender>,
    tail: StdioTail,
}

fn start_plain(spec: LaunchSpec, tasks: &TaskTracker) -> Result<Box<dyn WorkerProcess>, String> {
    let LaunchSpec { program, arguments, environment, folder, stdin: input, .. } = spec;
    let mut child = Command::new(&program)
        .args(arguments)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value.expose_secret())))
        .current_dir(&folder)
        .stdin(match input {
            WorkerStdin::Null => Stdio::null(),
            WorkerStdin::Piped => Stdio::piped(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start `{program}` in `{}`: {error}", folder.display()))?;
    let input = child.stdin.take().and_then(|input| pipe::Sender::from_owned_fd(input.into_owned_fd().ok()?).ok());
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let tail = capture_output(&program, child.stdout.take(), child.stderr.take(), tasks);
    Ok(Box::new(PlainWorker { child, group, input, tail }))
}

impl WorkerProcess for PlainWorker {
    fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    fn wait(&mut self) -> BoxFuture<'_, String> {
        async {
            let status = self.child.wait().await;
            self.kill_group();
            status.map_or_else(|error| error.to_string(), |status| status.to_string())
        }
        .boxed()
    }

    fn request_stop(&mut self) -> BoxFuture<'_, ()> {
        if let Some(group) = self.group {
            // The group may be gone already, which is the desired state.
            kill_process_group(group, Signal::TERM).ok();
        }
        std::future::ready(()).boxed()
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        self.kill_group();
        self.wait().map(drop).boxed()
    }

    fn take_stdin(&mut self) -> Option<pipe::Sender> {
        self.input.take()
    }

    fn output_tail(&self) -> StdioTail {
        self.tail.clone()
    }
}

impl PlainWorker {
    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

impl Drop for PlainWorker {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// Drains both streams, so that the program never blocks on a full pipe.
fn capture_output(
    program: &str,
    output: Option<tokio::process::ChildStdout>,
    errors: Option<tokio::process::ChildStderr>,
    tasks: &TaskTracker,
) -> StdioTail {
    let tail = StdioTail::default();
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
