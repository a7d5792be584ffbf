//! How many events pass through per second when 32 runs stream as fast as they can, and whether all arrive.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::Row;
use crate::bench::measure::direct::Direct;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::load::{self, Effort, Side};
use crate::bench::measure::runner::Runner;
use crate::bench::stats::Sample;

#[derive(Debug)]
pub(in crate::bench::measure::rows) struct RunsStreams;

const MODEL: &str = "instant-5000";
const PIECES: u64 = 5000;
const RUNS: usize = 32;
const ROUNDS: usize = 2;

/// What a number of runs came to.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    events: u64,
    /// Pieces of text that never came, and numbers that did not follow each other.
    lost: u64,
}

/// Events per second, round by round.
struct Rates {
    product: Vec<f64>,
    baseline: Vec<f64>,
    tally: Tally,
    effort: Effort,
}

impl Row for RunsStreams {
    fn name(&self) -> &'static str {
        "runs-streams"
    }

    fn about(&self) -> &'static str {
        "events per second of 32 runs of 5,000 pieces, and whether any is lost"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[MODEL])?;
        let patience = env.span() * 2 + Duration::from_secs(120);
        let work = compare(server.runs, stub.address, Effort::of(server.pid()), env.span());
        let Rates { product, baseline, tally, effort } = env.block_on(patience, work)?;
        Ok(vec![
            Figure::new("run events, 32 connections", Sample::new(product)?.median(), Unit::PerSecond)
                .beside(Sample::new(baseline)?.median())
                .note(format!("server time {:.2} µs an event; baseline: direct reads", effort.each())),
            Figure::new("run events lost", tally.lost as f64, Unit::Count)
                .target(Target::AtMost(0.0))
                .note(format!("of {}; numbers follow each other from 1 to the end of every run", tally.events)),
        ])
    }
}

async fn compare(runs: SocketAddr, stub: SocketAddr, effort: Effort, span: Duration) -> anyhow::Result<Rates> {
    let mut runners = load::open(RUNS, move |_| Runner::open(runs)).await?;
    let mut direct = load::open(RUNS, move |_| Direct::open(stub, MODEL)).await?;
    let mut rates = Rates { product: Vec::new(), baseline: Vec::new(), tally: Tally::default(), effort };
    for side in load::in_turn(ROUNDS) {
        let until = Instant::now() + span / ROUNDS as u32;
        match side {
            Side::Product => {
                let before = rates.effort.clock();
                let done = load::all(&mut runners, move |runner| run_until(runner, until)).await?;
                let tally = done.results.into_iter().fold(Tally::default(), Tally::plus);
                rates.effort.add(before, tally.events);
                rates.product.push(tally.events as f64 / done.took.as_secs_f64());
                rates.tally = rates.tally.plus(tally);
            }
            Side::Baseline => {
                let done = load::all(&mut direct, move |direct| read_until(direct, until)).await?;
                rates.baseline.push(done.results.iter().sum::<u64>() as f64 / done.took.as_secs_f64());
            }
        }
    }
    Ok(rates)
}

impl Tally {
    fn plus(self, other: Tally) -> Tally {
        Tally { events: self.events + other.events, lost: self.lost + other.lost }
    }
}

async fn run_until(mut runner: Runner, until: Instant) -> anyhow::Result<(Runner, Tally)> {
    let mut tally = Tally::default();
    while Instant::now() < until {
        let heard = runner.run(MODEL).await?;
        tally = tally.plus(Tally { events: heard.events, lost: heard.gaps + PIECES.abs_diff(heard.texts) });
    }
    Ok((runner, tally))
}

async fn read_until(mut direct: Direct, until: Instant) -> anyhow::Result<(Direct, u64)> {
    let mut pieces = 0;
    while Instant::now() < until {
        pieces += direct.answer(|_| {}).await?;
    }
    Ok((direct, pieces))
}
