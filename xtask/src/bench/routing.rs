//! `cargo xtask bench routing FILE…`: how well utterances find their apps, and how fast.
//!
//! A file names apps with their descriptions, rows to learn from and rows to judge by. The matcher is measured cold and
//! after so many acknowledged deliveries for each app, over several draws of them: the learning curve. The measuring
//! program is an example of the core crate, so that this one still depends on no crate of the workspace.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stats::Sample;
use crate::Verdict;
use crate::output::say;
use crate::workspace::Workspace;

/// Acknowledged deliveries for each app, and how often they are drawn.
const STAGES: [(usize, u32); 5] = [(0, 1), (5, 5), (20, 5), (50, 3), (100, 1)];
/// Where the ranges of confidence begin, for which it is told how often the matcher was right.
const RANGES: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9];
/// The share of all test rows that may go to a wrong app, for the figure that compares matchers of any caution.
const ALLOWED_WRONG: f64 = 0.03;
/// Examples of each app with which calibration is shown.
const CALIBRATED: usize = 20;
const LARGEST_FILE: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    files: Vec<PathBuf>,
    json: Option<PathBuf>,
}

/// What is expected of the rows of a file.
#[derive(Debug, Deserialize)]
struct Expected {
    #[serde(default)]
    test: Vec<(String, Option<String>)>,
    #[serde(default)]
    several: Vec<(String, Vec<String>)>,
}

/// What the matcher made of them.
#[derive(Debug, Deserialize)]
struct Stage {
    examples: usize,
    /// First those of `test`, then those of `several`.
    decisions: Vec<Decision>,
}

#[derive(Debug, Deserialize)]
struct Decision {
    best: Option<String>,
    confidence: f64,
    delivered: Vec<String>,
    nanoseconds: f64,
}

#[derive(Debug, Clone, PartialEq)]
struct Figures {
    examples: usize,
    draws: usize,
    rows: usize,
    /// Of the rows that have an app: the best candidate is it.
    top_1: f64,
    /// Of the rows that have an app: delivered rightly, when all with at least some confidence are delivered and that is chosen so that
    /// wrong deliveries stay within the allowed share.
    right_within_allowed: f64,
    /// Of all rows, at the default policy.
    right: f64,
    wrong: f64,
    held: f64,
    /// Of the rows that belong to no app: delivered all the same.
    none_delivered: f64,
    /// Of the rows with several apps: exactly these were chosen.
    several: Option<f64>,
    /// By how much the share of right ones differs from the confidence told, on the average.
    calibration_error: f64,
    median_micros: f64,
    slow_micros: f64,
    /// Between the draws, the highest of `right` and `wrong` less the lowest.
    right_spread: f64,
    wrong_spread: f64,
}

/// How often the best candidate was right where the matcher told a confidence in a range.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Range {
    rows: usize,
    told: f64,
    right: usize,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Options> {
        let mut options = Options { files: Vec::new(), json: None };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--json" => options.json = Some(words.next().context("`--json` needs a value")?.into()),
                flag if flag.starts_with('-') => bail!("unknown argument of `bench routing`: `{flag}`"),
                file => options.files.push(file.into()),
            }
        }
        ensure!(!options.files.is_empty(), "`bench routing` needs a file");
        Ok(options)
    }
}

/// Good when everything could be measured, whatever the figures are.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<Verdict> {
    let mut written = Vec::new();
    for file in &options.files {
        let (expected, stages) =
            measure(workspace, file).with_context(|| format!("cannot measure {}", file.display()))?;
        let judged: Vec<(Figures, Vec<Range>)> =
            stages.iter().map(|stage| judge(&expected, stage)).collect::<anyhow::Result<_>>()?;
        let figures: Vec<Figures> = STAGES.iter().filter_map(|(examples, _)| curve(*examples, &judged)).collect();
        say!("\n=== {}", file.display());
        for line in table(&figures) {
            say!("{line}");
        }
        say!("\nconfidence told and share of right ones, with {CALIBRATED} examples:");
        for line in calibration(&judged) {
            say!("{line}");
        }
        written.extend(figures.iter().map(|figures| to_json(file, figures)));
    }
    let path = match &options.json {
        Some(path) => path.clone(),
        None => workspace.target_directory()?.join("bench-routing.json"),
    };
    let json = serde_json::to_string_pretty(&json!({ "allowed_wrong": ALLOWED_WRONG, "figures": written }))?;
    std::fs::write(&path, json + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    say!("\nwritten to {}", path.display());
    Ok(Verdict::Good)
}

