//! `patchboard usage`: shows used models and their cost.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::run::live_display::format_count as shown;
use super::{ServerTarget, block_on};
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable};

#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// What to sum up by.
    #[arg(long, value_enum, default_value_t = GroupBy::Day)]
    by: GroupBy,
    /// Only from this moment on: a day such as 2026-11-01, or a time such as 2026-11-01T08:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// How many rows at most.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON, one row a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum GroupBy {
    Day,
    Model,
    Provider,
    Agent,
    Session,
}

impl GroupBy {
    fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Model => "model",
            Self::Provider => "provider",
            Self::Agent => "agent",
            Self::Session => "session",
        }
    }
}

pub(super) fn run(args: UsageArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        let mut client = args.target.connect().await?;
        let params = json!({ "group_by": args.by.word(), "since": args.since.map(|since| since.to_string()), "limit": args.limit.min(500) });
        let rows = client.list("usage.report", params, args.limit).await?;
        if args.json {
            for row in &rows {
                output::print_line(&row.to_string());
            }
            return Ok(ExitCode::SUCCESS);
        }
        let budget = client.call("budget.status", json!({})).await?;
        show(args.by, &rows);
        show_budget(&budget);
        Ok(ExitCode::SUCCESS)
    })
}

/// A date means its midnight in local time.
pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    let day = || text.parse::<Date>().ok()?.to_zoned(TimeZone::system()).ok().map(|start| start.timestamp());
    let moment = text.parse::<Timestamp>().ok().or_else(day);
    moment.ok_or_else(|| "write a day such as 2026-11-01, or a time such as 2026-11-01T08:00:00Z".to_owned())
}

fn show(by: GroupBy, rows: &[Value]) {
    if rows.is_empty() {
        return output::eprint_line("no model was used yet");
    }
    let number = |row: &Value, key: &str| row.get(key).and_then(Value::as_u64).unwrap_or(0);
    let mut table = TextTable::new([
        Column::whole(&by.word().to_uppercase()),
        Column::number("CALLS"),
        Column::number("INPUT"),
        Column::number("OUTPUT"),
        Column::number("COST"),
    ]);
    for row in rows {
        table.push_row([
            TableCell::painted(row.get("key").and_then(Value::as_str).unwrap_or_default(), TextRole::Name),
            shown(number(row, "calls")).into(),
            shown(number(row, "input_tokens")).into(),
            shown(number(row, "output_tokens")).into(),
            format!("${:.4}", row.get("cost_usd").and_then(Value::as_f64).unwrap_or(0.0)).into(),
        ]);
        match number(row, "estimated_calls") {
            0 => {}
            1 => table.add_remark("1 call is estimated: its provider gave no figures"),
            some => table.add_remark(&format!("{some} calls are estimated: their provider gave no figures")),
        }
    }
    table.print();
}

fn show_budget(budget: &Value) {
    for (key, words) in [("daily", "today"), ("monthly", "this month")] {
        let line = budget.get(key).unwrap_or(&Value::Null);
        let number = |key: &str| line.get(key).and_then(Value::as_u64);
        if let (Some(used), Some(limit)) = (number("used"), number("limit")) {
            output::print_line(&format!("budget {words}: {} of {} tokens", shown(used), shown(limit)));
        }
    }
    for key in budget.get("keys").and_then(Value::as_array).into_iter().flatten() {
        let name = output::one_line(key.get("key").and_then(Value::as_str).unwrap_or_default());
        let spent = |period: &str| {
            let line = key.get(period).unwrap_or(&Value::Null);
            let used = shown(line.get("used").and_then(Value::as_u64).unwrap_or_default());
            match line.get("limit").and_then(Value::as_u64) {
                Some(limit) => format!("{used} of {} tokens", shown(limit)),
                None => format!("{used} tokens"),
            }
        };
        output::print_line(&format!("key {name}: {} today, {} this month", spent("daily"), spent("monthly")));
    }
}
