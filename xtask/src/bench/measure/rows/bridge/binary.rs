//! A large parameter on its way to a Python worker, and what the server keeps of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::pool::{Kind, Pool, Python};
use super::{Row, small_call, tool_call};
use crate::bench::measure::calls::{self, Patience};
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::grpc::Call;
use crate::bench::measure::proc;

#[derive(Debug)]
pub(in crate::bench::measure::rows) struct BridgeBinary;

const MEBIBYTES: usize = 16;
const ANSWER: &str = r#""16777216""#;
const RATIO: f64 = 1.3;
/// What is over is over: a buffer that is put back, an idle connection.
const SETTLE: Duration = Duration::from_secs(1);

impl Row for BridgeBinary {
    fn name(&self) -> &'static str {
        "bridge-binary"
    }

    fn about(&self) -> &'static str {
        "16 MiB of bytes through the server to a Python worker, beside calling the same worker directly"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let python = Python::prepare(env)?;
        let call = large_call();
        let mut figures = Vec::new();
        for kind in Kind::ALL {
            let pool = Pool::start(env, &python, kind)?;
            // Small calls first: what they leave behind is not what is looked for.
            let (through, direct) = pool.both_ways(&small_call());
            let few = Patience { least_rounds: 2, calls_a_round: 25, span: Duration::ZERO };
            env.block_on(Duration::from_secs(60), calls::times(&through, &direct, few))?;
            std::thread::sleep(SETTLE);
            let before = proc::resident(pool.server.pid())?;

            let (through, direct) = pool.both_ways(&call);
            let many = Patience { least_rounds: 20, calls_a_round: 1, span: env.span() * 2 };
            let limit = many.span + Duration::from_secs(120);
            let times = env.block_on(limit, calls::times(&through, &direct, many))?;
            // As much as one message would be one copy that stayed; freed memory is returned within seconds.
            let kept = (MEBIBYTES * 1024 * 1024) as u64;
            let after = proc::resident_after_return(pool.server.pid(), before + kept)?;
            let peak = proc::peak(pool.server.pid())?;

            let (slow, fast) = (&times.product, &times.baseline);
            figures.push(
                Figure::new(format!("{MEBIBYTES} MiB to {kind}, p50"), slow.median(), Unit::Milliseconds)
                    .beside(fast.median())
                    .target(Target::RatioAtMost(RATIO))
                    .note(format!(
                        "p90 {:.1} ms, without the server {:.1} ms; {} calls each",
                        slow.percentile(90.0),
                        fast.percentile(90.0),
                        slow.count()
                    )),
            );
            figures.push(
                Figure::new(
                    format!("memory kept of {MEBIBYTES} MiB to {kind}"),
                    (after as f64 - before as f64) / 1e6,
                    Unit::Megabytes,
                )
                .target(Target::AtMost(kept as f64 / 1e6))
                .note(format!(
                    "{:.1} MB before; at most {:.1} MB during the calls; looked at when it was under the target, at most {} s after",
                    megabytes(before),
                    megabytes(peak),
                    proc::RETURN_TIME.as_secs()
                )),
            );
        }
        Ok(figures)
    }
}

fn large_call() -> Arc<Call> {
    let mut call = tool_call("size", [], ANSWER);
    if let Call::Tool { request, .. } = &mut call {
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(MEBIBYTES * 1024 * 1024).collect();
        request.binary_parameters = BTreeMap::from([("data".to_owned(), bytes.into())]);
    }
    Arc::new(call)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
