//! `cargo xtask bench routing FILE…`: how well utterances find their apps, and how fast.
//!
//! A file names apps with their descriptions, rows to learn from and rows to judge by. The matcher is measured cold and
//! after so many acknowledged deliveries for each app. The measuring program is an example of the core crate, so that
//! this one still depends on no crate of the workspace.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stats::Sample;
use crate::Verdict;
use crate::output::say;
use crate::workspace::Workspace;

/// Acknowledged deliveries for each app.
const STAGES: [usize; 4] = [0, 5, 20, 100];
/// The share of all test rows that may go to a wrong app, for the figure that compares matchers of any caution.
const ALLOWED_WRONG: f64 = 0.03;
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

#[derive(Debug, PartialEq)]
struct Figures {
    examples: usize,
    rows: usize,
    /// Of the rows that have an app: the best candidate is it.
    top_1: f64,
    /// Of the rows that have an app: delivered to it, when all with at least some confidence are delivered and that is
    /// chosen so that wrong deliveries stay within the allowed share.
    right_within_allowed: f64,
    /// Of all rows, by the matcher's own caution.
    right: f64,
    wrong: f64,
    held: f64,
    /// Of the rows with several apps: exactly these were chosen.
    several: Option<f64>,
    median_micros: f64,
    slow_micros: f64,
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
        let figures: Vec<Figures> =
            stages.iter().map(|stage| judge(&expected, stage)).collect::<anyhow::Result<_>>()?;
        say!("\n=== {}", file.display());
        for line in table(&figures) {
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
    let example = ["run", "--release", "--quiet", "--package", "patchboard-core", "--example", "routing", "--"];
    let mut command = workspace.cargo(&example);
    command.arg(&file).args(STAGES.map(|stage| stage.to_string())).stderr(Stdio::inherit());
    let output = command.output().context("cannot run cargo")?;
    ensure!(output.status.success(), "the measuring program failed: {}", output.status);
    Ok((expected, serde_json::from_slice(&output.stdout).context("the measuring program printed something else")?))
}

fn judge(expected: &Expected, stage: &Stage) -> anyhow::Result<Figures> {
    let rows = expected.test.len();
    ensure!(stage.decisions.len() == rows + expected.several.len(), "there are more or fewer decisions than rows");
    let (decisions, several) = stage.decisions.split_at(rows);
    let judged: Vec<(&Option<String>, &Decision)> = expected.test.iter().map(|(_, app)| app).zip(decisions).collect();
    let with_app = judged.iter().filter(|(app, _)| app.is_some()).count();
    let is_best = |app: &Option<String>, decision: &Decision| app.is_some() && *app == decision.best;
    let is_right = |app: &Option<String>, decision: &Decision| app.as_slice() == decision.delivered;
    let delivered = judged.iter().filter(|(_, decision)| !decision.delivered.is_empty());
    let held = rows - delivered.clone().count();
    let right = delivered.filter(|(app, decision)| is_right(app, decision)).count();
    let both = expected.several.iter().zip(several).filter(|((_, apps), decision)| same(apps, &decision.delivered));
    let times = Sample::new(stage.decisions.iter().map(|decision| decision.nanoseconds / 1000.0).collect())?;
    Ok(Figures {
        examples: stage.examples,
        rows,
        top_1: share(judged.iter().filter(|(app, decision)| is_best(app, decision)).count(), with_app),
        right_within_allowed: share(
            right_within(&judged.iter().map(|(app, one)| (one.confidence, is_best(app, one))).collect::<Vec<_>>()),
            with_app,
        ),
        right: share(right, rows),
        wrong: share(rows - held - right, rows),
        held: share(held, rows),
        several: (!several.is_empty()).then(|| share(both.count(), several.len())),
        median_micros: times.median(),
        slow_micros: times.percentile(99.0),
    })
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
    let allowed = ALLOWED_WRONG * 100.0;
    let header = ["examples", "top-1", &format!("right at {allowed:.0} % wrong"), "right", "wrong", "held", "several"]
        .map(str::to_owned);
    let mut rows = vec![[&header[..], &["p50 µs".to_owned(), "p99 µs".to_owned()]].concat()];
    for one in figures {
        let shares = [one.top_1, one.right_within_allowed, one.right, one.wrong, one.held];
        let mut row = vec![one.examples.to_string()];
        row.extend(shares.map(|share| format!("{share:.3}")));
        row.push(one.several.map_or_else(String::new, |several| format!("{several:.3}")));
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
        "several": figures.several,
        "median_micros": figures.median_micros,
        "slow_micros": figures.slow_micros,
    })
}

#[cfg(test)]
mod tests;
