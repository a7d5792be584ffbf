//! The words behind `cargo xtask bench`.

use std::path::PathBuf;

use anyhow::{Context, bail};

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

/// What can be measured alone, known before what measures it is built.
pub(crate) const ROWS: &[&str] = &[
    "ping",
    "turns",
    "tokens",
    "streams",
    "start",
    "memory",
    "returned",
    "size",
    "growth",
    "runs-ping",
    "runs-list",
    "runs-first",
    "runs-streams",
    "runs-resume",
    "bash",
    "hub",
    "bridge-ping",
    "bridge-tool",
    "bridge-worker",
    "bridge-binary",
    "bridge-replaced",
    "plugin",
    HOSTILE,
];
/// The row that needs the plugins of this repository.
pub(super) const HOSTILE: &str = "hostile";

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

/// The name of a row stands for the row, and its first word for all rows that begin with it.
fn covers(name: &str, row: &str) -> bool {
    row.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn row_name(name: String) -> anyhow::Result<String> {
    if !ROWS.iter().any(|row| covers(&name, row)) {
        bail!("no row is called `{name}`; there are {}", ROWS.join(", "));
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
