//! Starts a worker and brings it to the point where it takes calls.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::backoff::BackoffSchedule;
use patchboard_core::bridge::WorkerSecret;
use patchboard_core::worker::{WorkerId, WorkerTool};
use patchboard_proto::pb::{
    ExecuteToolRequest, InitializeSessionRequest, InitializeSessionResponse, PingRequest, SessionConfig,
};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::command::{self, WorkerIdentity};
use super::connection::WorkerConnection;
use super::dispatch::WorkerNumber;
use super::folder::WorkerFolder;
use super::output_tail::StdioTail;
use super::platform::{LaunchSpec, WorkerProcess, WorkerStdin};
use super::pool::{ConnectedWorker, WorkerPool};
use super::ports::{PORTS_PER_WORKER, PortLease};
use super::ready_file::{self, ReadyReport, WorkerAddress};
use super::{CallbackListener, tools};
use crate::launch::inherited_environment;
use crate::text::clipped;

/// Between attempts to reach a worker that says it is ready.
const CONNECT_BACKOFF: BackoffSchedule =
    BackoffSchedule::doubling(Duration::from_millis(50), Duration::from_millis(500)).with_max_retries(4);
/// For each of the few words that are exchanged before it takes calls.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// A tool that no worker has: a call of it makes a worker register its tools.
const PROBE_TOOL: &str = "__patchboard_probe__";
/// Header in which a worker reports how many concurrent calls it takes.
const CAPACITY_HEADER: &str = "x-patchboard-capacity";
/// Upper bound on concurrent calls of one worker.
const MAX_CAPACITY: u32 = 1024;
const MAX_STATUS: usize = 300;

/// A worker and its resources. Dropping it kills the worker.
#[derive(Debug)]
pub(super) struct RunningWorker {
    pub(super) worker: Arc<ConnectedWorker>,
    pub(super) process: Box<dyn WorkerProcess>,
    /// Declared after `process`, so that the worker can call back until it has ended.
    _callback: CallbackListener,
    _ports: PortLease,
    _folder: WorkerFolder,
}

/// An error message and the tail of the worker's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkerFailure {
    pub(super) message: String,
    pub(super) output_tail: String,
}

impl WorkerFailure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), output_tail: String::new() }
    }

    pub(super) fn with_output(message: impl Into<String>, tail: &StdioTail) -> Self {
        Self { message: message.into(), output_tail: tail.summary() }
    }

    pub(super) fn full_message(&self) -> String {
        if self.output_tail.is_empty() {
            self.message.clone()
        } else {
            format!("{}: {}", self.message, self.output_tail)
        }
    }
}

/// Starts a worker for a slot and adds it to the pool. Cancel-safe: dropping the future cleans up everything.
pub(super) async fn start(pool: &WorkerPool, slot: u32) -> Result<RunningWorker, WorkerFailure> {
    let Ok(_start_permit) = pool.starts.acquire().await else { return Err(WorkerFailure::new("the pool is closed")) };
    let (number, id) = pool.next_worker(slot);
    let mut start_guard = StartGuard { pool, number, is_done: false };
    pool.add_starting(number, &id, slot);
    let context = &pool.context;
    let folder =
        context.folder.worker(pool.index, number.0).map_err(|error| io_failure("make a folder for it", &error))?;
    let ports = match pool.options.is_warm {
        true => pool.fork_server.callback_ports(pool).and_then(|block| block.lease(1)),
        false => context.ports.lease(PORTS_PER_WORKER),
    };
    let ports = ports.map_err(WorkerFailure::new)?;
    let result = context.callbacks.open(&id, ports.callback_port()).await;
    let callback = result.map_err(|error| io_failure("open a port for it to call back on", &error))?;
    if pool.sends_secret() {
        callback.secret.require();
    }
    let (ready_file, socket) = (folder.ready_file(), folder.socket());
    let identity = WorkerIdentity {
        id: &id,
        run_id: &context.run_id,
        callback_address: callback.address,
        secret: &callback.secret,
        port: ports.worker_port(),
        ready_file: &ready_file,
        socket: &socket,
    };
    let mut process = launch(pool, identity, &folder, &ports).await?;
    pool.record_spawn(number, &id, process.pid());
    pool.record_output(number, process.output_tail());
    let started = complete_start(pool, number, &id, &callback.secret, &mut *process, &ready_file).await;
    let (worker, capacity, address, tools) = match started {
        Ok(parts) => parts,
        Err(mut failure) => {
            process.kill().await;
            // Read after the kill, so that it holds all output.
            failure.output_tail = process.output_tail().summary();
            return Err(failure);
        }
    };
    start_guard.is_done = true;
    let worker = Arc::new(worker);
    pool.mark_ready(worker.clone(), capacity, address, tools);
    Ok(RunningWorker { worker, process, _callback: callback, _ports: ports, _folder: folder })
}

