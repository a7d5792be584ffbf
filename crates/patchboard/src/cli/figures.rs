//! `patchboard figures`: shows how busy, how fast and how healthy the server has been.

use std::process::ExitCode;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::{ServerTarget, block_on, moment};
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable, clock};

/// Columns of a strip chart.
const CHART_COLUMNS: usize = 24;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Debug, Args)]
pub(crate) struct FiguresArgs {
    /// Figures to show value by value, such as models.p95; left out, a summary of all is shown.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    target: ServerTarget,
    /// From this moment on, such as 2h for two hours ago: in steps of 10 s within the last hour, else of 2 min within
    /// the last day.
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    since: Option<Timestamp>,
    /// Print JSON: one object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: FiguresArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        let mut client = args.target.connect().await?;
        let params = json!({ "series": args.names, "since": args.since.map(|since| since.to_string()) });
        let report = client.call("figure.read", params).await?;
        if args.json {
            output::print_line(&report.to_string());
        } else if args.names.is_empty() {
            show_summary(&report);
            show_flows(&report);
        } else {
            show_values(&report);
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn show_summary(report: &Value) {
    let columns = ["NOW", "LEAST", "MEAN", "MOST"].map(Column::number);
    let mut table = TextTable::new(
        [Column::whole("FIGURE")].into_iter().chain(columns).chain([Column::whole("COURSE")]).collect::<Vec<_>>(),
    );
    for series in list(report, "series") {
        let values = values(series);
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let unit = text(series, "unit");
        let count = known.len().max(1) as f64;
        let most = known.iter().copied().fold(f64::NAN, f64::max);
        let figures = [
            known.last().copied().unwrap_or(f64::NAN),
            known.iter().copied().fold(f64::NAN, f64::min),
            if known.is_empty() { f64::NAN } else { known.iter().sum::<f64>() / count },
            most,
        ];
        let mut cells = vec![TableCell::painted(text(series, "name"), TextRole::Name)];
        cells.extend(figures.into_iter().map(|figure| shown(figure, unit).into()));
        cells.push(chart(&values, CHART_COLUMNS).into());
        table.push_row(cells);
    }
    table.print();
    let step = report.get("step_seconds").and_then(Value::as_u64).unwrap_or(0);
    output::print_line(&format!("steps of {step} s since {}", clock::local(text(report, "start"), clock::MINUTE)));
}

fn show_flows(report: &Value) {
    let flows = list(report, "flows");
    if flows.is_empty() {
        return;
    }
    output::print_line("");
    let columns =
        [Column::whole("WHO"), Column::whole("TURNED TO"), Column::number("RECENTLY"), Column::number("IN ALL")];
    let mut table = TextTable::new(columns);
    for flow in flows {
        let number = |key: &str| flow.get(key).and_then(Value::as_u64).unwrap_or(0).to_string();
        table.push_row([
            TableCell::painted(text(flow, "from"), TextRole::Name),
            text(flow, "to").into(),
            number("recent").into(),
            number("total").into(),
        ]);
    }
    table.print();
}

fn show_values(report: &Value) {
    let series = list(report, "series");
    let titles = series.iter().map(|series| Column::number(text(series, "name")));
    let mut table = TextTable::new([Column::whole("AT")].into_iter().chain(titles).collect::<Vec<_>>());
    let rows: Vec<Vec<Option<f64>>> = series.iter().map(values).collect();
    let start: Option<Timestamp> = text(report, "start").parse().ok();
    let step = report.get("step_seconds").and_then(Value::as_i64).unwrap_or(0);
    for index in 0..rows.iter().map(Vec::len).max().unwrap_or(0) {
        let passed = SignedDuration::from_secs(step.saturating_mul(i64::try_from(index).unwrap_or(0)));
        let at = start.and_then(|start| start.checked_add(passed).ok()).map(|at| at.to_string()).unwrap_or_default();
        let mut cells = vec![clock::local(&at, clock::SECOND).into()];
        for (values, series) in rows.iter().zip(series) {
            let value = values.get(index).copied().flatten().unwrap_or(f64::NAN);
            cells.push(shown(value, text(series, "unit")).into());
        }
        table.push_row(cells);
    }
    table.print();
}

fn list<'a>(report: &'a Value, key: &str) -> &'a [Value] {
    report.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn values(series: &Value) -> Vec<Option<f64>> {
    list(series, "values").iter().map(Value::as_f64).collect()
}

fn shown(figure: f64, unit: &str) -> String {
    match unit {
        _ if figure.is_nan() => "–".to_owned(),
        "seconds" if figure < 1.0 => format!("{:.1} ms", figure * 1000.0),
        "seconds" => format!("{figure:.1} s"),
        _ if figure.fract() == 0.0 => format!("{figure:.0}"),
        _ => format!("{figure:.1}"),
    }
}

/// The course of the values, each column the largest of its share; a space where nothing is known.
fn chart(values: &[Option<f64>], columns: usize) -> String {
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let columns = columns.min(values.len());
    let column = |index: usize| {
        let (first, end) = (index * values.len() / columns, (index + 1) * values.len() / columns);
        let share = values.get(first..end).unwrap_or_default();
        let Some(value) = share.iter().flatten().copied().reduce(f64::max) else { return ' ' };
        let height = if most > 0.0 { (value / most * (BARS.len() - 1) as f64).round() } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 7")]
        let index = height.max(0.0) as usize;
        BARS.get(index).copied().unwrap_or('█')
    };
    (0..columns).map(column).collect()
}

#[cfg(test)]
mod tests;
