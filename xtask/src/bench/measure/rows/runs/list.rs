//! `tools_list`, beside a bare echo of a frame as large as its answer.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::Row;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::load::{self, Side};
use crate::bench::measure::ws::{self, Socket, client_frame};
use crate::bench::stats::Sample;

#[derive(Debug)]
pub(in crate::bench::measure::rows) struct RunsList;

const REQUEST: &str = r#"{"type":"tools_list","id":"1"}"#;
const ROUNDS: usize = 20;
const ASKED_A_ROUND: usize = 50;

/// One of the two servers.
struct Peer {
    socket: Socket,
    request: Vec<u8>,
    answer: String,
    /// In milliseconds.
    times: Vec<f64>,
}

impl Row for RunsList {
    fn name(&self) -> &'static str {
        "runs-list"
    }

    fn about(&self) -> &'static str {
        "time of a `tools_list`, beside a bare WebSocket echo of a frame as large"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[])?;
        let echo = env.echo()?;
        let (product, baseline) = env.block_on(Duration::from_secs(120), async {
            let mut socket = Socket::connect(server.runs, ws::RUNS).await?;
            socket.send(&client_frame(REQUEST)).await?;
            let answer = String::from_utf8(socket.next().await?.to_vec()).context("the answer is not text")?;
            let baseline = Peer {
                socket: Socket::connect(echo.address, ws::GATEWAY).await?,
                request: client_frame(&answer),
                answer: answer.clone(),
                times: Vec::new(),
            };
            let product = Peer { socket, request: client_frame(REQUEST), answer, times: Vec::new() };
            compare(product, baseline).await
        })?;
        let tools = count(&product.answer)?;
        let size = product.answer.len();
        let times = Sample::new(product.times)?;
        let note = format!(
            "{tools} tools in {size} bytes; p99 {:.3} ms; median of {}; baseline: echo of a frame as large",
            times.percentile(99.0),
            times.count()
        );
        Ok(vec![
            Figure::new("tools_list, p50", times.median(), Unit::Milliseconds)
                .beside(Sample::new(baseline.times)?.median())
                .target(Target::AtMost(0.3))
                .note(note),
        ])
    }
}

async fn compare(mut product: Peer, mut baseline: Peer) -> anyhow::Result<(Peer, Peer)> {
    for peer in [&mut product, &mut baseline] {
        peer.measure().await?;
        // That was to warm up.
        peer.times.clear();
    }
    for side in load::in_turn(ROUNDS) {
        let peer = if side == Side::Product { &mut product } else { &mut baseline };
        peer.measure().await?;
    }
    Ok((product, baseline))
}

impl Peer {
    async fn measure(&mut self) -> anyhow::Result<()> {
        for _ in 0..ASKED_A_ROUND {
            let started = Instant::now();
            self.socket.send(&self.request).await?;
            let answer = self.socket.next().await?;
            self.times.push(started.elapsed().as_secs_f64() * 1e3);
            ensure!(answer == self.answer.as_bytes(), "unexpected answer: {}", String::from_utf8_lossy(answer));
        }
        Ok(())
    }
}

/// The tools in an answer that is the whole of a list.
fn count(answer: &str) -> anyhow::Result<usize> {
    let list: Value = serde_json::from_str(answer).context("the answer is not JSON")?;
    ensure!(list.get("type").and_then(Value::as_str) == Some("tools_list"), "not a list of tools: {answer}");
    let tools = list.get("tools").and_then(Value::as_array).context("a list without tools")?;
    ensure!(!tools.is_empty(), "there are no tools");
    Ok(tools.len())
}
