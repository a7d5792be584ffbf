//! From nothing to a worker that takes calls.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use patchboard_core::bridge::{WorkerId, WorkerSecret, WorkerTool};
use patchboard_proto::pb::{
    ExecuteToolRequest, InitializeSessionRequest, InitializeSessionResponse, PingRequest, SessionConfig,
};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::command::{self, Identity};
use super::dispatch::WorkerNo;
use super::folder::WorkerFolder;
use super::link::Link;
use super::pool::{Pool, Worker};
use super::ports::{PORTS_OF_A_WORKER, PortLease};
use super::ready::{self, Address, Announcement};
use super::tail::Tail;
use super::world::{Input, Order, Process};
use super::{CallbackDoor, tools};
use crate::launch::inherited;
use crate::words::clipped;

/// Tries to reach a worker that says it is ready.
const CONNECT_TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// For each of the few words that are exchanged before it takes calls.
const ANSWER: Duration = Duration::from_secs(10);
/// A tool that no worker has: asked for it, a worker says which ones it has.
const PROBE: &str = "__patchboard_probe__";
/// How many calls the worker takes at once, if it says so.
const CAPACITY_HEADER: &str = "x-patchboard-capacity";
/// More are given to no worker.
const MAX_CAPACITY: u32 = 1024;
const MAX_STATUS: usize = 300;

/// A worker and all that belongs to it. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) worker: Arc<Worker>,
    pub(super) process: Box<dyn Process>,
    /// After the process, so that it can call back as long as it lives.
    _door: CallbackDoor,
    _ports: PortLease,
    _folder: WorkerFolder,
}

/// What went wrong, and what the worker said last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) what: String,
    pub(super) said: String,
}

impl Failure {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), said: String::new() }
    }

    pub(super) fn with(what: impl Into<String>, tail: &Tail) -> Self {
        Self { what: what.into(), said: tail.in_short() }
    }

    pub(super) fn sentence(&self) -> String {
        if self.said.is_empty() { self.what.clone() } else { format!("{}: {}", self.what, self.said) }
    }
}

/// Starts a worker for a slot and brings it into the pool. Dropped half-way, nothing is left of it.
pub(super) async fn start(pool: &Pool, slot: u32) -> Result<Life, Failure> {
    let Ok(_turn) = pool.starts.acquire().await else { return Err(Failure::new("the pool is closed")) };
    let (no, id) = pool.next_worker(slot);
    let mut birth = Birth { pool, no, is_done: false };
    pool.starting(no, &id, slot);
    let common = &pool.common;
    let folder = common.folder.worker(pool.number, no.0).map_err(|error| failed("make a folder for it", &error))?;
    let ports = match pool.options.is_warm {
        true => pool.warm.lines(pool).and_then(|lines| lines.lease(1)),
        false => common.ports.lease(PORTS_OF_A_WORKER),
    };
    let ports = ports.map_err(Failure::new)?;
    let opened = common.doors.open(&id, ports.line()).await;
    let door = opened.map_err(|error| failed("open a port for it to call back on", &error))?;
    if pool.shows_secret() {
        door.secret.demand();
    }
    let (ready_file, socket) = (folder.ready_file(), folder.socket());
    let who = Identity {
        id: &id,
        run: &common.run,
        door: door.address,
        secret: &door.secret,
        port: ports.own(),
        ready_file: &ready_file,
        socket: &socket,
    };
    let mut process = launch(pool, who, &folder, &ports).await?;
    pool.spawned(no, &id, process.pid());
    let introduced = introduce(pool, no, &id, &door.secret, &mut *process, &ready_file).await;
    let (worker, capacity, address, tools) = match introduced {
        Ok(introduced) => introduced,
        Err(mut failure) => {
            process.kill().await;
            // With everything it said until its end.
            failure.said = process.tail().in_short();
            return Err(failure);
        }
    };
    birth.is_done = true;
    let worker = Arc::new(worker);
    pool.ready(worker.clone(), capacity, address, tools);
    Ok(Life { worker, process, _door: door, _ports: ports, _folder: folder })
}

/// Unless it came to an end, a worker whose start was given up is no worker of the pool.
struct Birth<'a> {
    pool: &'a Pool,
    no: WorkerNo,
    is_done: bool,
}

