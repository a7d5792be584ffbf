//! How long a pool is without its worker after that was killed, beside how long the first one took to start.

use std::time::Instant;

use super::Row;
use super::pool::{Kind, Pool, Python};
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Unit};
use crate::bench::stats::Sample;

#[derive(Debug)]
pub(in crate::bench::measure::rows) struct BridgeReplaced;

/// More would come under the pool's pause between restarts, which grows.
const KILLS: usize = 3;

impl Row for BridgeReplaced {
    fn name(&self) -> &'static str {
        "bridge-replaced"
    }

    fn about(&self) -> &'static str {
        "time from killing the worker of a pool to the next that can be called, beside starting the server and the first"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let python = Python::prepare(env)?;
        let started = Instant::now();
        let mut pool = Pool::start(env, &python, Kind::Sdk)?;
        let first = started.elapsed().as_secs_f64() * 1e3;
        let mut times = Vec::with_capacity(KILLS);
        for _ in 0..KILLS {
            times.push(pool.kill_worker(env)?.as_secs_f64() * 1e3);
        }
        let times = Sample::new(times)?;
        Ok(vec![Figure::new("a killed worker replaced", times.percentile(0.0), Unit::Milliseconds).beside(first).note(
            format!(
                "shortest of {KILLS}, longest {:.0} ms; baseline: the server and its first worker",
                times.percentile(100.0)
            ),
        )])
    }
}
