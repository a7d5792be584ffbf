//! Memory of a server that has nothing to do, alone and with very many clients.

use std::net::SocketAddr;
use std::time::Duration;

use super::Row;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::load;
use crate::bench::measure::proc;
use crate::bench::measure::ws::{self, Socket};

#[derive(Debug)]
pub(super) struct IdleMemory;

const CLIENTS: usize = 10_000;
/// Files this process needs besides its clients.
const OTHER_FILES: u64 = 100;
/// Start-up work that goes on after the ready file is written is over by then.
const SETTLE: Duration = Duration::from_millis(500);

impl Row for IdleMemory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "memory of an idle server, alone and with 10,000 idle clients, beside a bare WebSocket echo"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[])?;
        let echo = env.echo()?;
        std::thread::sleep(SETTLE);
        let (alone, echo_alone) = (proc::megabytes(server.pid())?, proc::megabytes(echo.pid())?);

        let allowed = usize::try_from(proc::file_limit()?.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
        let count = CLIENTS.min(allowed);
        let note = if count < CLIENTS {
            format!("fewer than {CLIENTS}: raise the limit with `ulimit -n {}`", CLIENTS as u64 + OTHER_FILES)
        } else {
            "baseline: bare echo with as many".to_owned()
        };
        let with_clients = with_clients(env, server.gateway, count, || proc::megabytes(server.pid()))?;
        let echo_with_clients = with_clients_of_echo(env, echo.address, count, || proc::megabytes(echo.pid()))?;
        let each = |with: f64, without: f64| (with - without) * 1e3 / count as f64;
        Ok(vec![
            Figure::new("idle memory", alone, Unit::Megabytes)
                .beside(echo_alone)
                .target(Target::AtMost(28.0))
                .note("baseline: bare echo"),
            Figure::new(format!("memory with {count} idle clients"), with_clients, Unit::Megabytes)
                .beside(echo_with_clients)
                .target(Target::AtMost(140.0))
                .note(format!(
                    "{:.1} kB a client, echo {:.1} kB; {note}",
                    each(with_clients, alone),
                    each(echo_with_clients, echo_alone)
                )),
        ])
    }
}

/// Every client has heard the hello, so every connection is fully set up.
fn with_clients<T>(
    env: &Env,
    address: SocketAddr,
    count: usize,
    look: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    hold(env, count, look, move |_| async move {
        let mut socket = Socket::connect(address, ws::GATEWAY).await?;
        socket.next().await?;
        Ok(socket)
    })
}

fn with_clients_of_echo<T>(
    env: &Env,
    address: SocketAddr,
    count: usize,
    look: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    hold(env, count, look, move |_| Socket::connect(address, ws::GATEWAY))
}

fn hold<T, F>(
    env: &Env,
    count: usize,
    look: impl FnOnce() -> anyhow::Result<T>,
    connect: impl Fn(usize) -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Socket>> + Send + 'static,
{
    env.block_on(Duration::from_secs(120), async {
        let clients = load::open(count, connect).await?;
        tokio::time::sleep(SETTLE).await;
        let seen = look();
        drop(clients);
        seen
    })
}