impl Drop for Birth<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.pool.gone(self.no);
        }
    }
}

async fn launch(
    pool: &Pool,
    who: Identity<'_>,
    folder: &WorkerFolder,
    ports: &PortLease,
) -> Result<Box<dyn Process>, Failure> {
    if pool.options.is_warm {
        return pool.warm.fork(pool, who).await;
    }
    let own = command::own_variables(who);
    let arguments = command::arguments(&pool.options, who);
    let order = order(pool, arguments, own, &folder.path, ports.ports(), Input::Nothing)?;
    pool.common.world.launch(order).await.map_err(Failure::new)
}

/// What to start for a pool.
pub(super) fn order(
    pool: &Pool,
    arguments: Vec<String>,
    own: BTreeMap<String, String>,
    folder: &std::path::Path,
    ports: &[u16],
    input: Input,
) -> Result<Order, Failure> {
    let options = &pool.options;
    let Some(program) = options.command.first() else { return Err(Failure::new("the pool has no command")) };
    Ok(Order {
        pool: options.name.clone(),
        private: folder.to_owned(),
        program: program.clone(),
        arguments,
        environment: command::environment(options, own, inherited(command::PASSED_ON)),
        folder: options.working_folder.clone(),
        writable: options.writable.clone(),
        compiled: options.compiled.clone(),
        memory_limit: options.memory_limit,
        ports: ports.to_vec(),
        input,
    })
}

type Introduced = (Worker, u32, Arc<str>, Vec<WorkerTool>);

/// Until it is ready, connected and has said what it offers.
async fn introduce(
    pool: &Pool,
    no: WorkerNo,
    id: &WorkerId,
    secret: &WorkerSecret,
    process: &mut dyn Process,
    ready_file: &std::path::Path,
) -> Result<Introduced, Failure> {
    let announcement = announcement(pool, process, ready_file).await?;
    if pool.options.is_warm && announcement.pid.is_none() {
        return Err(Failure::new("it did not announce which process it is, so it cannot be forked"));
    }
    if announcement.shows_secret {
        secret.demand();
        pool.showed_secret();
    }
    process.introduced(announcement.pid);
    let announced = announcement.pid.and_then(|pid| process.numbers().outside(pid));
    let pid = announced.or(process.pid());
    let talking = talk(pool, no, id, secret, pid, &announcement.address);
    tokio::select! {
        biased;
        introduced = talking => introduced,
        status = process.ended() => Err(Failure::new(format!("it ended before it took calls, with {status}"))),
        () = tokio::time::sleep(pool.options.start_timeout) => Err(Failure::new(
            "it says that it is ready and does not answer within its `start_timeout`",
        )),
    }
}

/// Waits for the ready file of something that was started.
pub(super) async fn announcement(
    pool: &Pool,
    process: &mut dyn Process,
    ready_file: &std::path::Path,
) -> Result<Announcement, Failure> {
    let limit = pool.options.start_timeout;
    tokio::select! {
        biased;
        announced = ready::announced(ready_file) => announced.map_err(Failure::new),
        status = process.ended() => Err(Failure::new(format!("it ended before it was ready, with {status}"))),
        () = tokio::time::sleep(limit) => {
            let seconds = limit.as_secs_f64();
            Err(Failure::new(format!("it was not ready within {seconds} s; `start_timeout` of the pool sets that")))
        }
    }
}

