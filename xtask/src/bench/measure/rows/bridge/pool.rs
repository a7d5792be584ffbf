//! A server with one Python worker, and the way to that worker around the server.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;

use super::SESSION;
use crate::bench::measure::calls::Subject;
use crate::bench::measure::env::Env;
use crate::bench::measure::grpc::{Address, Call, Client};
use crate::bench::measure::helper::Helper;
use crate::bench::measure::server::Server;
use crate::bench::measure::ws::{self, Socket, client_frame};
use crate::e2e;
use crate::output::say;
use crate::process::{self, Ended};

const SDK: &str = "sdk/python";
const TOOLS: &str = "bench/bridge";
const PLAIN: &str = "e2e/python/bridge_workers";
/// Python starts, imports and is asked for its tools.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// How a worker is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// With this repository's own package; it listens on a Unix socket.
    Sdk,
    /// As workers of the protocol were before there was a server like this; it listens on a port.
    Plain,
}

/// A Python that can run both.
#[derive(Debug)]
pub(super) struct Python {
    program: PathBuf,
    /// Where the package of the SDK is installed.
    packages: PathBuf,
    root: PathBuf,
}

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) server: Server,
    worker: Worker,
    /// The server's configuration names it.
    _stub: Helper,
}

#[derive(Debug, PartialEq, Eq)]
struct Worker {
    address: Address,
    pid: u32,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Sdk, Kind::Plain];
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kind::Sdk => "a worker of the SDK",
            Kind::Plain => "a plain worker",
        })
    }
}

impl Python {
    /// The environment of the drivers, and the SDK in a folder of its own so that neither sees an old one.
    pub(super) fn prepare(env: &Env) -> anyhow::Result<Python> {
        let program = match e2e::python(&env.root, &env.target, "grpcio")? {
            Ok(program) => program,
            Err(why) => bail!("no Python for the workers: {why}"),
        };
        let packages = env.folder()?;
        let mut install = Command::new(&program);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
        install.arg(&packages).arg(env.root.join(SDK));
        say!("installing {SDK}");
        match process::watch_until(&mut install, PATIENCE * 5, &mut |_| {})? {
            Ended::Success => Ok(Python { program, packages, root: env.root.clone() }),
            Ended::Failure(why) => bail!("`{SDK}` cannot be installed: {why}"),
            Ended::TimedOut(limit) => bail!("installing `{SDK}` took longer than {} s", limit.as_secs()),
        }
    }

    /// `[[workers]]` with one worker and otherwise what everybody gets.
    fn config(&self, kind: Kind) -> anyhow::Result<String> {
        let tools = self.root.join(TOOLS);
        let (folder, script, adapter, path) = match kind {
            Kind::Sdk => (tools, "sdk_worker.py", &[][..], &self.packages),
            Kind::Plain => (self.root.join(PLAIN), "grpc_server.py", &["--adapter", "plain_tools.Tools"][..], &tools),
        };
        let program = self.program.display().to_string();
        let words = [program.as_str(), script].into_iter().chain(adapter.iter().copied());
        let mut env = toml::Table::new();
        env.insert("PYTHONPATH".to_owned(), path.display().to_string().into());
        env.insert("PYTHONDONTWRITEBYTECODE".to_owned(), "1".into());
        let mut pool = toml::Table::new();
        pool.insert("name".to_owned(), POOL.into());
        pool.insert("count".to_owned(), 1.into());
        pool.insert("command".to_owned(), words.collect::<Vec<_>>().into());
        pool.insert("working_folder".to_owned(), folder.display().to_string().into());
        pool.insert("env".to_owned(), env.into());
        let mut config = toml::Table::new();
        config.insert("workers".to_owned(), vec![toml::Value::Table(pool)].into());
        toml::to_string(&config).context("cannot write the configuration of a pool")
    }
}

const POOL: &str = "python";