fn measure(workspace: &Workspace, file: &Path) -> anyhow::Result<(Expected, Vec<Stage>)> {
    let file = std::path::absolute(file)?;
    let size = std::fs::metadata(&file)?.len();
    ensure!(size <= LARGEST_FILE, "the file is too large: {size} bytes");
    let expected: Expected = serde_json::from_slice(&std::fs::read(&file)?).context("it is not a routing file")?;
    let example = ["run", "--release", "--quiet", "--package", "patchboard-matcher", "--example", "routing", "--"];
    let mut command = workspace.cargo(&example);
    let draws = STAGES.iter().flat_map(|(examples, draws)| (1..=*draws).map(move |draw| format!("{examples}/{draw}")));
    command.arg(&file).args(draws).stderr(Stdio::inherit());
    let output = command.output().context("cannot run cargo")?;
    ensure!(output.status.success(), "the measuring program failed: {}", output.status);
    Ok((expected, serde_json::from_slice(&output.stdout).context("the measuring program printed something else")?))
}

fn judge(expected: &Expected, stage: &Stage) -> anyhow::Result<(Figures, Vec<Range>)> {
    let rows = expected.test.len();
    ensure!(stage.decisions.len() == rows + expected.several.len(), "there are more or fewer decisions than rows");
    let (decisions, several) = stage.decisions.split_at(rows);
    let judged: Vec<(&Option<String>, &Decision)> = expected.test.iter().map(|(_, app)| app).zip(decisions).collect();
    let with_app = judged.iter().filter(|(app, _)| app.is_some()).count();
    let is_best = |app: &Option<String>, decision: &Decision| app.is_some() && *app == decision.best;
    let is_right = |app: &Option<String>, decision: &Decision| app.as_slice() == decision.delivered;
    let delivered: Vec<_> = judged.iter().filter(|(_, decision)| !decision.delivered.is_empty()).collect();
    let held = rows - delivered.len();
    let for_none = delivered.iter().filter(|(app, _)| app.is_none()).count();
    let right = delivered.iter().filter(|(app, decision)| is_right(app, decision)).count();
    let both = expected.several.iter().zip(several).filter(|((_, apps), decision)| same(apps, &decision.delivered));
    let times = Sample::new(stage.decisions.iter().map(|decision| decision.nanoseconds / 1000.0).collect())?;
    let told: Vec<(f64, bool)> = judged.iter().map(|(app, one)| (one.confidence, is_best(app, one))).collect();
    let ranges = ranges(&told);
    let error = |range: &Range| (range.told - range.right as f64).abs();
    let figures = Figures {
        examples: stage.examples,
        draws: 1,
        rows,
        top_1: share(judged.iter().filter(|(app, decision)| is_best(app, decision)).count(), with_app),
        right_within_allowed: share(right_within(&told), with_app),
        right: share(right, rows),
        wrong: share(rows - held - right, rows),
        held: share(held, rows),
        none_delivered: share(for_none, rows - with_app),
        several: (!several.is_empty()).then(|| share(both.count(), several.len())),
        calibration_error: ranges.iter().map(error).sum::<f64>() / rows.max(1) as f64,
        median_micros: times.median(),
        slow_micros: times.percentile(99.0),
        right_spread: 0.0,
        wrong_spread: 0.0,
    };
    Ok((figures, ranges))
}

/// The mean of all draws of so many examples.
fn curve(examples: usize, judged: &[(Figures, Vec<Range>)]) -> Option<Figures> {
    let draws: Vec<&Figures> = judged.iter().map(|(one, _)| one).filter(|one| one.examples == examples).collect();
    let first = *draws.first()?;
    let mean = |of: fn(&Figures) -> f64| draws.iter().map(|one| of(one)).sum::<f64>() / draws.len() as f64;
    let spread = |of: fn(&Figures) -> f64| {
        let highest = draws.iter().map(|one| of(one)).fold(f64::MIN, f64::max);
        highest - draws.iter().map(|one| of(one)).fold(f64::MAX, f64::min)
    };
    Some(Figures {
        examples,
        draws: draws.len(),
        rows: first.rows,
        top_1: mean(|one| one.top_1),
        right_within_allowed: mean(|one| one.right_within_allowed),
        right: mean(|one| one.right),
        wrong: mean(|one| one.wrong),
        held: mean(|one| one.held),
        none_delivered: mean(|one| one.none_delivered),
        several: first.several.map(|_| mean(|one| one.several.unwrap_or(0.0))),
        calibration_error: mean(|one| one.calibration_error),
        median_micros: mean(|one| one.median_micros),
        slow_micros: mean(|one| one.slow_micros),
        right_spread: spread(|one| one.right),
        wrong_spread: spread(|one| one.wrong),
    })
}

