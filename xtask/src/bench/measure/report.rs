//! The table and the file.

use std::time::Duration;

use serde_json::{Value, json};

use super::figure::{Change, Figure, Judgement};
use crate::bench::options::Options;

/// Other programs that use more of the machine are named: the figures may be theirs.
const QUIET: f64 = 0.1;

/// What came of one row.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) row: &'static str,
    /// The share of the machine that other programs used just before.
    pub(super) others: Option<f64>,
    /// Its figures, or why they could not be taken.
    pub(super) result: Result<Vec<Figure>, String>,
}

/// Said when a row is done.
pub(super) fn progress(outcome: &Outcome, took: Duration) -> Vec<String> {
    let mut lines = match &outcome.result {
        Ok(figures) => {
            figures.iter().map(|figure| format!("{}: {}", figure.name, figure.unit.show(figure.value))).collect()
        }
        Err(why) => vec![format!("not measured: {why}")],
    };
    lines.push(format!("took {:.1} s", took.as_secs_f64()));
    lines
}

const COLUMNS: usize = 9;
/// The columns of another build, which is not always there.
const OTHER_BUILD: std::ops::Range<usize> = 6..8;

pub(super) fn table(outcomes: &[Outcome]) -> Vec<String> {
    let head = ["figure", "value", "baseline", "ratio", "target", "ok", "other build", "this to other", ""];
    let mut rows = vec![head.map(str::to_owned)];
    for outcome in outcomes {
        match &outcome.result {
            Ok(figures) => rows.extend(figures.iter().map(cells)),
            Err(why) => {
                let mut row = [const { String::new() }; COLUMNS];
                row[0] = outcome.row.to_owned();
                row[5] = "?".to_owned();
                row[8] = format!("not measured: {why}");
                rows.push(row);
            }
        }
    }
    let compared =
        outcomes.iter().flat_map(|outcome| outcome.result.iter().flatten()).any(|figure| figure.other.is_some());
    if !compared {
        rows.iter_mut().flat_map(|row| &mut row[OTHER_BUILD]).for_each(String::clear);
    }
    let widths: Vec<usize> = (0..COLUMNS)
        .map(|at| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut lines: Vec<String> = rows.iter().map(|row| aligned(row, &widths)).collect();
    lines.push(String::new());
    lines.extend(outcomes.iter().filter_map(disturbed));
    lines.push(summary(outcomes));
    lines
}

fn disturbed(outcome: &Outcome) -> Option<String> {
    let others = outcome.others.filter(|others| *others > QUIET)?;
    let percent = others * 100.0;
    Some(format!("{}: other programs used {percent:.0} % of the processors just before it was measured", outcome.row))
}

fn cells(figure: &Figure) -> [String; COLUMNS] {
    let ok = match figure.judgement() {
        Judgement::Met => "yes",
        Judgement::Missed => "NO",
        Judgement::NothingAsked => "",
    };
    [
        figure.name.clone(),
        figure.unit.show(figure.value),
        figure.baseline.map(|baseline| figure.unit.show(baseline)).unwrap_or_default(),
        figure.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        figure.target.show(figure.unit),
        ok.to_owned(),
        figure.other.map(|other| figure.unit.show(other.value)).unwrap_or_default(),
        compared(figure),
        figure.note.clone(),
    ]
}

/// `1.07 ± 0.03 better`
fn compared(figure: &Figure) -> String {
    let Some(other) = figure.other else { return String::new() };
    let Some(ratio) = other.ratio else { return "–".to_owned() };
    let change = match other.change(figure.unit) {
        Some(Change::Better) => " better",
        Some(Change::Worse) => " WORSE",
        Some(Change::Same) | None => "",
    };
    format!("{ratio:.2} ± {:.2}{change}", other.spread)
}

/// Names and notes to the left, numbers to the right.
fn aligned(row: &[String; COLUMNS], widths: &[usize]) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        if *width == 0 {
            continue;
        }
        let is_number = (1..=4).contains(&at) || at == OTHER_BUILD.start;
        line.push_str(if is_number { &padding } else { "" });
        line.push_str(cell);
        line.push_str(if is_number { "" } else { &padding });
        line.push_str("  ");
    }
    line.trim_end().to_owned()
}

fn summary(outcomes: &[Outcome]) -> String {
    let figures = || outcomes.iter().filter_map(|outcome| outcome.result.as_ref().ok()).flatten();
    let judged = |wanted: Judgement| figures().filter(|figure| figure.judgement() == wanted).count();
    let unmeasured = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
    format!(
        "{} targets met, {} missed; {unmeasured} rows not measured",
        judged(Judgement::Met),
        judged(Judgement::Missed)
    )
}

pub(super) fn json(outcomes: &[Outcome], options: &Options) -> Value {
    let figures: Vec<Value> = outcomes
        .iter()
        .flat_map(|outcome| outcome.result.iter().flatten().map(|figure| json_figure(outcome.row, figure)))
        .collect();
    let not_measured: Vec<Value> = outcomes
        .iter()
        .filter_map(|outcome| outcome.result.as_ref().err().map(|why| json!({ "row": outcome.row, "why": why })))
        .collect();
    let others: serde_json::Map<String, Value> =
        outcomes.iter().map(|outcome| (outcome.row.to_owned(), json!(outcome.others))).collect();
    json!({
        "cores": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "seconds": options.seconds,
        "turns": options.turns,
        "growth": options.growth,
        "pairs": options.against.as_ref().map(|_| options.pairs),
        "used_by_others": others,
        "figures": figures,
        "not_measured": not_measured,
    })
}

fn json_figure(row: &str, figure: &Figure) -> Value {
    json!({
        "row": row,
        "figure": figure.name,
        "value": figure.value,
        "unit": figure.unit.name(),
        "baseline": figure.baseline,
        "ratio": figure.ratio(),
        "target": figure.target.show(figure.unit),
        "ok": match figure.judgement() {
            Judgement::Met => Value::Bool(true),
            Judgement::Missed => Value::Bool(false),
            Judgement::NothingAsked => Value::Null,
        },
        "note": figure.note,
        "other_build": figure.other.map(|other| json!({
            "value": other.value,
            "ratio": other.ratio,
            "spread": other.spread,
        })),
    })
}

#[cfg(test)]
mod tests;
