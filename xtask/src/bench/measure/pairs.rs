//! Two builds of the product by turns in one run: how "not slower" is shown.
//!
//! A machine that slows down or warms up changes both of a pair alike, so each pair gives a ratio, and what is told is the
//! median of these and how far they lie apart.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::env::Env;
use super::figure::{Figure, OtherBuild};
use super::load::{self, Side};
use super::rows::Row;
use crate::bench::stats::Sample;
use crate::output::say;

/// Copies of both builds, made alike. How much of a program counts as resident depends on how its file came into the
/// system's cache: a linker's and a copy's differ by a megabyte.
#[derive(Debug)]
pub(super) struct Builds {
    own: PathBuf,
    other: PathBuf,
}

impl Builds {
    pub(super) fn new(env: &Env, other: &Path) -> anyhow::Result<Builds> {
        let folder = env.folder()?;
        let copy = |from: &Path, name: &str| {
            let to = folder.join(name);
            std::fs::copy(from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
            anyhow::Ok(to)
        };
        Ok(Builds { own: copy(&env.binary, "this")?, other: copy(other, "other")? })
    }
}

/// Measures a row for both builds, each first as often as the other.
pub(super) fn measure(row: &dyn Row, env: &mut Env, builds: &Builds) -> anyhow::Result<Vec<Figure>> {
    let built = env.binary.clone();
    let result = take_turns(row, env, &builds.own, &builds.other);
    env.binary = built;
    result
}

fn take_turns(row: &dyn Row, env: &mut Env, own: &Path, other: &Path) -> anyhow::Result<Vec<Figure>> {
    let pairs = usize::try_from(env.options.pairs).unwrap_or(usize::MAX);
    let (mut of_own, mut of_other) = (Vec::new(), Vec::new());
    for side in load::in_turn(pairs) {
        let (binary, into) = match side {
            Side::Product => (own, &mut of_own),
            Side::Baseline => (other, &mut of_other),
        };
        binary.clone_into(&mut env.binary);
        into.push(row.run(env).with_context(|| format!("with {}", binary.display()))?);
        say!("{} of {} measurements", of_own.len() + of_other.len(), 2 * pairs);
    }
    combine(&of_own, &of_other)
}

/// One list of figures from those of all pairs, which name the same figures in the same order.
fn combine(own: &[Vec<Figure>], other: &[Vec<Figure>]) -> anyhow::Result<Vec<Figure>> {
    let names = |figures: &Vec<Figure>| figures.iter().map(|figure| figure.name.clone()).collect::<Vec<_>>();
    let first = own.first().context("nothing was measured")?;
    ensure!(
        own.iter().chain(other).all(|figures| names(figures) == names(first)),
        "the figures are not the same each time"
    );
    (0..first.len())
        .map(|at| {
            let at_once =
                |all: &[Vec<Figure>]| all.iter().filter_map(|figures| figures.get(at).cloned()).collect::<Vec<_>>();
            combine_one(&at_once(own), &at_once(other))
        })
        .collect()
}

fn combine_one(own: &[Figure], other: &[Figure]) -> anyhow::Result<Figure> {
    let last = own.last().context("nothing was measured")?;
    let values = |figures: &[Figure]| figures.iter().map(|figure| figure.value).collect::<Vec<_>>();
    let baselines: Vec<f64> = own.iter().filter_map(|figure| figure.baseline).collect();
    let baseline = if baselines.is_empty() { None } else { Some(Sample::new(baselines)?.median()) };
    // A difference of two times may be nothing or less, and then it is no divisor.
    let ratios: Vec<f64> = own
        .iter()
        .zip(other)
        .filter(|(_, other)| other.value > 0.0)
        .map(|(own, other)| own.value / other.value)
        .collect();
    let all_divide = ratios.len() == other.len();
    let (ratio, spread) = if all_divide { median_and_spread(ratios)? } else { (None, 0.0) };
    let compared = OtherBuild { value: Sample::new(values(other))?.median(), ratio, spread };
    let note = if last.note.is_empty() { String::new() } else { format!("last time: {}", last.note) };
    Ok(Figure { value: Sample::new(values(own))?.median(), baseline, note, other: Some(compared), ..last.clone() })
}

fn median_and_spread(ratios: Vec<f64>) -> anyhow::Result<(Option<f64>, f64)> {
    let ratios = Sample::new(ratios)?;
    let median = ratios.median();
    let spread = (ratios.percentile(100.0) - median).max(median - ratios.percentile(0.0));
    Ok((Some(median), spread))
}

#[cfg(test)]
mod tests;
