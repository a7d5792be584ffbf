//! `patchboard usage`

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::failure::Failure;
use super::{Target, block_on, output};

#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    #[command(flatten)]
    target: Target,
    /// What to sum up by.
    #[arg(long, value_enum, default_value_t = By::Day)]
    by: By,
    /// Only from this moment on, such as 2026-11-01T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// How many rows at most.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON, one row a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    Day,
    Model,
    Provider,
    Agent,
    Session,
}

impl By {
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

pub(super) fn run(args: UsageArgs) -> Result<ExitCode, Failure> {
    block_on(async move {
        let mut client = args.target.connect().await?;
        let params = json!({ "group_by": args.by.word(), "since": args.since, "limit": args.limit.min(500) });
        let rows = client.list("usage.report", params, args.limit).await?;
        if args.json {
            for row in &rows {
                output::line(&row.to_string());
            }
            return Ok(ExitCode::SUCCESS);
        }
        let budget = client.call("budget.status", json!({})).await?;
        show(args.by, &rows);
        show_budget(&budget);
        Ok(ExitCode::SUCCESS)
    })
}

fn show(by: By, rows: &[Value]) {
    if rows.is_empty() {
        return output::error("no model was used yet");
    }
    let number = |row: &Value, key: &str| row.get(key).and_then(Value::as_u64).unwrap_or(0);
    let shown: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let estimated = match number(row, "estimated_calls") {
                0 => String::new(),
                some => format!(" ({some} estimated)"),
            };
            vec![
                row.get("key").and_then(Value::as_str).unwrap_or_default().to_owned(),
                number(row, "calls").to_string(),
                number(row, "input_tokens").to_string(),
                number(row, "output_tokens").to_string(),
                format!("${:.4}{estimated}", row.get("cost_usd").and_then(Value::as_f64).unwrap_or(0.0)),
            ]
        })
        .collect();
    let head = by.word().to_uppercase();
    output::table(&[&head, "CALLS", "INPUT", "OUTPUT", "COST"], &shown);
}

fn show_budget(budget: &Value) {
    for (key, words) in [("daily", "today"), ("monthly", "this month")] {
        let line = budget.get(key).unwrap_or(&Value::Null);
        let number = |key: &str| line.get(key).and_then(Value::as_u64);
        if let (Some(used), Some(limit)) = (number("used"), number("limit")) {
            output::line(&format!("budget {words}: {used} of {limit} tokens"));
        }
    }
}
