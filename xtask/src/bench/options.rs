//! The words behind `cargo xtask bench`, and those it starts itself with.

use std::path::PathBuf;

use anyhow::{Context, bail};

use super::rows;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// The rows to measure, or groups of rows; all of them when empty.
    pub(crate) only: Vec<String>,
    /// For each figure that is a rate, and for its baseline again.
    pub(crate) seconds: u64,
    pub(crate) json: Option<PathBuf>,
    /// Turns after which memory must not have grown.
    pub(crate) turns: u64,
    /// Stored events beside which a turn must not take longer.
    pub(crate) growth: u64,
    /// Another build of the product, measured by turns with this one.
    pub(crate) against: Option<PathBuf>,
    /// How often each of the two is measured.
    pub(crate) pairs: u64,
}

/// For each rate, where there is one build to measure and where there are two, each several times.
const SECONDS: u64 = 4;
const SECONDS_OF_A_PAIR: u64 = 1;
/// Fewer would make a median a matter of chance.
const FEWEST_PAIRS: u64 = 7;

impl Default for Options {
    fn default() -> Options {
        Options {
            only: Vec::new(),
            seconds: SECONDS,
            json: None,
            turns: 20_000,
            growth: 100_000,
            against: None,
            pairs: FEWEST_PAIRS,
        }
    }
}

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

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Options> {
        let mut options = Options::default();
        let mut seconds = None;
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("`{word}` needs a value"));
            match word.as_str() {
                "--only" => options.only.push(row_name(value()?)?),
                "--seconds" => seconds = Some(count(&value()?, 1..=60)?),
                "--json" => options.json = Some(value()?.into()),
                "--turns" => options.turns = count(&value()?, 1_000..=10_000_000)?,
                "--growth" => options.growth = count(&value()?, 1_000..=10_000_000)?,
                "--against" => options.against = Some(value()?.into()),
                "--pairs" => options.pairs = count(&value()?, FEWEST_PAIRS..=101)?,
                other => bail!("unknown argument of `bench`: `{other}`"),
            }
        }
        let usual = if options.against.is_some() { SECONDS_OF_A_PAIR } else { SECONDS };
        options.seconds = seconds.unwrap_or(usual);
        Ok(options)
    }

    /// The words that `parse` reads back.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = self.only.iter().flat_map(|name| ["--only".to_owned(), name.clone()]).collect();
        let counts =
            [("--seconds", self.seconds), ("--turns", self.turns), ("--growth", self.growth), ("--pairs", self.pairs)];
        words.extend(counts.iter().flat_map(|(flag, count)| [(*flag).to_owned(), count.to_string()]));
        for (flag, path) in [("--json", &self.json), ("--against", &self.against)] {
            words.extend(path.iter().flat_map(|path| [flag.to_owned(), path.display().to_string()]));
        }
        words
    }

    pub(crate) fn chooses(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| covers(name, row))
    }
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

/// The name of a row stands for the row, and its first word for all rows that begin with it.
fn covers(name: &str, row: &str) -> bool {
    row.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn row_name(name: String) -> anyhow::Result<String> {
    let mut known = rows::ALL.iter().map(|row| row.name());
    if !known.any(|row| covers(&name, row)) {
        let known: Vec<&str> = rows::ALL.iter().map(|row| row.name()).collect();
        bail!("no row is called `{name}`; there are {}", known.join(", "));
    }
    Ok(name)
}

fn count(text: &str, allowed: std::ops::RangeInclusive<u64>) -> anyhow::Result<u64> {
    let number: u64 = text.parse().with_context(|| format!("`{text}` is not a number"))?;
    anyhow::ensure!(
        allowed.contains(&number),
        "{number} is out of range: {} to {} are accepted",
        allowed.start(),
        allowed.end()
    );
    Ok(number)
}

#[cfg(test)]
mod tests;
