//! Workers forked from one program that has preloaded everything they need: they start quickly and share its memory.
//!
//! The program reads commands as lines of JSON and reports on standard error when a worker exits. The pid of a worker
//! is known only from its own announcement; until it has announced itself, no other worker is forked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard, mpsc};
use tokio_util::sync::CancellationToken;

use super::command::{self, WorkerIdentity};
use super::folder::WorkerFolder;
use super::output_tail::StdioTail;
use super::platform::{PidMapping, WorkerProcess, WorkerStdin};
use super::pool::WorkerPool;
use super::ports::PortBlock;
use super::ready_file::WorkerAddress;
use super::start::{WorkerFailure, launch_spec, wait_until_ready};

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// After its standard input is closed, the program ends its workers within three seconds and then exits.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// The exit of a killed worker is reported within this time.
const EXIT_WAIT: Duration = Duration::from_secs(3);
/// Commands that may wait to be written.
const COMMAND_QUEUE: usize = 1024;
/// Prefix of the line that reports the exit of a worker.
const EXIT_PREFIX: &str = "patchboard: worker ";
const EXIT_SEPARATOR: &str = " exited with ";

/// The fork server of a pool, started on first use.
#[derive(Debug, Default)]
pub(super) struct LazyForkServer {
    server: AsyncMutex<Option<Arc<ForkServer>>>,
    /// The fork server and all its workers share one jail, so they share these ports for the lifetime of the pool.
    callback_ports: Mutex<Option<PortBlock>>,
}

#[derive(Debug)]
struct ForkServer {
    commands: mpsc::Sender<String>,
    output_tail: StdioTail,
    pid_mapping: PidMapping,
    /// Held while a forked worker has not announced its pid: only one at a time.
    fork_lock: Arc<AsyncMutex<()>>,
    exits: Mutex<ExitStatuses>,
    exit_reported: Notify,
    /// Cancelled to request shutdown.
    closing: CancellationToken,
    /// Cancelled when the program has exited, and all its workers with it.
    ended: CancellationToken,
}

/// Exit statuses of workers.
#[derive(Debug, Default)]
struct ExitStatuses {
    /// Workers with an announced pid, until they are dropped.
    by_pid: HashMap<u32, Option<String>>,
    /// An exit of an unknown pid: while `fork_lock` is held, it can only be the worker that has not announced itself.
    unidentified: Option<(u32, String)>,
}

impl LazyForkServer {
    /// Forks a worker with its own arguments and variables.
    pub(super) async fn fork(
        &self,
        pool: &WorkerPool,
        identity: WorkerIdentity<'_>,
    ) -> Result<Box<dyn WorkerProcess>, WorkerFailure> {
        let server = self.running(pool).await?;
        let fork_permit = server.fork_lock.clone().lock_owned().await;
        server.exits().unidentified = None;
        let arguments = command::worker_arguments(identity);
        let variables = command::worker_variables(identity);
        server.send_command(json!({"spawn": {"args": arguments, "env": variables}}).to_string());
        Ok(Box::new(ForkedWorker { server, pid: None, fork_permit: Some(fork_permit), has_ended: false }))
    }

    /// The ports that the workers call back on: two per slot, because a draining worker still holds its own.
    pub(super) fn callback_ports(&self, pool: &WorkerPool) -> Result<PortBlock, String> {
        let mut ports = self.callback_ports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ports) = ports.as_ref() {
            return Ok(ports.clone());
        }
        let lease = pool.context.ports.lease(2 * pool.options.count as usize)?;
        let exhausted = "all callback ports of this pool are in use by draining workers".to_owned();
        Ok(ports.insert(PortBlock::from_lease(lease, exhausted)).clone())
    }

    /// Ends the program and with it all its workers.
    pub(super) async fn shut_down(&self) {
        let server = self.server.lock().await.take();
        if let Some(server) = server {
            server.closing.cancel();
            server.ended.cancelled().await;
        }
    }

    async fn running(&self, pool: &WorkerPool) -> Result<Arc<ForkServer>, WorkerFailure> {
        let mut running = self.server.lock().await;
        if let Some(server) = running.as_ref().filter(|server| !server.ended.is_cancelled()) {
            return Ok(server.clone());
        }
        *running = None;
        let server = start(pool).await?;
        Ok(running.insert(server).clone())
    }
}