/// Removes a worker whose start was abandoned from the pool.
struct StartGuard<'a> {
    pool: &'a WorkerPool,
    number: WorkerNumber,
    is_done: bool,
}

impl Drop for StartGuard<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.pool.remove_worker(self.number);
        }
    }
}

async fn launch(
    pool: &WorkerPool,
    identity: WorkerIdentity<'_>,
    folder: &WorkerFolder,
    ports: &PortLease,
) -> Result<Box<dyn WorkerProcess>, WorkerFailure> {
    if pool.options.is_warm {
        return pool.fork_server.fork(pool, identity).await;
    }
    let variables = command::worker_variables(identity);
    let arguments = command::arguments(&pool.options, identity);
    let spec = launch_spec(pool, arguments, variables, &folder.path, ports.ports(), WorkerStdin::Null)?;
    pool.context.platform.launch(spec).await.map_err(WorkerFailure::new)
}

/// Launch specification of a program of the pool.
pub(super) fn launch_spec(
    pool: &WorkerPool,
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
    folder: &std::path::Path,
    ports: &[u16],
    input: WorkerStdin,
) -> Result<LaunchSpec, WorkerFailure> {
    let options = &pool.options;
    let Some(program) = options.command.first() else { return Err(WorkerFailure::new("the pool has no command")) };
    Ok(LaunchSpec {
        pool: options.name.clone(),
        private: folder.to_owned(),
        program: program.clone(),
        arguments,
        environment: command::environment(options, variables, inherited_environment(command::INHERITED_VARIABLES)),
        folder: options.working_folder.clone(),
        writable: options.writable.clone(),
        bytecode_cache: options.compiled.clone(),
        memory_limit: options.memory_limit,
        ports: ports.to_vec(),
        stdin: input,
    })
}

type HandshakeParts = (ConnectedWorker, u32, Arc<str>, Vec<WorkerTool>);

/// Waits until the worker is ready, connects to it and reads the tools it offers.
async fn complete_start(
    pool: &WorkerPool,
    number: WorkerNumber,
    id: &WorkerId,
    secret: &WorkerSecret,
    process: &mut dyn WorkerProcess,
    ready_file: &std::path::Path,
) -> Result<HandshakeParts, WorkerFailure> {
    let announcement = wait_until_ready(pool, process, ready_file).await?;
    if pool.options.is_warm && announcement.pid.is_none() {
        return Err(WorkerFailure::new("it did not announce which process it is, so it cannot be forked"));
    }
    if announcement.sends_secret {
        secret.require();
        pool.set_sends_secret();
    }
    process.set_announced_pid(announcement.pid);
    let announced = announcement.pid.and_then(|pid| process.pid_mapping().outer_pid(pid));
    let pid = announced.or(process.pid());
    let handshake = connect_and_initialize(pool, number, id, secret, pid, &announcement.address);
    tokio::select! {
        biased;
        result = handshake => result,
        status = process.wait() => Err(WorkerFailure::new(format!("it ended before it took calls, with {status}"))),
        () = tokio::time::sleep(pool.options.start_timeout) => Err(WorkerFailure::new(
            "it says that it is ready and does not answer within its `start_timeout`",
        )),
    }
}

/// Waits for the ready file of a started program.
pub(super) async fn wait_until_ready(
    pool: &WorkerPool,
    process: &mut dyn WorkerProcess,
    ready_file: &std::path::Path,
) -> Result<ReadyReport, WorkerFailure> {
    let limit = pool.options.start_timeout;
    tokio::select! {
        biased;
        announced = ready_file::wait_for_announcement(ready_file) => announced.map_err(WorkerFailure::new),
        status = process.wait() => Err(WorkerFailure::new(format!("it ended before it was ready, with {status}"))),
        () = tokio::time::sleep(limit) => {
            let seconds = limit.as_secs_f64();
            Err(WorkerFailure::new(format!("it was not ready within {seconds} s; `start_timeout` of the pool sets that")))
        }
    }
}

