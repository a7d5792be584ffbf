//! Whether memory comes back: what a server keeps after thousands of clients that sent half of a large message and left.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::Row;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::load;
use crate::bench::measure::proc;
use crate::bench::measure::ws::{self, Socket, client_frame};

#[derive(Debug)]
pub(super) struct ReturnedMemory;

const CLIENTS: usize = 5_000;
/// Of a message, of which the first half is sent, so that the server has to hold on to it.
const MESSAGE_BYTES: usize = 128 * 1024;
/// Start-up work that goes on after the ready file is written is over by then, and so is reading what clients sent.
const SETTLE: Duration = Duration::from_millis(1000);
/// Of the memory before, of which so much may be in use again.
const MOST: f64 = 1.5;
const PATIENCE: Duration = Duration::from_secs(120);

impl Row for ReturnedMemory {
    fn name(&self) -> &'static str {
        "returned"
    }

    fn about(&self) -> &'static str {
        "memory after 5,000 clients sent half of a large message and left, beside the memory before"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[])?;
        std::thread::sleep(SETTLE);
        let before = proc::resident(server.pid())?;
        let most = env.block_on(PATIENCE, async {
            let clients = load::open(CLIENTS, |_| half_a_message(server.gateway)).await?;
            tokio::time::sleep(SETTLE).await;
            let most = proc::megabytes(server.pid());
            drop(clients);
            most
        })?;
        let left = Instant::now();
        let after = proc::resident_after_return(server.pid(), (before as f64 * MOST) as u64)?;
        let note = format!(
            "{most:.1} MB while they were there, looked at {:.1} s after they left, at most {} s; baseline: before they came",
            left.elapsed().as_secs_f64(),
            proc::RETURN_TIME.as_secs()
        );
        Ok(vec![
            Figure::new("memory after 5,000 clients with half a message", after as f64 / 1e6, Unit::Megabytes)
                .beside(before as f64 / 1e6)
                .target(Target::RatioAtMost(MOST))
                .note(note),
        ])
    }
}

async fn half_a_message(gateway: SocketAddr) -> anyhow::Result<Socket> {
    let mut socket = Socket::connect(gateway, ws::GATEWAY).await?;
    socket.next().await?;
    let frame = client_frame(&" ".repeat(MESSAGE_BYTES));
    socket.send(frame.get(..MESSAGE_BYTES / 2).unwrap_or_default()).await?;
    Ok(socket)
}