async fn start(pool: &WorkerPool) -> Result<Arc<ForkServer>, WorkerFailure> {
    let (no, _) = pool.next_worker(0);
    let folder = pool.context.folder.worker(pool.index, no.0).map_err(|error| WorkerFailure::new(error.to_string()))?;
    let ready_file = folder.ready_file();
    let variables = [
        ("PATCHBOARD_WARM".to_owned(), "1".to_owned()),
        ("SNAKEPIT_READY_FILE".to_owned(), ready_file.to_string_lossy().into_owned()),
    ];
    let arguments = pool.options.command.iter().skip(1).cloned().collect();
    // Workers announce themselves in their own folders beneath the folder of the pool.
    let writable = pool.context.folder.pool(pool.index);
    let ports = pool.fork_server.callback_ports(pool).map_err(WorkerFailure::new)?;
    let spec =
        launch_spec(pool, arguments, variables.into_iter().collect(), &writable, ports.ports(), WorkerStdin::Piped)?;
    let mut process = pool.context.platform.launch(spec).await.map_err(WorkerFailure::new)?;
    let tail = process.output_tail();
    let lines = tail.subscribe();
    let result =
        wait_until_ready(pool, &mut *process, &ready_file).await.and_then(|announced| match announced.address {
            WorkerAddress::ForkServer => Ok(()),
            WorkerAddress::Tcp(_) | WorkerAddress::Unix(_) => {
                Err(WorkerFailure::new("it does not support `warm`: it started as a worker"))
            }
        });
    if let Err(mut failure) = result {
        process.kill().await;
        failure.output_tail = tail.summary();
        return Err(failure);
    }
    let Some(input) = process.take_stdin() else { return Err(WorkerFailure::new("its standard input is unavailable")) };
    let (commands, command_queue) = mpsc::channel(COMMAND_QUEUE);
    let server = Arc::new(ForkServer {
        commands,
        output_tail: tail,
        pid_mapping: process.pid_mapping(),
        fork_lock: Arc::default(),
        exits: Mutex::default(),
        exit_reported: Notify::new(),
        closing: CancellationToken::new(),
        ended: CancellationToken::new(),
    });
    pool.context.tasks.spawn(run_server(server.clone(), process, input, command_queue, lines, folder));
    Ok(server)
}

/// Writes commands and reads exit reports until the program has exited.
async fn run_server(
    server: Arc<ForkServer>,
    mut process: Box<dyn WorkerProcess>,
    mut input: pipe::Sender,
    mut commands: mpsc::Receiver<String>,
    mut lines: mpsc::Receiver<String>,
    _folder: WorkerFolder,
) {
    let _ended = server.ended.clone().drop_guard();
    let serving = async {
        loop {
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { return };
                    if input.write_all(format!("{command}\n").as_bytes()).await.is_err() {
                        return;
                    }
                }
                line = lines.recv() => match line {
                    Some(line) => server.handle_line(&line),
                    None => return,
                },
                () = server.closing.cancelled() => return,
            }
        }
    };
    tokio::select! {
        () = serving => {}
        _ = process.wait() => {}
    }
    drop(input);
    let drain = async {
        while let Some(line) = lines.recv().await {
            server.handle_line(&line);
        }
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        _ = process.wait() => true,
        () = drain => false,
        () = tokio::time::sleep(SHUTDOWN_TIMEOUT) => false,
    };
    if !ended {
        process.kill().await;
    }
}

impl ForkServer {
    fn send_command(&self, command: String) {
        if self.commands.try_send(command).is_err() {
            // The program is gone or no longer reads commands; either way it is unusable.
            self.closing.cancel();
        }
    }

