//! What the way through the server adds to a call of a Python worker.

use std::time::Duration;

use super::pool::{Kind, Pool, Python};
use super::{Row, small_call};
use crate::bench::measure::calls::{self, Patience};
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::round_trips::Shape;

#[derive(Debug)]
pub(in crate::bench::measure::rows) struct BridgeWorker;

/// At the median of single calls.
const MOST_ADDED_MILLISECONDS: f64 = 0.25;
const BUSY: Shape = Shape { connections: 1, in_flight: 8 };
/// Of what the worker does without a server in between.
const SHARE: f64 = 0.95;

impl Row for BridgeWorker {
    fn name(&self) -> &'static str {
        "bridge-worker"
    }

    fn about(&self) -> &'static str {
        "ExecuteTool through the server to a Python worker, beside calling the same worker directly"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let python = Python::prepare(env)?;
        let mut figures = Vec::new();
        for kind in Kind::ALL {
            let pool = Pool::start(env, &python, kind)?;
            let (through, direct) = pool.both_ways(&small_call());
            let patience = Patience { least_rounds: 20, calls_a_round: 25, span: env.span() * 2 };
            let limit = patience.span + Duration::from_secs(60);
            let times = env.block_on(limit, calls::times(&through, &direct, patience))?;
            let (slow, fast) = (&times.product, &times.baseline);
            figures.push(
                Figure::new(
                    format!("added delay of a call to {kind}, p50"),
                    slow.median() - fast.median(),
                    Unit::Milliseconds,
                )
                .target(Target::AtMost(MOST_ADDED_MILLISECONDS))
                .note(format!(
                    "p50 {:.3} ms through the server, {:.3} ms without; p99 {:.3} and {:.3} ms; {} calls each",
                    slow.median(),
                    fast.median(),
                    slow.percentile(99.0),
                    fast.percentile(99.0),
                    slow.count()
                )),
            );
            let name = format!("calls to {kind}, {} in flight", BUSY.in_flight);
            figures.push(calls::rate(env, name, &through, &direct, BUSY, SHARE)?);
        }
        Ok(figures)
    }
}
