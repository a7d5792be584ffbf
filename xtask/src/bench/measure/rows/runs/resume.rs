//! How soon a run goes on whose server was killed in the middle of it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use super::Row;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Unit};
use crate::bench::measure::runner::{Runner, Told};
use crate::bench::stats::Sample;

#[derive(Debug)]
pub(in crate::bench::measure::rows) struct RunsResume;

/// One piece at once, then silence: whatever comes after it was said by the second server.
const MODEL: &str = "paced-2-60000ms";
const RUN: &str = "interrupted";
const TIMES: usize = 10;
const PATIENCE: Duration = Duration::from_secs(30);

/// In milliseconds after the start of the second server.
struct Resumed {
    ready: f64,
    event: f64,
    text: f64,
}

impl Row for RunsResume {
    fn name(&self) -> &'static str {
        "runs-resume"
    }

    fn about(&self) -> &'static str {
        "time from starting the server to what an interrupted run says next"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        // The first start of all reads the binary from the disk.
        resume(env, stub.address)?;
        let resumed = (0..TIMES).map(|_| resume(env, stub.address)).collect::<anyhow::Result<Vec<Resumed>>>()?;
        let sample = |part: fn(&Resumed) -> f64| Sample::new(resumed.iter().map(part).collect());
        let ready = sample(|times| times.ready)?.median();
        let figure = |name: &str, times: Sample| {
            Figure::new(name, times.median(), Unit::Milliseconds).note(format!(
                "median of {TIMES}; slowest {:.1} ms; of it {ready:.1} ms to the ready file, then connect and attach",
                times.percentile(100.0)
            ))
        };
        Ok(vec![
            figure("start to the first new event of a run", sample(|times| times.event)?),
            figure("start to the first new text of a run", sample(|times| times.text)?),
        ])
    }
}

fn resume(env: &Env, stub: SocketAddr) -> anyhow::Result<Resumed> {
    let folder = env.folder()?;
    let server = env.server_in(&folder, stub, &[MODEL])?;
    let last = env.block_on(PATIENCE, begin(server.runs))?;
    server.kill();
    let server = env.server_in(&folder, stub, &[MODEL])?;
    let (event, text) = env.block_on(PATIENCE, go_on(server.runs, last, server.started))?;
    Ok(Resumed { ready: server.took.as_secs_f64() * 1e3, event, text })
}

/// Starts a run and hears it up to its first text. Returns that event's number.
async fn begin(runs: SocketAddr) -> anyhow::Result<u64> {
    let mut runner = Runner::open(runs).await?;
    runner.start(RUN, MODEL).await?;
    loop {
        let told = runner.next().await?;
        match told {
            Told::Event { number, .. } if told.is_text() => return Ok(number),
            Told::Event { .. } => {}
            Told::End { .. } => bail!("the run ended too soon"),
            Told::Failed(error) => bail!("the run failed: {}", String::from_utf8_lossy(error)),
        }
    }
}

/// When the first event after number `last` came, and when the first text.
async fn go_on(runs: SocketAddr, last: u64, started: Instant) -> anyhow::Result<(f64, f64)> {
    let mut runner = Runner::open(runs).await?;
    runner.attach(RUN, last).await?;
    let mut event = None;
    let mut expected = last;
    loop {
        let told = runner.next().await?;
        let now = started.elapsed().as_secs_f64() * 1e3;
        let number = match told {
            Told::Event { number, .. } => number,
            Told::End { .. } => bail!("the run ended without a word"),
            Told::Failed(error) => bail!("the run did not go on: {}", String::from_utf8_lossy(error)),
        };
        expected += 1;
        ensure!(number == expected, "event {number} came where {expected} was due");
        let event = *event.get_or_insert(now);
        if told.is_text() {
            return Ok((event, now));
        }
    }
}
