//! How soon a run with an instant model is heard of, beside reading that model directly.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::Row;
use crate::bench::measure::direct::Direct;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::load::{self, Side};
use crate::bench::measure::runner::Runner;
use crate::bench::stats::Sample;

#[derive(Debug)]
pub(in crate::bench::measure::rows) struct RunsFirst;

const MODEL: &str = "instant-8";
const PIECES: u64 = 8;
const ROUNDS: usize = 20;
const RUNS_A_ROUND: usize = 25;

/// In milliseconds after the request.
#[derive(Debug, Default)]
struct Times {
    event: Vec<f64>,
    text: Vec<f64>,
    direct: Vec<f64>,
}

impl Row for RunsFirst {
    fn name(&self) -> &'static str {
        "runs-first"
    }

    fn about(&self) -> &'static str {
        "time to the first event and the first text of a run, beside reading the model directly"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[MODEL])?;
        let times = env.block_on(Duration::from_secs(300), compare(server.runs, stub.address))?;
        let direct = Sample::new(times.direct)?.median();
        let figure = |name: &str, times: Vec<f64>| -> anyhow::Result<Figure> {
            let times = Sample::new(times)?;
            let (p99, count) = (times.percentile(99.0), times.count());
            Ok(Figure::new(name, times.median(), Unit::Milliseconds)
                .beside(direct)
                .note(format!("p99 {p99:.3} ms; median of {count}; baseline: first piece of the model, read directly")))
        };
        Ok(vec![
            figure("first event of a run, p50", times.event)?.target(Target::AtMost(1.2)),
            figure("first text of a run, p50", times.text)?,
        ])
    }
}

async fn compare(runs: SocketAddr, stub: SocketAddr) -> anyhow::Result<Times> {
    let mut runner = Runner::open(runs).await?;
    let mut direct = Direct::open(stub, MODEL).await?;
    let mut times = Times::default();
    // The first round opens connections and fills caches.
    for (turn, side) in load::in_turn(ROUNDS + 1).enumerate() {
        for _ in 0..RUNS_A_ROUND {
            match side {
                Side::Product => times.run(&mut runner).await?,
                Side::Baseline => times.read(&mut direct).await?,
            }
        }
        if turn == 1 {
            times = Times::default();
        }
    }
    Ok(times)
}

impl Times {
    async fn run(&mut self, runner: &mut Runner) -> anyhow::Result<()> {
        let (mut event, mut text) = (None, None);
        let started = Instant::now();
        let now = || started.elapsed().as_secs_f64() * 1e3;
        let heard = runner.run_with(MODEL, |told| {
            event.get_or_insert_with(now);
            if told.is_text() {
                text.get_or_insert_with(now);
            }
        });
        let heard = heard.await?;
        ensure!(heard.texts == PIECES && heard.gaps == 0, "a run was not told as it was: {heard:?}");
        self.event.push(event.context("a run without events")?);
        self.text.push(text.context("a run without text")?);
        Ok(())
    }

    async fn read(&mut self, direct: &mut Direct) -> anyhow::Result<()> {
        let mut first = None;
        let started = Instant::now();
        let hear = |_: &[u8]| {
            first.get_or_insert_with(|| started.elapsed().as_secs_f64() * 1e3);
        };
        direct.answer(hear).await?;
        self.direct.push(first.context("the model said nothing")?);
        Ok(())
    }
}