    fn signal(&self, pid: Option<u32>, signal: i32) {
        match pid {
            Some(pid) => self.send_command(json!({"signal": {"pid": pid, "signal": signal}}).to_string()),
            // A worker without an announced pid cannot be signalled; the whole program is ended rather than leaving a
            // worker that cannot be stopped.
            None => self.closing.cancel(),
        }
    }

    fn handle_line(&self, line: &str) {
        let Some((pid, status)) = parse_exit(line) else { return };
        self.exits().record(pid, status);
        self.exit_reported.notify_waiters();
    }

    fn exits(&self) -> MutexGuard<'_, ExitStatuses> {
        self.exits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExitStatuses {
    fn record(&mut self, pid: u32, status: String) {
        match self.by_pid.get_mut(&pid) {
            Some(exit) => *exit = Some(status),
            None => self.unidentified = Some((pid, status)),
        }
    }

    fn identify(&mut self, pid: u32) {
        let exit = self.unidentified.take().filter(|(reported_pid, _)| *reported_pid == pid);
        self.by_pid.insert(pid, exit.map(|(_, status)| status));
    }
}

fn parse_exit(line: &str) -> Option<(u32, String)> {
    let (pid, status) = line.strip_prefix(EXIT_PREFIX)?.split_once(EXIT_SEPARATOR)?;
    Some((pid.trim().parse().ok()?, status.trim().to_owned()))
}

/// A worker forked from the program.
#[derive(Debug)]
struct ForkedWorker {
    server: Arc<ForkServer>,
    /// Set once the worker has announced itself.
    pid: Option<u32>,
    fork_permit: Option<OwnedMutexGuard<()>>,
    has_ended: bool,
}

impl ForkedWorker {
    /// The exit status, if the worker has exited.
    fn exit_status(&self) -> Option<String> {
        let exits = self.server.exits();
        match self.pid {
            Some(pid) => exits.by_pid.get(&pid).cloned().flatten(),
            None => exits.unidentified.as_ref().map(|(_, status)| status.clone()),
        }
    }
}

impl WorkerProcess for ForkedWorker {
    fn pid(&self) -> Option<u32> {
        self.server.pid_mapping.outer_pid(self.pid?)
    }

    fn pid_mapping(&self) -> PidMapping {
        self.server.pid_mapping
    }

    fn set_announced_pid(&mut self, pid: Option<u32>) {
        if let Some(pid) = pid {
            self.server.exits().identify(pid);
            self.pid = Some(pid);
            self.fork_permit = None;
        }
    }

    fn wait(&mut self) -> BoxFuture<'_, String> {
        async {
            let status = loop {
                let reported = self.server.exit_reported.notified();
                tokio::pin!(reported);
                reported.as_mut().enable();
                if let Some(status) = self.exit_status() {
                    break format!("exit status: {status}");
                }
                tokio::select! {
                    () = reported => {}
                    () = self.server.ended.cancelled() => break "the program it was forked from".to_owned(),
                }
            };
            self.has_ended = true;
            status
        }
        .boxed()
    }

    fn request_stop(&mut self) -> BoxFuture<'_, ()> {
        self.server.signal(self.pid, SIGTERM);
        std::future::ready(()).boxed()
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        async {
            if self.has_ended {
                return;
            }
            self.server.signal(self.pid, SIGKILL);
            if tokio::time::timeout(EXIT_WAIT, self.wait()).await.is_err() {
                tracing::debug!(pid = self.pid, "no exit report for a killed forked worker");
            }
            self.has_ended = true;
        }
        .boxed()
    }

    fn take_stdin(&mut self) -> Option<pipe::Sender> {
        None
    }

    fn output_tail(&self) -> StdioTail {
        self.server.output_tail.clone()
    }
}

impl Drop for ForkedWorker {
    fn drop(&mut self) {
        if !self.has_ended {
            self.server.signal(self.pid, SIGKILL);
        }
        if let Some(pid) = self.pid {
            self.server.exits().by_pid.remove(&pid);
        }
    }
}

#[cfg(test)]
mod tests;