fn ranges(told: &[(f64, bool)]) -> Vec<Range> {
    let mut ranges = vec![Range::default(); RANGES.len()];
    for (confidence, is_right) in told {
        let at = RANGES.iter().rposition(|from| confidence >= from).unwrap_or(0);
        if let Some(range) = ranges.get_mut(at) {
            range.rows += 1;
            range.told += confidence;
            range.right += usize::from(*is_right);
        }
    }
    ranges
}

fn calibration(judged: &[(Figures, Vec<Range>)]) -> Vec<String> {
    let mut sums = vec![Range::default(); RANGES.len()];
    for (_, ranges) in judged.iter().filter(|(figures, _)| figures.examples == CALIBRATED) {
        for (sum, range) in sums.iter_mut().zip(ranges) {
            *sum = Range { rows: sum.rows + range.rows, told: sum.told + range.told, right: sum.right + range.right };
        }
    }
    let lines = RANGES.iter().zip(sums).filter(|(_, range)| range.rows > 0).map(|(from, range)| {
        let told = range.told / range.rows as f64;
        format!(
            "  from {from:.1}: told {told:.2}, right {:.2} ({} decisions)",
            share(range.right, range.rows),
            range.rows
        )
    });
    lines.collect()
}

/// The most right deliveries with no more wrong ones than allowed, by lowering the confidence that is asked for.
fn right_within(decisions: &[(f64, bool)]) -> usize {
    let mut decisions = decisions.to_vec();
    // Of equal confidence all are delivered or none: the wrong ones count first.
    decisions.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let allowed = (ALLOWED_WRONG * decisions.len() as f64).floor() as usize;
    let within = decisions.iter().scan(0, |wrong, (_, is_right)| {
        *wrong += usize::from(!is_right);
        (*wrong <= allowed).then_some(*is_right)
    });
    within.filter(|is_right| *is_right).count()
}

fn same(one: &[String], other: &[String]) -> bool {
    one.len() == other.len() && one.iter().all(|app| other.contains(app))
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn table(figures: &[Figures]) -> Vec<String> {
    let allowed = format!("right at {:.0} % wrong", ALLOWED_WRONG * 100.0);
    let header =
        ["examples", "draws", "top-1", &allowed, "right", "±", "wrong", "±", "held", "no app", "several", "off"];
    let mut rows = vec![header.iter().chain(&["p50 µs", "p99 µs"]).map(|cell| (*cell).to_owned()).collect::<Vec<_>>()];
    for one in figures {
        let mut row = vec![one.examples.to_string(), one.draws.to_string()];
        let shares = [
            one.top_1,
            one.right_within_allowed,
            one.right,
            one.right_spread / 2.0,
            one.wrong,
            one.wrong_spread / 2.0,
            one.held,
            one.none_delivered,
        ];
        row.extend(shares.map(|share| format!("{share:.3}")));
        row.push(one.several.map_or_else(String::new, |several| format!("{several:.3}")));
        row.push(format!("{:.3}", one.calibration_error));
        row.extend([one.median_micros, one.slow_micros].map(|micros| format!("{micros:.0}")));
        rows.push(row);
    }
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let padded = |cell: &String, width: &usize| " ".repeat(width.saturating_sub(cell.chars().count())) + cell;
    rows.iter().map(|row| row.iter().zip(&widths).map(|(c, w)| padded(c, w)).collect::<Vec<_>>().join("  ")).collect()
}

fn to_json(file: &Path, figures: &Figures) -> Value {
    json!({
        "file": file.display().to_string(),
        "examples": figures.examples,
        "rows": figures.rows,
        "top_1": figures.top_1,
        "right_within_allowed": figures.right_within_allowed,
        "right": figures.right,
        "wrong": figures.wrong,
        "held": figures.held,
        "draws": figures.draws,
        "right_spread": figures.right_spread,
        "wrong_spread": figures.wrong_spread,
        "none_delivered": figures.none_delivered,
        "calibration_error": figures.calibration_error,
        "several": figures.several,
        "median_micros": figures.median_micros,
        "slow_micros": figures.slow_micros,
    })
}

#[cfg(test)]
mod tests;