async fn talk(
    pool: &Pool,
    no: WorkerNo,
    id: &WorkerId,
    secret: &WorkerSecret,
    pid: Option<u32>,
    address: &Address,
) -> Result<Introduced, Failure> {
    let link = connect(pool, secret, address).await?;
    let session = format!("session_{}_{}", no.0, pool.common.clock.now().as_microsecond());
    let answer = initialize(pool, &link, &session).await.map_err(|status| refused("begin its session", &status))?;
    let says = answer.metadata().get(CAPACITY_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
    let capacity = capacity(pool.options.capacity, says);
    let mut tools = tools::sound(pool.name(), answer.into_inner().available_tools);
    if tools.is_empty() && says.is_none() {
        // It says which tools it has when it is asked for one, and to the door that it calls back on.
        probe(&link, &session).await.map_err(|status| refused("say which tools it has", &status))?;
        tools = pool.told(no);
    }
    let worker = Worker {
        no,
        id: id.clone(),
        link,
        session,
        pid,
        born: Instant::now(),
        gone: CancellationToken::new(),
        calls: 0.into(),
        worn_out: Notify::new(),
        call_ended: Notify::new(),
    };
    Ok((worker, capacity, address.to_string().into(), tools))
}

async fn connect(pool: &Pool, secret: &WorkerSecret, address: &Address) -> Result<Link, Failure> {
    let mut pause = FIRST_PAUSE;
    let mut trouble = String::new();
    for attempt in 1..=CONNECT_TRIES {
        match tokio::time::timeout(ANSWER, reach(pool, secret, address)).await {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(reason)) => trouble = reason,
            Err(_) => trouble = "it does not answer".to_owned(),
        }
        if attempt < CONNECT_TRIES {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
    Err(Failure::new(format!("it says that it is ready and cannot be reached at {address}: {trouble}")))
}

async fn reach(pool: &Pool, secret: &WorkerSecret, address: &Address) -> Result<Link, String> {
    let connection = pool.common.world.connect(address).await.map_err(|error| error.to_string())?;
    let link = Link::open(connection, &pool.common.tasks.servers, secret).await?;
    let ping = Request::new(PingRequest { message: "connection_test".to_owned() });
    link.client().ping(ping).await.map_err(|status| in_words(&status))?;
    Ok(link)
}

/// The worker's own session: with it, the worker watches whether the server is still there.
pub(super) async fn initialize(
    pool: &Pool,
    link: &Link,
    session: &str,
) -> Result<Response<InitializeSessionResponse>, Status> {
    let metadata = [
        ("elixir_node", "patchboard".to_owned()),
        ("initialized_at", pool.common.clock.now().to_string()),
        ("pool", pool.name().to_string()),
    ];
    let mut request = Request::new(InitializeSessionRequest {
        session_id: session.to_owned(),
        metadata: metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        config: Some(SessionConfig { enable_caching: true, cache_ttl_seconds: 60, enable_telemetry: false }),
    });
    request.set_timeout(ANSWER);
    let answer = answered(link.client().initialize_session(request)).await?;
    if answer.get_ref().success {
        return Ok(answer);
    }
    Err(Status::failed_precondition(answer.into_inner().error_message))
}

async fn probe(link: &Link, session: &str) -> Result<(), Status> {
    let mut request = Request::new(ExecuteToolRequest {
        session_id: session.to_owned(),
        tool_name: PROBE.to_owned(),
        ..ExecuteToolRequest::default()
    });
    request.set_timeout(ANSWER);
    // That there is no such tool may come as an answer or as a status.
    match answered(link.client().execute_tool(request)).await {
        Ok(_) => Ok(()),
        Err(status)
            if super::link::loss(&status) == super::link::Loss::None
                && status.code() != tonic::Code::DeadlineExceeded =>
        {
            Ok(())
        }
        Err(status) => Err(status),
    }
}

async fn answered<T>(asking: impl Future<Output = Result<Response<T>, Status>>) -> Result<Response<T>, Status> {
    tokio::time::timeout(ANSWER, asking).await.unwrap_or_else(|_| Err(Status::deadline_exceeded("it does not answer")))
}

/// What a worker says it takes at once, but no more than the pool allows. One that does not say has as many threads as
/// Python's usual pool.
fn capacity(allowed: Option<u32>, says: Option<u32>) -> u32 {
    let usual = || {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        u32::try_from(cores + 4).unwrap_or(u32::MAX).min(32)
    };
    let wanted = match (allowed, says) {
        (Some(allowed), Some(says)) => allowed.min(says),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => usual(),
    };
    wanted.clamp(1, MAX_CAPACITY)
}

fn failed(attempt: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {attempt}: {error}"))
}

fn refused(attempt: &str, status: &Status) -> Failure {
    Failure::new(format!("it did not {attempt}: {}", in_words(status)))
}

pub(super) fn in_words(status: &Status) -> String {
    let text = if status.message().is_empty() { status.code().description() } else { status.message() };
    clipped(&text.escape_debug(), MAX_STATUS)
}

#[cfg(test)]
mod tests;
