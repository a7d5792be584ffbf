//! `patchboard audit`: shows who did what.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::CommandFailure;
use super::{ServerTarget, block_on, moment};
use crate::output;
use crate::output::{Column, TableCell, TextRole, TextTable, clock};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    target: ServerTarget,
    /// Only from this moment on: a day such as 2026-11-01, a time such as 2026-11-01T08:00:00Z, or how long ago, such
    /// as 2h.
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    since: Option<Timestamp>,
    /// Only before this moment.
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    until: Option<Timestamp>,
    /// Only what this one did: `local`, `operator`, `token`, or a kind and a name such as `app:notes`.
    #[arg(long, value_name = "WHO")]
    who: Option<String>,
    /// Only this action or group of actions, such as `tool.call` or `tool`.
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Only what was done to this: a tool, a conversation, a plugin.
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
    /// Only what came in this way: gateway, webhook, runs, hub, bridge, mcp or cli.
    #[arg(long, value_name = "SURFACE")]
    surface: Option<String>,
    /// Only the actions of this run.
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// How many rows at most, the newest.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Print JSON, one row a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: AuditArgs) -> Result<ExitCode, CommandFailure> {
    block_on(async move {
        let mut client = args.target.connect().await?;
        let params = json!({
            "since": args.since.map(|since| since.to_string()), "until": args.until.map(|until| until.to_string()),
            "who": args.who, "surface": args.surface, "action": args.action, "subject": args.subject, "run": args.run,
            "limit": args.limit.min(500),
        });
        let rows = client.list("audit.read", params, args.limit).await?;
        if args.json {
            rows.iter().for_each(|row| output::print_line(&row.to_string()));
        } else {
            show(&rows);
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn show(rows: &[Value]) {
    if rows.is_empty() {
        return output::eprint_line("nothing is on record");
    }
    let mut table = TextTable::new([
        Column::whole("AT"),
        Column::whole("WHO"),
        Column::whole("FROM"),
        Column::whole("ACTION"),
        Column::whole("SUBJECT"),
        Column::wrap("DETAIL"),
    ]);
    for row in rows {
        let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default();
        table.push_row([
            clock::local(text("at"), clock::SECOND).into(),
            TableCell::painted(text("who"), TextRole::Name),
            text("surface").into(),
            text("action").into(),
            text("subject").into(),
            text("detail").into(),
        ]);
    }
    table.print();
}
