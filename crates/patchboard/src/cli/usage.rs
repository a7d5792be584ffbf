//! `patchboard usage`: shows used models and their cost.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::run::live_display::format_count as shown;
use super::{ServerTarget, block_on, moment};
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable};

#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// What to sum up by.
    #[arg(long, value_enum, value_name = "KEY[,KEY]", value_delimiter = ',', default_values_t = [GroupBy::Day])]
    by: Vec<GroupBy>,
    /// Only from this moment on: a day such as 2026-11-01, a time such as 2026-11-01T08:00:00Z, or how long ago, such
    /// as 2h.
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
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
        let keys: Vec<&str> = args.by.iter().map(|key| key.word()).collect();
        if keys.len() > 2 {
            return Err(CommandFailure::unusable("--by takes one key or two").hint("such as `--by day,agent`"));
        }
        let params = json!({ "group_by": keys.join(","), "since": args.since.map(|since| since.to_string()), "limit": args.limit.min(500) });
        let rows = client.list("usage.report", params, args.limit).await?;
        if args.json {
            for row in &rows {
                output::print_line(&row.to_string());
            }
            return Ok(ExitCode::SUCCESS);
        }
        let budget = client.call("budget.status", json!({})).await?;
        show(&keys, &rows);
        show_budget(&budget);
        Ok(ExitCode::SUCCESS)
    })
}

fn show(keys: &[&str], rows: &[Value]) {
    if rows.is_empty() {
        return output::eprint_line("no model was used yet");
    }
    let number = |row: &Value, key: &str| row.get(key).and_then(Value::as_u64).unwrap_or(0);
    let columns = keys.iter().map(|key| Column::whole(&key.to_uppercase()));
    let figures = ["CALLS", "INPUT", "OUTPUT", "COST"].map(Column::number);
    let mut table = TextTable::new(columns.chain(figures).collect::<Vec<_>>());
    for row in rows {
        let key =
            |name: &str| TableCell::painted(row.get(name).and_then(Value::as_str).unwrap_or_default(), TextRole::Name);
        let named = ["key", "then"].into_iter().take(keys.len()).map(key);
        let figures = [
            shown(number(row, "calls")).into(),
            shown(number(row, "input_tokens")).into(),
            shown(number(row, "output_tokens")).into(),
            format!("${:.4}", row.get("cost_usd").and_then(Value::as_f64).unwrap_or(0.0)).into(),
        ];
        table.push_row(named.chain(figures).collect::<Vec<_>>());
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
    for spender in budget.get("spenders").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| spender.get(key).and_then(Value::as_str).unwrap_or_default();
        for (key, words) in [("daily", "today"), ("monthly", "this month")] {
            let number = |figure: &str| spender.get(key)?.get(figure)?.as_u64();
            if let (Some(used), Some(limit)) = (number("used"), number("limit")) {
                let spender = output::one_line(&format!("{} {}", text("kind"), text("name")));
                output::print_line(&format!("budget of {spender} {words}: {} of {} tokens", shown(used), shown(limit)));
            }
        }
    }
}
