//! Calls of the bridge on two sides in turn: how many fit into a second, and how long one takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::env::Env;
use super::figure::{Figure, Target, Unit};
use super::grpc::{Address, Call, Caller, Client};
use super::load::{self, Effort, Side};
use super::round_trips::Shape;
use crate::bench::stats::Sample;

const ROUNDS: usize = 4;
const WARM_UP: Duration = Duration::from_millis(200);
/// More would not make a median better.
const MAX_ROUNDS: usize = 10_000;

/// One of the two sides.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(super) address: Address,
    pub(super) pid: u32,
    pub(super) call: Arc<Call>,
}

/// How often is asked to learn how long one call takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Of each side, however long they take.
    pub(super) least_rounds: usize,
    /// Calls of one side before it is the other's turn.
    pub(super) calls_a_round: usize,
    /// More rounds until both sides together took so long.
    pub(super) span: Duration,
}

/// Milliseconds of each call, one at a time.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) product: Sample,
    pub(super) baseline: Sample,
}

/// Calls per second, of which `share` of the baseline's are asked for.
pub(super) fn rate(
    env: &Env,
    name: String,
    product: &Subject,
    baseline: &Subject,
    shape: Shape,
    share: f64,
) -> anyhow::Result<Figure> {
    let patience = env.span() * 4 + Duration::from_secs(60);
    let (product, baseline) = env.block_on(patience, async {
        compare(Peer::open(product, shape).await?, Peer::open(baseline, shape).await?, env.span()).await
    })?;
    Ok(Figure::new(name, Sample::new(product.rates)?.median(), Unit::PerSecond)
        .beside(Sample::new(baseline.rates)?.median())
        .target(Target::RatioAtLeast(share))
        .note(format!("server time {:.1} µs each, baseline {:.1} µs", product.effort.each(), baseline.effort.each())))
}

/// How long calls take when each waits for the one before.
pub(super) async fn times(product: &Subject, baseline: &Subject, patience: Patience) -> anyhow::Result<Times> {
    let (mut product, mut baseline) = (product.caller().await?, baseline.caller().await?);
    let ask = async |side| match side {
        Side::Product => product.once().await,
        Side::Baseline => baseline.once().await,
    };
    alternate(patience, ask).await
}

/// The first round of each side only warms it up.
async fn alternate(patience: Patience, mut ask: impl AsyncFnMut(Side) -> anyhow::Result<()>) -> anyhow::Result<Times> {
    let (mut product, mut baseline) = (Vec::new(), Vec::new());
    let started = Instant::now();
    for (turn, side) in load::in_turn(MAX_ROUNDS).enumerate() {
        let round = turn / 2;
        if turn % 2 == 0 && round > patience.least_rounds && started.elapsed() >= patience.span {
            break;
        }
        for _ in 0..patience.calls_a_round {
            let asked = Instant::now();
            ask(side).await?;
            let took = asked.elapsed().as_secs_f64() * 1e3;
            match side {
                _ if round == 0 => {}
                Side::Product => product.push(took),
                Side::Baseline => baseline.push(took),
            }
        }
    }
    Ok(Times { product: Sample::new(product)?, baseline: Sample::new(baseline)? })
}

impl Subject {
    async fn caller(&self) -> anyhow::Result<Caller> {
        Ok(Caller::new(Client::connect(&self.address).await?, self.call.clone()))
    }
}

/// A side and the callers of it.
struct Peer {
    callers: Vec<Caller>,
    effort: Effort,
    rates: Vec<f64>,
}

async fn compare(mut product: Peer, mut baseline: Peer, span: Duration) -> anyhow::Result<(Peer, Peer)> {
    for side in load::in_turn(1) {
        let peer = if side == Side::Product { &mut product } else { &mut baseline };
        ask_for(&mut peer.callers, WARM_UP).await?;
    }
    for side in load::in_turn(ROUNDS) {
        let peer = if side == Side::Product { &mut product } else { &mut baseline };
        peer.measure(span / ROUNDS as u32).await?;
    }
    Ok((product, baseline))
}

impl Peer {
    /// A connection carries as many callers as calls may be in flight on it.
    async fn open(subject: &Subject, shape: Shape) -> anyhow::Result<Peer> {
        let mut callers = Vec::with_capacity(shape.connections * shape.in_flight);
        for _ in 0..shape.connections {
            let caller = subject.caller().await?;
            callers.extend(std::iter::repeat_n(caller, shape.in_flight));
        }
        Ok(Peer { callers, effort: Effort::of(subject.pid), rates: Vec::new() })
    }

    async fn measure(&mut self, span: Duration) -> anyhow::Result<()> {
        let before = self.effort.clock();
        let (calls, took) = ask_for(&mut self.callers, span).await?;
        self.effort.add(before, calls);
        self.rates.push(calls as f64 / took.as_secs_f64());
        Ok(())
    }
}

async fn ask_for(callers: &mut Vec<Caller>, span: Duration) -> anyhow::Result<(u64, Duration)> {
    let until = Instant::now() + span;
    let done = load::all(callers, move |mut caller| async move {
        let mut calls = 0;
        while Instant::now() < until {
            caller.once().await?;
            calls += 1;
        }
        Ok((caller, calls))
    });
    let done = done.await?;
    Ok((done.results.iter().sum(), done.took))
}

#[cfg(test)]
mod tests;
