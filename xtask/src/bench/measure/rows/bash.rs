//! What it costs to run a command in its jail: `bash` with `true`, beside a bare shell.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::Row;
use crate::bench::measure::chat::find;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Unit};
use crate::bench::measure::load::{self, Side};
use crate::bench::measure::ws::{self, Socket, client_frame};
use crate::bench::stats::Sample;

#[derive(Debug)]
pub(super) struct Bash;

const REQUEST: &str = r#"{"id":"1","method":"tool.call","params":{"name":"bash","arguments":{"command":"true"}}}"#;
const ROUNDS: usize = 10;
const CALLS_A_ROUND: usize = 20;
/// A command that never ends is given so long, so often.
const LIMIT_MILLISECONDS: u64 = 200;
const OVER_THE_LIMIT: usize = 5;
const PATIENCE: Duration = Duration::from_secs(60);

impl Row for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn about(&self) -> &'static str {
        "time of a `bash` call of `true`, beside starting `sh -c true`"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[])?;
        let mut socket = env.block_on(PATIENCE, async {
            let mut socket = Socket::connect(server.gateway, ws::GATEWAY).await?;
            socket.next().await?;
            Ok(socket)
        })?;
        let (mut product, mut baseline) = (Vec::new(), Vec::new());
        // The first round reads programs from the disk.
        for (turn, side) in load::in_turn(ROUNDS + 1).enumerate() {
            let times = match side {
                Side::Product => env.block_on(PATIENCE, calls(&mut socket))?,
                Side::Baseline => shells()?,
            };
            if turn >= 2 {
                let into = if side == Side::Product { &mut product } else { &mut baseline };
                into.extend(times);
            }
        }
        let over = env.block_on(PATIENCE, over_the_limit(&mut socket))?;
        let times = Sample::new(product)?;
        let note = format!(
            "p99 {:.2} ms; median of {}; a whole `tool.call`: recorded, jailed, answered; baseline: bare `sh -c true`",
            times.percentile(99.0),
            times.count()
        );
        Ok(vec![
            Figure::new("bash call of true, p50", times.median(), Unit::Milliseconds)
                .beside(Sample::new(baseline)?.median())
                .note(note),
            Figure::new(
                "bash call over its time limit, p50 over the limit",
                Sample::new(over)?.median(),
                Unit::Milliseconds,
            )
            .note(format!("three processes, limit {LIMIT_MILLISECONDS} ms; answered when none of them is left")),
        ])
    }
}

/// Milliseconds from the end of the time that a command has to its answer, which comes when all its processes are gone.
async fn over_the_limit(socket: &mut Socket) -> anyhow::Result<Vec<f64>> {
    let request = client_frame(&format!(
        r#"{{"id":"1","method":"tool.call","params":{{"name":"bash","arguments":{{"command":"sleep 600 & sleep 600","timeout":{LIMIT_MILLISECONDS}}}}}}}"#
    ));
    let mut times = Vec::with_capacity(OVER_THE_LIMIT);
    for _ in 0..OVER_THE_LIMIT {
        let started = Instant::now();
        socket.send(&request).await?;
        let answer = socket.next().await?;
        times.push(started.elapsed().as_secs_f64() * 1e3 - LIMIT_MILLISECONDS as f64);
        let was_ended = find(answer, b"timed out").is_some();
        ensure!(was_ended, "the command was not ended: {}", String::from_utf8_lossy(answer));
    }
    Ok(times)
}

async fn calls(socket: &mut Socket) -> anyhow::Result<Vec<f64>> {
    let request = client_frame(REQUEST);
    let mut times = Vec::with_capacity(CALLS_A_ROUND);
    for _ in 0..CALLS_A_ROUND {
        let started = Instant::now();
        socket.send(&request).await?;
        let answer = socket.next().await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        let went_well = find(answer, b"\"is_error\":false").is_some();
        ensure!(went_well, "the command failed: {}", String::from_utf8_lossy(answer));
    }
    Ok(times)
}

/// The same command with nothing around it.
fn shells() -> anyhow::Result<Vec<f64>> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "true"]).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut times = Vec::with_capacity(CALLS_A_ROUND);
    for _ in 0..CALLS_A_ROUND {
        let started = Instant::now();
        let status = command.status().context("cannot start `/bin/sh`")?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        ensure!(status.success(), "`sh -c true` failed: {status}");
    }
    Ok(times)
}
