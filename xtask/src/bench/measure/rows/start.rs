//! From the start of the process to the file that says it is ready.

use std::path::Path;

use super::Row;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::stats::Sample;

#[derive(Debug)]
pub(super) struct Start;

const TIMES: usize = 10;
/// Some turns have happened in the folder that exists.
const MODEL: &str = "instant-8";

impl Row for Start {
    fn name(&self) -> &'static str {
        "start"
    }

    fn about(&self) -> &'static str {
        "time from starting the process to its ready file"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let start = |folder: &Path| -> anyhow::Result<f64> {
            let server = env.server_in(folder, stub.address, &[MODEL])?;
            let took = server.took.as_secs_f64() * 1e3;
            server.stop()?;
            Ok(took)
        };
        // The first start of all reads the binary from the disk.
        let known = env.folder()?;
        start(&known)?;
        let (mut fresh, mut existing) = (Vec::new(), Vec::new());
        for _ in 0..TIMES {
            fresh.push(start(&env.folder()?)?);
            existing.push(start(&known)?);
        }
        [("start to ready, empty folder", fresh), ("start to ready, existing data", existing)]
            .into_iter()
            .map(|(name, times)| {
                let times = Sample::new(times)?;
                Ok(Figure::new(name, times.median(), Unit::Milliseconds)
                    .target(Target::AtMost(20.0))
                    .note(format!("median of {TIMES}; slowest {:.1} ms", times.percentile(100.0))))
            })
            .collect()
    }
}