async fn connect_and_initialize(
    pool: &WorkerPool,
    number: WorkerNumber,
    id: &WorkerId,
    secret: &WorkerSecret,
    pid: Option<u32>,
    address: &WorkerAddress,
) -> Result<HandshakeParts, WorkerFailure> {
    let connection = connect(pool, secret, address).await?;
    let session = format!("session_{}_{}", number.0, pool.context.clock.now().as_microsecond());
    let response =
        initialize(pool, &connection, &session).await.map_err(|status| status_failure("begin its session", &status))?;
    let reported = response.metadata().get(CAPACITY_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
    let capacity = effective_capacity(pool.options.capacity, reported);
    let mut tools = tools::validated(pool.name(), response.into_inner().available_tools);
    if tools.is_empty() && reported.is_none() {
        // This worker registers its tools through its callback when a tool is called.
        probe(&connection, &session).await.map_err(|status| status_failure("say which tools it has", &status))?;
        tools = pool.registered_tools(number);
    }
    let worker = ConnectedWorker {
        number,
        id: id.clone(),
        connection,
        session,
        pid,
        started_at: Instant::now(),
        removed: CancellationToken::new(),
        calls: 0.into(),
        retire: Notify::new(),
        restart: Notify::new(),
        call_ended: Notify::new(),
    };
    Ok((worker, capacity, address.to_string().into(), tools))
}

async fn connect(
    pool: &WorkerPool,
    secret: &WorkerSecret,
    address: &WorkerAddress,
) -> Result<WorkerConnection, WorkerFailure> {
    let mut delays = CONNECT_BACKOFF.retries();
    loop {
        let error = match tokio::time::timeout(REPLY_TIMEOUT, try_connect(pool, secret, address)).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(reason)) => reason,
            Err(_) => "it does not answer".to_owned(),
        };
        let Some(delay) = delays.next() else {
            let reason = format!("it says that it is ready and cannot be reached at {address}: {error}");
            return Err(WorkerFailure::new(reason));
        };
        tokio::time::sleep(delay).await;
    }
}

async fn try_connect(
    pool: &WorkerPool,
    secret: &WorkerSecret,
    address: &WorkerAddress,
) -> Result<WorkerConnection, String> {
    let stream = pool.context.platform.connect(address).await.map_err(|error| error.to_string())?;
    let connection = WorkerConnection::open(stream, &pool.context.tasks.server, secret).await?;
    let ping = Request::new(PingRequest { message: "connection_test".to_owned() });
    connection.client().ping(ping).await.map_err(|status| status_text(&status))?;
    Ok(connection)
}

/// Opens the server's own session on the worker: with it, the worker monitors whether the server is alive.
pub(super) async fn initialize(
    pool: &WorkerPool,
    connection: &WorkerConnection,
    session: &str,
) -> Result<Response<InitializeSessionResponse>, Status> {
    let metadata = [
        ("elixir_node", "patchboard".to_owned()),
        ("initialized_at", pool.context.clock.now().to_string()),
        ("pool", pool.name().to_string()),
    ];
    let mut request = Request::new(InitializeSessionRequest {
        session_id: session.to_owned(),
        metadata: metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        config: Some(SessionConfig { enable_caching: true, cache_ttl_seconds: 60, enable_telemetry: false }),
    });
    request.set_timeout(REPLY_TIMEOUT);
    let response = with_timeout(connection.client().initialize_session(request)).await?;
    if response.get_ref().success {
        return Ok(response);
    }
    Err(Status::failed_precondition(response.into_inner().error_message))
}

async fn probe(connection: &WorkerConnection, session: &str) -> Result<(), Status> {
    let mut request = Request::new(ExecuteToolRequest {
        session_id: session.to_owned(),
        tool_name: PROBE_TOOL.to_owned(),
        ..ExecuteToolRequest::default()
    });
    request.set_timeout(REPLY_TIMEOUT);
    // An unknown tool may be reported in a response or as a status.
    match with_timeout(connection.client().execute_tool(request)).await {
        Ok(_) => Ok(()),
        Err(status)
            if super::connection::connection_loss(&status) == super::connection::ConnectionLoss::None
                && status.code() != tonic::Code::DeadlineExceeded =>
        {
            Ok(())
        }
        Err(status) => Err(status),
    }
}

async fn with_timeout<T>(request: impl Future<Output = Result<Response<T>, Status>>) -> Result<Response<T>, Status> {
    tokio::time::timeout(REPLY_TIMEOUT, request)
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded("it does not answer")))
}

/// The capacity that the worker reports, limited to what the pool allows. The default is the size of Python's default
/// thread pool.
fn effective_capacity(allowed: Option<u32>, reported: Option<u32>) -> u32 {
    let default_capacity = || {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        u32::try_from(cores + 4).unwrap_or(u32::MAX).min(32)
    };
    let capacity = match (allowed, reported) {
        (Some(allowed), Some(reported)) => allowed.min(reported),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => default_capacity(),
    };
    capacity.clamp(1, MAX_CAPACITY)
}

fn io_failure(attempt: &str, error: &std::io::Error) -> WorkerFailure {
    WorkerFailure::new(format!("cannot {attempt}: {error}"))
}

fn status_failure(attempt: &str, status: &Status) -> WorkerFailure {
    WorkerFailure::new(format!("it did not {attempt}: {}", status_text(status)))
}

pub(super) fn status_text(status: &Status) -> String {
    let text = if status.message().is_empty() { status.code().description() } else { status.message() };
    clipped(&text.escape_debug(), MAX_STATUS)
}

#[cfg(test)]
mod tests;