impl Pool {
    /// Until its worker can be called and the session of the measurement is open.
    pub(super) fn start(env: &Env, python: &Python, kind: Kind) -> anyhow::Result<Pool> {
        let stub = env.stub()?;
        let server = env.server_with(&python.config(kind)?, stub.address)?;
        let worker = env.block_on(PATIENCE + Duration::from_secs(5), async {
            let worker = ready_worker(&server).await?;
            Client::connect(&Address::Tcp(server.bridge)).await?.open_session(SESSION).await?;
            Ok(worker)
        });
        let worker = worker.with_context(|| format!("no call to {kind}"))?;
        Ok(Pool { server, worker, _stub: stub })
    }

    /// Kills the worker as a crash would, and says how long it takes until another one can be called.
    pub(super) fn kill_worker(&mut self, env: &Env) -> anyhow::Result<Duration> {
        let gone = self.worker.pid;
        let killed = Instant::now();
        let status = Command::new("kill").args(["-KILL", &gone.to_string()]).status().context("cannot run `kill`")?;
        anyhow::ensure!(status.success(), "process {gone} cannot be killed: {status}");
        self.worker = env.block_on(PATIENCE + Duration::from_secs(5), async {
            loop {
                // The server may not have noticed yet.
                let worker = ready_worker(&self.server).await?;
                if worker.pid != gone {
                    return Ok(worker);
                }
            }
        })?;
        Ok(killed.elapsed())
    }

    /// The same call through the server and straight to its worker.
    pub(super) fn both_ways(&self, call: &Arc<Call>) -> (Subject, Subject) {
        let through = Subject { address: Address::Tcp(self.server.bridge), pid: self.server.pid(), call: call.clone() };
        let direct = Subject { address: self.worker.address.clone(), pid: self.worker.pid, call: call.clone() };
        (through, direct)
    }
}

async fn ready_worker(server: &Server) -> anyhow::Result<Worker> {
    let started = Instant::now();
    let mut socket = Socket::connect(server.gateway, ws::GATEWAY).await?;
    // The hello.
    socket.next().await?;
    let request = client_frame(r#"{"id":"1","method":"worker.list"}"#);
    loop {
        socket.send(&request).await?;
        match find_worker(socket.next().await?)? {
            Found::Ready(worker) => return Ok(worker),
            Found::NotYet { trouble } if started.elapsed() > PATIENCE => {
                bail!("it did not get ready within {} s: {}", PATIENCE.as_secs(), trouble.unwrap_or_default())
            }
            Found::NotYet { .. } => tokio::time::sleep(POLL).await,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Ready(Worker),
    NotYet { trouble: Option<String> },
}

/// What the gateway says of the pool.
fn find_worker(answer: &[u8]) -> anyhow::Result<Found> {
    #[derive(Deserialize)]
    struct Answer {
        result: Listed,
    }
    #[derive(Deserialize)]
    struct Listed {
        items: Vec<PoolItem>,
    }
    #[derive(Deserialize)]
    struct PoolItem {
        name: String,
        trouble: Option<String>,
        workers: Vec<WorkerItem>,
    }
    #[derive(Deserialize)]
    struct WorkerItem {
        state: String,
        pid: Option<u32>,
        address: Option<String>,
    }
    let answer: Answer = serde_json::from_slice(answer)
        .with_context(|| format!("no list of workers: {}", String::from_utf8_lossy(answer)))?;
    let pool = answer.result.items.into_iter().find(|pool| pool.name == POOL);
    let pool = pool.with_context(|| format!("the server has no pool `{POOL}`"))?;
    match pool.workers.into_iter().find(|worker| worker.state == "ready") {
        Some(WorkerItem { pid: Some(pid), address: Some(address), .. }) => {
            Ok(Found::Ready(Worker { address: address.parse()?, pid }))
        }
        _ => Ok(Found::NotYet { trouble: pool.trouble }),
    }
}

#[cfg(test)]
mod tests;
