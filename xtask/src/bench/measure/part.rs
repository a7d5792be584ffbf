//! The processes of a measurement, all of them this program, and the verbs they are started with.

use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::bench::options::Options;

/// What the program does as one of the processes of a measurement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Measure(Options),
    /// The instant model.
    Stub,
    /// The bare WebSocket echo.
    Echo,
    /// The bare gRPC echo.
    GrpcEcho,
    /// Cleans up after whoever holds its stdin, however that one ends.
    Watchdog {
        scratch: PathBuf,
    },
}

impl Part {
    /// Reads a verb that starts with `bench-`.
    pub(crate) fn parse(verb: &str, mut words: impl Iterator<Item = String>) -> anyhow::Result<Part> {
        match verb {
            "bench-measure" => Ok(Part::Measure(Options::parse(words)?)),
            "bench-stub" => Ok(Part::Stub),
            "bench-echo" => Ok(Part::Echo),
            "bench-grpc-echo" => Ok(Part::GrpcEcho),
            "bench-watchdog" => {
                let scratch = words.next().context("`bench-watchdog` needs the folder to remove")?;
                Ok(Part::Watchdog { scratch: scratch.into() })
            }
            other => bail!("unknown command `{other}`"),
        }
    }
}

#[cfg(test)]
mod tests;
